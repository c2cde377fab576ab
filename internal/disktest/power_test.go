//go:build linux && (amd64 || arm64)

package disktest

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// cuts is how often the power of each file system goes.
func cuts() int {
	switch {
	case *full:
		return 500
	case testing.Short():
		return 2
	}
	return 3
}

// loaded is how many processes use the store meanwhile.
const loaded = 3

// TestAPowerCutOfARealDiskLosesNothing cuts the power of a file system under several
// processes, again and again, and looks each time at what is there then. The same
// without syncs loses jobs: else the test would prove nothing.
func TestAPowerCutOfARealDiskLosesNothing(t *testing.T) {
	for _, f := range []format{ext4(1), ext4(5), ext4(1000), xfs} {
		t.Run(f.name, func(t *testing.T) {
			seed := uint64(time.Now().UnixNano())
			s := newPowered(t, f, seed)
			for i := range cuts() {
				if err := s.live(plan{}); err != nil {
					t.Fatalf("seed %d, cut %d: %v", seed, i, err)
				}
			}
			t.Logf("%d cuts: %d jobs and %d acks were acknowledged, and %d calls were under way", cuts(), s.jobs, s.acks, s.open)
			s.control(max(1, cuts()/50))
		})
	}
}

// powered is a disk whose power goes.
type powered struct {
	*disk
	random           *rand.Rand
	jobs, acks, open int
}

func newPowered(t *testing.T, f format, seed uint64) *powered {
	dir := t.TempDir()
	t.Cleanup(func() {
		if left := loops(t, dir); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
	return &powered{disk: newDisk(t, dir, f), random: rand.New(rand.NewPCG(seed, 0))}
}

// live lets processes use a new store until the power goes, and judges what is left.
func (s *powered) live(p plan) error {
	s.t.Helper()
	l, store := s.cutOnce(p)
	for _, f := range l.jobs {
		switch {
		case f.enqueued == possible || f.acked == possible:
			s.open++
		case f.acked == made:
			s.acks++
		}
		if f.enqueued == made {
			s.jobs++
		}
	}
	return l.judge(plan{Store: store, Reboot: true})
}

// cutOnce is live without the judgement. The processes have told all that was
// acknowledged: what they tell does not lie on the disk.
func (s *powered) cutOnce(p plan) (*ledger, string) {
	s.t.Helper()
	p.Role, p.Store = asLoad, filepath.Join(s.at, "jobs")
	must(s.t, os.RemoveAll(p.Store))
	var list []*process
	for i := range loaded {
		p.Queue = queues[i]
		q := start(s.t, p)
		q.await(0, func(e event) bool { return e.Call == "open" })
		list = append(list, q)
	}
	for _, q := range list { // all of them are at work
		q.await(0, func(e event) bool { return e.Call == "ack" && !e.Begun && e.Err == "" })
	}
	<-time.After(time.Duration(s.random.IntN(30)) * time.Millisecond)
	gone := clock.Monotonic()
	s.cut()
	l := newLedger()
	for _, q := range list {
		q.await(0, func(e event) bool { return e.Call == "over" }) // it was refused
		q.kill()
		events, _ := q.told()
		l.takeUntil(events, gone)
	}
	s.unmount()
	s.mount()
	forgetBoot(s.t, p.Store)
	return l, p.Store
}

var queues = []string{"q", "held", "mended"}

// control is live without syncs, n times, each of which has to lose jobs. Where the
// kernel has written all by itself just before, or somebody on the machine has called
// sync, nothing is lost: then the power goes again, a few times.
func (s *powered) control(n int) {
	s.t.Helper()
	lost, cuts := 0, 0
	for ; lost < n && cuts < 2*n+5; cuts++ {
		l, store := s.cutOnce(plan{NoSync: true})
		if err := l.judge(plan{Store: store, Reboot: true}); err != nil {
			lost++
			var first interface{ Unwrap() []error }
			if errors.As(err, &first) && lost == 1 {
				s.t.Logf("without syncs, as it has to be: %d faults, the first: %v", len(first.Unwrap()), first.Unwrap()[0])
			}
		}
	}
	if lost < n {
		s.t.Errorf("without syncs %d of %d cuts lost nothing: this test proves nothing", cuts-lost, cuts)
	}
}
