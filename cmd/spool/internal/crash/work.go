package crash

import (
	"encoding/binary"
	"math/rand/v2"

	"github.com/spoolq/spool/broker"
)

// kind is what a job of a run is for.
type kind string

const (
	plain   kind = "plain"   // runs, and may fail a few times
	fragile kind = "fragile" // has three attempts, so that crashes and failures kill some
	later   kind = "later"   // is not due before the end: waits, or is cancelled, requeued or deleted
	keyed   kind = "keyed"   // has one of few keys, each held for longer than the run
)

// fragileAttempts is the number of runs of a fragile job.
const fragileAttempts = 3

// payload returns the bytes of a job: up to 2 KiB of any values, made from the
// job's id and nothing else, so that everyone can tell whether they are right.
// Some are empty.
func payload(id broker.ID) []byte {
	r := rand.New(rand.NewPCG(binary.LittleEndian.Uint64(id[:8]), binary.LittleEndian.Uint64(id[8:])))
	n := r.IntN(200)
	if r.IntN(10) == 0 {
		n = r.IntN(2 << 10)
	}
	p := make([]byte, n)
	for i := range p {
		p[i] = byte(r.Uint32())
	}
	return p
}

// result returns the bytes that an ack leaves with a job: nil for half of them.
func result(id broker.ID, token broker.Token) []byte {
	if id[15]&1 == 0 {
		return nil
	}
	return append(binary.LittleEndian.AppendUint64([]byte("result\x00"), uint64(token)), id[:]...)
}
