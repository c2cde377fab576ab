package jobstate

import (
	"encoding/binary"

	"github.com/spoolq/spool/broker"
)

// Digest is a summary of what is kept, the same in every handle at the same
// place of the log, however far its clock is.
func (s *State) Digest() []byte {
	var n [6]int64
	for _, q := range s.queues {
		for _, t := range q.order {
			n[0] += t.n[broker.Scheduled] + t.n[broker.Ready]
			n[1] += t.n[broker.Leased]
			n[2] += t.n[broker.Done] + t.n[broker.Dead] + t.n[broker.Cancelled]
			n[3] += t.totals.Claimed
			n[4] += t.totals.Acked + t.totals.Died + t.totals.Cancelled
		}
	}
	n[5] = int64(s.seq)
	var b []byte
	for _, v := range n {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return b
}

// Clock is the broker's time of the last frame; the clock never goes back
// behind it.
func (s *State) Clock() int64 { return s.clock }

// Wrote says that the frame of w is stored. It stands for what Apply does at
// the end of a frame.
func (s *State) Wrote(w *Writer) {
	s.clock = max(s.clock, w.base)
	s.forgetCalls()
}
