package filebroker

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// race is a store where one process reads what another compacts. Nobody has a
// watch: the reader holds its mutex while the other compacts, and a bell's answer
// that waits for that mutex would keep the bubble's clock, and so whoever waits
// for it, from going on.
type race struct {
	*testing.T
	m      *crashfs.Machine
	reader *crashfs.Process
	writer *Broker
	jobs   int64
}

func newRace(t *testing.T) *race {
	r := &race{T: t, m: crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour, NoWatch: true})}
	r.reader = r.m.Process()
	var err error
	r.writer, err = openOn(r.m.Process())
	must(t, err)
	t.Cleanup(func() { must(t, r.writer.Close()) })
	r.compact()
	return r
}

// compact fills some segments, and lets a compaction drop them.
func (r *race) compact() {
	r.Helper()
	for range 20 {
		_, err := r.writer.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		must(r, err)
		r.jobs++
	}
	got, err := r.writer.Compact(context.Background())
	must(r, err)
	if got.Checkpoint == 0 || got.Removed == 0 {
		r.Fatalf("compacted %+v", got)
	}
}

// at runs fn before the reader's n-th opening of a checkpoint, or first one of
// a segment after n checkpoints. LOCK is not held there.
func (r *race) at(n int, fn func() error) (ran *bool) {
	var mu sync.Mutex
	ran = new(bool)
	r.m.Inject(func(op crashfs.Op) error {
		mu.Lock()
		index := op.Kind == crashfs.OpOpen && strings.HasSuffix(op.Path, ".idx")
		segment := op.Kind == crashfs.OpOpen && strings.HasSuffix(op.Path, ".log") && n == 0
		now := op.Process == r.reader && !*ran && (index || segment)
		if now {
			n--
			now = n < 0
			*ran = now
		}
		mu.Unlock()
		if !now {
			return nil
		}
		return fn()
	})
	return ran
}

// counts holds what the reader counts against what was enqueued.
func (r *race) counts(b *Broker) error {
	got, err := b.Counts(context.Background(), "q")
	if err == nil && (len(got) != 1 || got[0].Ready != r.jobs) {
		err = fmt.Errorf("%d jobs are ready, counted %+v", r.jobs, got)
	}
	return err
}

// TestAHandleThatOnlyReadsIsOvertaken lets a compaction drop each file that a
// handle far behind is about to load, and then fails to open each.
func TestAHandleThatOnlyReadsIsOvertaken(t *testing.T) {
	for _, fails := range []error{nil, syscall.EMFILE} {
		more := true
		for n := 0; more; n++ {
			t.Run(fmt.Sprintf("%v at %d", fails, n), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					r := newRace(t)
					b, err := openOn(r.reader)
					must(t, err)
					defer func() { must(t, b.Close()) }()
					r.compact()
					time.Sleep(pollEvery + pollEvery/8) // what it prepares is prepared, and its next look is a while off
					ran := r.at(n, func() error {
						if fails == nil {
							r.compact()
						}
						return fails
					})
					err = r.counts(b)
					r.m.Inject(nil)
					if more = *ran; more && fails == nil && err != nil {
						t.Errorf("counts, overtaken at opening %d: %v", n, err)
					}
					must(t, r.counts(b))
					if h, err := b.Health(context.Background()); err != nil || h.Status != broker.Healthy {
						t.Errorf("health afterwards: %+v %v", h, err)
					}
				})
			})
		}
	}
}

// TestAHandleThatReadsOnIsOvertaken lets a compaction drop the segment that a handle
// goes on in, after it saw that CURRENT is what it was.
func TestAHandleThatReadsOnIsOvertaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRace(t)
		b, err := openOn(r.reader)
		must(t, err)
		must(t, r.counts(b))
		for range 4 { // more segments than it has open
			synctest.Wait() // the next one is prepared
			_, err := r.writer.cur.Load().seal(context.Background())
			must(t, err)
			_, err = r.writer.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
			must(t, err)
			r.jobs++
		}
		before := rare.Count(rare.ReadOvertaken)
		ran := r.at(0, func() error { r.compact(); return nil })
		err = r.counts(b)
		r.m.Inject(nil)
		must(t, err)
		if !*ran || rare.Count(rare.ReadOvertaken) == before {
			t.Errorf("nothing overtook it (%t)", *ran)
		}
		must(t, r.counts(b))
		must(t, b.Close())
	})
}

// TestOpenIsOvertaken lets a compaction drop each file that the first call
// after Open, which loads the state, is about to load.
func TestOpenIsOvertaken(t *testing.T) {
	more := true
	for n := 0; more; n++ {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRace(t)
				b, err := openLazy(r.reader)
				must(t, err)
				synctest.Wait() // it prepares segments
				ran := r.at(n, func() error { r.compact(); return nil })
				err = r.counts(b)
				r.m.Inject(nil)
				more = *ran
				must(t, err)
				must(t, b.Close())
			})
		})
	}
	if t.Failed() {
		return
	}
	synctest.Test(t, func(t *testing.T) { // Open itself looks only at the head of the checkpoint
		r := newRace(t)
		ran := r.at(0, func() error { r.compact(); return nil })
		b, err := openLazy(r.reader)
		r.m.Inject(nil)
		must(t, err)
		if !*ran {
			t.Error("Open read no checkpoint")
		}
		must(t, r.counts(b))
		must(t, b.Close())
	})
}
