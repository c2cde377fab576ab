package filebroker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// fullCase is a disk and those who use it: who enqueues fills it, another file
// takes what is left, and who works does so until nothing waits.
type fullCase struct {
	disk          int64
	size          int // of a payload
	enqueue, work int // jobs in a call
}

func (c fullCase) String() string {
	return fmt.Sprintf("%d MiB, jobs of %d bytes, %d enqueued and %d worked off at a time", c.disk>>20, c.size, c.enqueue, c.work)
}

// oneByOne is how many jobs are worked off as the case says; of those that are
// left then, which may be a hundred thousand, 500 at a time.
const oneByOne = 3000

// fullCases are disks and jobs of many sizes, and calls of all.
func fullCases() (all []fullCase) {
	for _, disk := range []int64{4, 5, 7, 10, 15, 24, 40, 64} {
		for _, size := range []int{10, 100, 1000, 4096} {
			for _, enqueue := range []int{1, 100, 1000} {
				for _, work := range []int{1, 100, 500} {
					all = append(all, fullCase{disk << 20, size, enqueue, work})
				}
			}
		}
	}
	return all
}

// TestWhateverFilledADiskIsWorkedOffWhileItStaysFull is about the one promise of a
// full disk: what filled it was acknowledged, and all of that can be claimed and
// settled while nobody makes room; and new jobs are taken, the first call
// included, as soon as somebody does, by those who were there and by who comes.
func TestWhateverFilledADiskIsWorkedOffWhileItStaysFull(t *testing.T) {
	for i, c := range fullCases() {
		if i%stride(11) != 0 {
			continue
		}
		t.Run(c.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t) })
		})
	}
}

func (c fullCase) run(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1, FollowTime: true, Uptime: time.Hour, DiskBytes: c.disk})
	standard := func(cfg *Config) { cfg.segment = 0; cfg.Sync = SyncNever }
	producer, err := openLazy(m.Process(), standard)
	must(t, err)
	defer producer.Close()
	worker, err := openOn(m.Process(), standard)
	must(t, err)
	defer worker.Close()
	synctest.Wait()

	added := c.fill(t, producer)
	other := m.Process()
	fillRest(t, other, "/other")
	if added == 0 {
		t.Error("no job fits")
	}
	done, err := workSome(t, worker, c.work, oneByOne)
	if err == nil && done < added {
		var rest int
		rest, err = workSome(t, worker, 500, added)
		done += rest
	}
	if err != nil || done != added {
		t.Fatalf("%d of %d jobs were worked off: %v", done, added, err)
	}
	synctest.Wait()

	added = c.fill(t, producer) // in what the store itself has
	fillRest(t, other, "/another")
	late, err := openLazy(m.Process(), standard)
	must(t, err)
	defer late.Close()
	synctest.Wait()
	must(t, other.Remove("/other"))
	must(t, other.Remove("/another"))
	m.SetDiskBytes(2 * c.disk)
	for name, b := range map[string]*Broker{"who filled it": producer, "who came when it was full": late, "who works": worker} {
		if err := c.add(b, 1); err != nil {
			t.Errorf("with room again, %s: %v", name, err)
		}
	}
	t.Logf("then %d jobs more", added)
}

func (c fullCase) add(b *Broker, n int) error {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, c.size)}
	}
	_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
	return err
}

// fill enqueues until that is refused, at first many jobs in a call.
func (c fullCase) fill(t *testing.T, b *Broker) (added int) {
	for _, n := range []int{max(1, min(1000, 500_000/c.size)), c.enqueue} {
		for {
			err := c.add(b, n)
			if errors.Is(err, broker.ErrFull) {
				if !strings.Contains(err.Error(), labDir+" needs ") || !strings.Contains(err.Error(), "spool compact") {
					t.Fatalf("a refusal that does not say what to do: %v", err)
				}
				break
			}
			must(t, err)
			added += n
		}
	}
	return added
}

// workSome is workOff for at most so many jobs.
func workSome(t *testing.T, b *Broker, batch, most int) (done int, err error) {
	for done < most {
		n, err := workOnce(t, b, "q", batch)
		done += n
		if err != nil || n == 0 {
			return done, err
		}
	}
	return done, nil
}
