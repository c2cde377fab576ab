package filebroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// smallStore24 is a store on a disk of 24 MB, with a process that only enqueues and
// one that works.
type smallStore24 struct {
	*testing.T
	dir              string
	producer, worker *Broker
}

func newSmallStore(t *testing.T) *smallStore24 {
	s := &smallStore24{T: t, dir: filepath.Join(smallDisk(t, 24_000_000), "jobs")}
	for _, b := range []**Broker{&s.producer, &s.worker} {
		var err error
		*b, err = Open(s.dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		t.Cleanup(func() { must(t, (*b).Close()) })
	}
	return s
}

func (s *smallStore24) enqueue(n, size int) error {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, size)}
	}
	_, err := s.producer.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
	return err
}

// fill enqueues jobs of one size until the disk is full, and says how many.
func (s *smallStore24) fill(size int) (jobs int) {
	s.Helper()
	n := max(1, min(1000, 200_000/size))
	for jobs*size < 30_000_000 { // where nothing can be mounted the disk is larger
		err := s.enqueue(n, size)
		if errors.Is(err, broker.ErrFull) {
			break
		}
		must(s, err)
		jobs += n
	}
	return jobs
}

// within repeats what fails, as long as there is progress now and then.
func (s *smallStore24) within(what string, try func() (progress, done bool, err error)) {
	s.Helper()
	const patience = 20 * time.Second // on a machine that is busy
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	for since := time.Now(); ; {
		progress, done, err := try()
		switch {
		case done:
			return
		case progress:
			since = time.Now()
		case time.Since(since) > patience:
			s.Fatalf("%s: nothing for %v: %v; %d KiB are used", what, patience, err, diskUse(s, s.dir)>>10)
		default:
			<-poll.C
		}
	}
}

// takesJobsAgain wants that new jobs are taken soon, and works off what was added.
func (s *smallStore24) takesJobsAgain() {
	s.Helper()
	s.within("enqueue again", func() (bool, bool, error) {
		err := s.enqueue(1, 10)
		return false, err == nil, err
	})
}

// TestASmallDiskThatWasFilledIsDrainedAndFilledAgain fills a disk of 24 MB by a
// process that only enqueues, with jobs of one size after the other, works all of
// them off beside it, and wants that jobs are taken again soon: nobody compacts by
// hand.
func TestASmallDiskThatWasFilledIsDrainedAndFilledAgain(t *testing.T) {
	slow(t)
	s := newSmallStore(t)
	for _, size := range []int{10, 10, 1_200_000, 100, 10} {
		added := s.fill(size)
		drained := 0
		s.within("drain", func() (bool, bool, error) {
			n, err := workOff(t, s.worker, "q", 500)
			drained += n
			return n > 0, n == 0 && err == nil, err
		})
		if drained < added {
			t.Errorf("%d of %d jobs were drained", drained, added)
		}
		s.takesJobsAgain()
		t.Logf("%d jobs of %d bytes fit", added, size)
	}
}

// TestAFullDiskWithAFewJobsInEverySegmentTakesJobsAgain leaves leased what lies
// everywhere: nothing is dropped before something is moved.
func TestAFullDiskWithAFewJobsInEverySegmentTakesJobsAgain(t *testing.T) {
	slow(t)
	for _, size := range []int{10, 1000} {
		s := newSmallStore(t)
		added, i := s.fill(size), 0
		s.within("work off", func() (bool, bool, error) {
			got, err := s.worker.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 500, Worker: "w", TTL: time.Hour})
			if err != nil || len(got.Leases) == 0 {
				return false, err == nil, err
			}
			var list []broker.Settlement
			for _, l := range got.Leases {
				if i++; i%400 > 0 {
					list = append(list, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack})
				}
			}
			settled, err := s.worker.Settle(context.Background(), broker.NewCall(), list)
			return true, false, errors.Join(err, errOf(settled))
		})
		s.takesJobsAgain()
		t.Logf("%d jobs of %d bytes fit", added, size)
	}
}

// TestADiskThatAnotherFileFillsIsDrained works 10,000 jobs off, one by one, while
// another file has all the room that there was, and takes jobs again once that is
// gone, with the same handles.
func TestADiskThatAnotherFileFillsIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const jobs = 10_000
		m := crashfs.New(crashfs.Config{Seed: 1, FollowTime: true, Uptime: time.Hour, DiskBytes: 24_000_000})
		standard := func(c *Config) { c.segment = 0 }
		producer, err := openOn(m.Process(), standard)
		must(t, err)
		defer producer.Close()
		worker, err := openOn(m.Process(), standard)
		must(t, err)
		defer worker.Close()
		fillQueue(t, producer, "q", jobs, 100)
		synctest.Wait() // segments are prepared
		other := m.Process()
		fillRest(t, other, "/other")
		time.Sleep(time.Minute)
		done, err := workOff(t, worker, "q", 1)
		if err != nil || done != jobs {
			t.Errorf("%d of %d jobs were worked off: %v", done, jobs, err)
		}
		fillRest(t, other, "/another")
		synctest.Wait()
		must(t, other.Remove("/other"))
		time.Sleep(2 * fullRetry)
		if _, err := producer.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(1)); err != nil {
			t.Errorf("with room again: %v", err)
		}
	})
}

// fillRest writes a file until the disk has no room left.
func fillRest(t *testing.T, p *crashfs.Process, name string) {
	t.Helper()
	f, err := p.Open(name, os.O_RDWR|os.O_CREATE)
	must(t, err)
	for off := int64(0); err == nil; off += 4096 {
		_, err = f.WriteAt(make([]byte, 4096), off)
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	must(t, f.Close())
}

// TestASmallDiskIsFilledFasterThanItIsDrained lets one process enqueue 1,000 jobs at
// a time as fast as there is room, and another work off 500 at a time.
func TestASmallDiskIsFilledFasterThanItIsDrained(t *testing.T) {
	slow(t)
	const jobs = 300_000
	s := newSmallStore(t)
	filled := make(chan error, 1)
	go func() {
		refused, since := 0, time.Now()
		poll := time.NewTicker(20 * time.Millisecond)
		defer poll.Stop()
		for added := 0; added < jobs; {
			err := s.enqueue(1000, 10)
			switch {
			case err == nil:
				added += 1000
				since = time.Now()
			case !errors.Is(err, broker.ErrFull) || time.Since(since) > 30*time.Second:
				filled <- fmt.Errorf("after %d jobs: %w", added, err)
				return
			default:
				refused++
				<-poll.C
			}
		}
		t.Logf("%d calls were refused", refused)
		filled <- nil
	}()
	done := 0
	s.within("drain", func() (bool, bool, error) {
		n, err := workOnce(t, s.worker, "q", 500)
		done += n
		return n > 0, done == jobs || len(filled) > 0 && n == 0, err
	})
	if err := <-filled; err != nil || done != jobs {
		t.Errorf("%d of %d jobs were worked off: %v", done, jobs, err)
	}
}
