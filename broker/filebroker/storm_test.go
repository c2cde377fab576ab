package filebroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// storm is a store that is compacted all the time while others use it.
type storm struct {
	testing.TB
	dir                           string
	over                          atomic.Bool
	room                          chan struct{} // for batches that wait; a full one holds up who enqueues
	done                          chan struct{} // after a compaction, when somebody waits for it
	compactions, moved, removed   atomic.Int64
	enqueued, acked, reads, opens atomic.Int64
}

func (s *storm) open() *Broker {
	b, err := Open(s.dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler), segment: 64 << 10})
	if err != nil {
		s.Error(err)
		s.over.Store(true)
		return nil
	}
	return b
}

// payloadOf is what a job has to have as its payload.
func payloadOf(id broker.ID) []byte { return bytes.Repeat(id[:], 1+int(id[15])%40) }

func (s *storm) whole(j *broker.Job) error {
	if !bytes.Equal(j.Payload, payloadOf(j.ID)) {
		return fmt.Errorf("job %v, %v (%s), has a payload of %d bytes, not its own", j.ID, j.State, j.Reason, len(j.Payload))
	}
	return nil
}

// each calls fn with a handle of its own until the storm is over.
func (s *storm) each(fn func(b *Broker) error) {
	b := s.open()
	for b != nil && !s.over.Load() {
		if err := fn(b); err != nil {
			s.Error(err)
			s.over.Store(true)
		}
	}
	if b != nil {
		if err := b.Close(); err != nil {
			s.Error(err)
		}
	}
}

// stormBatch is how many jobs are enqueued at once.
const stormBatch = 16

func (s *storm) enqueue(b *Broker) error {
	select {
	case s.room <- struct{}{}:
	case <-time.After(10 * time.Millisecond):
		return nil
	}
	jobs := make([]broker.NewJob, stormBatch)
	for i := range jobs {
		id := broker.NewID()
		jobs[i] = broker.NewJob{ID: id, Task: "t", Payload: payloadOf(id)}
	}
	_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
	s.enqueued.Add(int64(len(jobs)))
	return err
}

// work claims jobs, releases some of them, and acks the rest.
func (s *storm) work(b *Broker) error {
	got, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: stormBatch, Wait: time.Second, Worker: "w"})
	if err != nil {
		return err
	}
	list := make([]broker.Settlement, len(got.Leases))
	for i, l := range got.Leases {
		if err := s.whole(&l.Job); err != nil {
			return err
		}
		list[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
		if rand.IntN(3) == 0 {
			list[i].Kind = broker.Release
		}
	}
	settled, err := b.Settle(context.Background(), broker.NewCall(), list)
	for i, a := range settled {
		if err = errors.Join(err, a.Err); list[i].Kind == broker.Ack && a.Err == nil {
			if s.acked.Add(1)%stormBatch == 0 {
				<-s.room
			}
		}
	}
	return err
}

func (s *storm) read(b *Broker) error {
	page, err := b.List(context.Background(), broker.Filter{Queue: "q", States: []broker.State{broker.Ready}}, "", 10)
	for i := range page.Jobs {
		err = errors.Join(err, s.whole(&page.Jobs[i]))
		s.reads.Add(1)
	}
	s.next() // or nobody else gets the processor
	return err
}

// next waits for the next compaction, but not long.
func (s *storm) next() {
	select {
	case <-s.done:
	case <-time.After(5 * time.Millisecond):
	}
}

func (s *storm) reopen(*Broker) error {
	b := s.open()
	if b == nil {
		return nil
	}
	s.opens.Add(1)
	return errors.Join(s.read(b), b.Close())
}

func (s *storm) compact(b *Broker) error {
	c, err := b.Compact(context.Background())
	if c.Checkpoint > 0 {
		s.compactions.Add(1)
		select {
		case s.done <- struct{}{}:
		default:
		}
	} else {
		s.next() // the other one is at it
	}
	s.moved.Add(c.Moved)
	s.removed.Add(int64(c.Removed))
	return err
}

// TestACompactionStorm compacts from two handles without a pause while others
// open, list, enqueue, claim, release and ack; in memory where that can be had,
// so that it is not the disk that everybody waits for. Every payload is the one of its
// job, no job is lost, and the store is sound.
func TestACompactionStorm(t *testing.T) {
	s := &storm{TB: t, dir: filepath.Join(smallDisk(t, 1<<30), "jobs"), room: make(chan struct{}, 200), done: make(chan struct{})}
	want := int64(scale(60))
	var wg sync.WaitGroup
	for _, fn := range []func(*Broker) error{s.enqueue, s.enqueue, s.work, s.work, s.read, s.reopen, s.compact, s.compact} {
		wg.Go(func() {
			s.each(func(b *Broker) error {
				if s.compactions.Load() >= want && s.moved.Load() > 0 && s.acked.Load() > 0 && s.reads.Load() > 0 && s.opens.Load() > 0 {
					s.over.Store(true)
				}
				return fn(b)
			})
		})
	}
	wg.Wait()
	t.Logf("%d compactions moved %d bytes and removed %d files; %d jobs enqueued, %d acked, %d read, %d opens",
		s.compactions.Load(), s.moved.Load(), s.removed.Load(), s.enqueued.Load(), s.acked.Load(), s.reads.Load(), s.opens.Load())
	v, err := Verify(s.dir)
	must(t, err)
	if left := s.enqueued.Load() - s.acked.Load(); !v.OK || v.Jobs != int(left) {
		t.Errorf("%d jobs are left of %d: %+v", v.Jobs, left, v.Findings)
	}
}
