package crash

import (
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spoolq/spool/broker"
)

// Drain waits until nothing is left that workers could run. It gives up, without
// an error, when nothing changes for as long as patience: what is left then is
// stuck, and the judge counts it.
func Drain(ctx context.Context, b broker.Broker, patience time.Duration) error {
	var last broker.Totals
	for since := time.Now(); ; {
		if _, err := b.Maintain(ctx); err != nil {
			return fmt.Errorf("maintain: %w", err)
		}
		counts, err := b.Counts(ctx, "")
		if err != nil {
			return fmt.Errorf("read the counters: %w", err)
		}
		left, now := int64(0), broker.Totals{}
		for _, c := range counts {
			left += c.Ready + c.Leased
			if c.Task == workTask {
				left += c.Scheduled
			}
			now.Claimed += c.Totals.Claimed
			now.Acked += c.Totals.Acked
			now.Failed += c.Totals.Failed
			now.Expired += c.Totals.Expired
			now.Died += c.Totals.Died
			now.Cancelled += c.Totals.Cancelled
		}
		if now != last {
			last, since = now, time.Now()
		}
		if left == 0 {
			if left, err = retrying(ctx, b, counts); err != nil {
				return err
			}
		}
		if left == 0 || time.Since(since) > patience {
			return nil
		}
		if !wait(ctx, 50*time.Millisecond) {
			return context.Cause(ctx)
		}
	}
}

// retrying counts the jobs of laterTask that were requeued, ran, and wait for
// their next run. The counters cannot tell them from those that wait for longer
// than the run.
func retrying(ctx context.Context, b broker.Broker, counts []broker.Count) (n int64, err error) {
	for _, c := range counts {
		if c.Task != laterTask {
			continue
		}
		f := broker.Filter{Queue: c.Queue, Task: c.Task, States: []broker.State{broker.Scheduled}}
		for cursor := ""; ; {
			page, err := b.List(ctx, f, cursor, broker.MaxPageJobs)
			if err != nil {
				return 0, fmt.Errorf("list the jobs of queue %s that wait: %w", c.Queue, err)
			}
			for i := range page.Jobs {
				if j := &page.Jobs[i]; j.RunAt.Sub(j.EnqueuedAt) < laterWait/2 {
					n++
				}
			}
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
	}
	return n, nil
}

// Tally follows the ledgers while they grow, for a display.
type Tally struct {
	Enqueued int // jobs acknowledged
	Claims   int
	Acked    int
	Settled  int // settlements of any kind acknowledged

	dir   string
	files map[string]int64 // how far each was read
}

// NewTally returns a tally of the ledgers of a directory.
func NewTally(dir string) *Tally { return &Tally{dir: dir, files: map[string]int64{}} }

// Read adds what was written since the last call.
func (t *Tally) Read() error {
	names, err := ledgers(t.dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := t.follow(name); err != nil {
			return fmt.Errorf("read a ledger: %w", err)
		}
	}
	return nil
}

func (t *Tally) follow(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := f.Seek(t.files[name], io.SeekStart); err != nil {
		return err
	}
	n, err := eachLine(f, func(l line) error {
		switch l.verb {
		case ackEnqueue:
			t.Enqueued += len(l.fields) - 1
		case claimed:
			t.Claims++
		case ackSettle:
			t.Settled++
			if l.fields[2] == broker.Ack.String() {
				t.Acked++
			}
		}
		return nil
	})
	t.files[name] += n
	return err
}
