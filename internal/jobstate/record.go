package jobstate

import (
	"errors"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// recordType is the first byte of a record (part of the format: numbers are
// never used again for something else).
type recordType uint8

const (
	recEnqueue recordType = 1 + iota
	recClaim
	recWait
	recFinal
	recDrop
	recExtend
	recAsk
	recNote
	recPause
	recWorker
	recLeave
	recEpoch
	recGone
	recHold
	recSet
	recTick
	recReplace
	recStop
	recStart
	recMove
	recTake
	recArrive
	recSignal
	recKey
	recAdopt
	recPut
	recCall
)

// Salvage is Apply for a repair: records that do not fit, because others before
// them are lost, are passed over and counted. Its error wraps ErrNewer.
func (s *State) Salvage(body []byte, file uint32, at int64) (skipped int, err error) {
	r, err := newReader(body, file, at)
	if err != nil {
		return 1, nil
	}
	for {
		t, ok := r.next()
		if !ok {
			s.clock = max(s.clock, r.base)
			s.forgetCalls()
			if r.err != nil {
				skipped++
			}
			return skipped, nil
		}
		if err := s.applyRecord(t, r); errors.Is(err, ErrNewer) {
			return skipped, err
		} else if err != nil {
			r.err = nil
			skipped++
		}
	}
}

// Apply replays the records of one frame's body, which lies at offset at of
// file. Its error wraps ErrRecord: the state is then of no use any more.
func (s *State) Apply(body []byte, file uint32, at int64) error {
	r, err := newReader(body, file, at)
	if err != nil {
		return err
	}
	s.promoteAll(Now{Wall: r.wall, Steady: r.base})
	for {
		t, ok := r.next()
		if !ok {
			s.clock = max(s.clock, r.base)
			s.forgetCalls()
			s.complete = nil // their records came with the frame
			return r.err
		}
		if err := s.applyRecord(t, r); err != nil {
			return err
		}
		if len(r.b) != 0 {
			r.bad(fmt.Sprintf("%d bytes too many in a record of type %d", len(r.b), t))
			return r.err
		}
	}
}

func (s *State) applyRecord(t recordType, r *reader) error {
	switch t {
	case recEnqueue:
		return s.readEnqueue(r)
	case recClaim:
		return s.readClaim(r)
	case recWait:
		return s.readWait(r)
	case recFinal:
		return s.readFinal(r)
	case recDrop:
		return s.readDrop(r)
	case recExtend:
		return s.readExtend(r)
	case recAsk:
		return s.readAsk(r)
	case recNote:
		return s.readNote(r)
	case recPause:
		return s.readPause(r)
	case recWorker:
		return s.readWorker(r)
	case recLeave:
		return s.readLeave(r)
	case recEpoch:
		return s.readEpoch(r)
	case recGone:
		return s.readGone(r)
	case recHold:
		return s.readHold(r)
	case recSet:
		return s.readSet(r)
	case recTick:
		return s.readTick(r)
	case recReplace:
		return s.readReplace(r)
	case recStop:
		return s.readStop(r)
	case recStart:
		return s.readStart(r)
	case recCall:
		return s.readCall(r)
	}
	return s.applyMoveRecord(t, r)
}

// applyMoveRecord is applyRecord for those of moves.
func (s *State) applyMoveRecord(t recordType, r *reader) error {
	switch t {
	case recMove:
		return s.readMove(r)
	case recTake:
		return s.readTake(r)
	case recArrive:
		return s.readArrive(r)
	case recSignal:
		return s.readSignal(r)
	case recKey:
		return s.readKey(r)
	case recAdopt:
		return s.readAdopt(r)
	case recPut:
		return s.readPut(r)
	}
	r.newer(t)
	return r.err
}

// find returns a job that a record names.
func (s *State) find(r *reader, queue []byte, id broker.ID) *job {
	if r.err != nil {
		return nil
	}
	if q := s.queues[string(queue)]; q != nil {
		if j := q.job(id); j != nil {
			return j
		}
	}
	r.bad(fmt.Sprintf("job %s of queue %q is not there", id, queue))
	return nil
}
