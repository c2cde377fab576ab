package filebroker

import (
	"context"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// TestASmallDiskThatWasFilledIsDrainedAndFilledAgain fills a disk of 24 MB by a
// process that only enqueues, with jobs of one size after the other, works all of
// them off beside it, and wants that jobs are taken again soon: nobody compacts by
// hand.
func TestASmallDiskThatWasFilledIsDrainedAndFilledAgain(t *testing.T) {
	const patience = 4 * letGoEvery
	dir := filepath.Join(smallDisk(t, 24_000_000), "jobs")
	open := func() *Broker {
		b, err := Open(dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler)})
		must(t, err)
		return b
	}
	producer, worker := open(), open()
	defer producer.Close()
	defer worker.Close()
	enqueue := func(n, size int) error {
		jobs := make([]broker.NewJob, n)
		for i := range jobs {
			jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, size)}
		}
		_, err := producer.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
		return err
	}
	poll := time.NewTicker(20 * time.Millisecond)
	defer poll.Stop()
	// within repeats what fails, as long as there is progress now and then.
	within := func(what string, try func() (progress, done bool, err error)) {
		t.Helper()
		for since := time.Now(); ; {
			progress, done, err := try()
			if done {
				return
			}
			if progress {
				since = time.Now()
			} else if time.Since(since) > patience {
				t.Fatalf("%s: nothing for %v: %v; %d KiB are used", what, patience, err, diskUse(t, dir)>>10)
			} else {
				<-poll.C
			}
		}
	}
	for _, size := range []int{10, 1_200_000, 100} {
		n := max(1, min(1000, 200_000/size))
		added := 0
		for ; added < 30_000_000 && enqueue(n, size) == nil; added += n * size {
		}
		within("drain", func() (bool, bool, error) {
			n, err := workOff(t, worker, "q", 500)
			return n > 0, n == 0 && err == nil, err
		})
		within("enqueue again", func() (bool, bool, error) {
			err := enqueue(1, 10)
			return false, err == nil, err
		})
		t.Logf("jobs of %d bytes: %d KB fit", size, added/1000)
	}
}
