//go:build linux

package proctest

import (
	"context"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// churn works through jobs beside others for a span, and compacts after each stretch
// of it, so that the log of before is gone again and again. It returns how many jobs
// there were and how many generations of the log.
func churn(t *testing.T, dir string, span, stretch time.Duration) (jobs, generations int) {
	t.Helper()
	b, err := openDirectory(plan{Store: dir, NoSync: true})
	must(t, err)
	c := spool.New(b, spool.Config{})
	specs := make([]spool.Spec, 50)
	for i := range specs {
		specs[i] = spool.Raw("churned", make([]byte, 1000), spool.Queue("churn"))
	}
	pause := size(20*time.Millisecond, 100*time.Millisecond) // others are to have the machine, too
	for begun, compacted := now(), now(); now()-begun < span; <-time.After(pause) {
		_, err := c.Enqueue(t.Context(), specs...)
		must(t, err)
		leases, err := c.Claim(t.Context(), broker.ClaimRequest{Queues: []string{"churn"}, Max: len(specs), Worker: "churn"})
		must(t, err)
		for _, l := range leases {
			must(t, l.Ack(t.Context(), nil))
		}
		if jobs += len(leases); now()-compacted >= stretch {
			made, err := b.Compact(context.Background())
			must(t, err)
			compacted = now()
			if made.Checkpoint > 0 {
				generations++
			}
		}
	}
	must(t, c.Close())
	return jobs, generations
}

// TestWhoReadNothingForAnHourCatchesUp has two processes with a lease each
// do nothing, one of them stopped, while a third one's jobs and compactions leave
// nothing of the log that they know. Then their leases are good, and so are their next calls.
func TestWhoReadNothingForAnHourCatchesUp(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := newStore(t)
	enqueue(t, dir, 4, note)
	idle, stopped := opened(t, plan{Store: dir, Name: "idle"}), opened(t, plan{Store: dir, Name: "stopped"})
	away := map[*process]event{idle: {}, stopped: {}}
	for p := range away {
		a := p.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: 24 * time.Hour})
		if len(a.IDs) != 1 {
			t.Fatalf("a claim of %s: %+v", p.name, a)
		}
		away[p] = a
	}
	stopWhile(t, stopped, "nobody has a lock", func() bool {
		return lockIsFree(t, dir) && fileIsFree(t, filepath.Join(dir, "COMPACT"))
	})
	jobs, generations := churn(t, dir, size(time.Second, time.Hour), size(100*time.Millisecond, 10*time.Second))
	t.Logf("%d jobs were worked off beside them, in %d generations of the log", jobs, generations)
	if generations == 0 {
		t.Error("no compaction was made")
	}
	stopped.signal(syscall.SIGCONT)
	for p, lease := range away {
		begun := now()
		if a := p.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: lease.id(), Token: lease.Token}); a.Text != "" {
			t.Errorf("%s acks: %s", p.name, a.Text)
		}
		t.Logf("%s acked in %v", p.name, now()-begun)
		if a := p.ask(order{Do: "enqueue"}); a.Text != "" {
			t.Errorf("%s enqueues: %s", p.name, a.Text)
		}
		next := p.ask(order{Do: "claim", Queue: spool.DefaultQueue, For: patience})
		if len(next.IDs) != 1 || next.Token <= lease.Token {
			t.Errorf("%s claims: %+v after token %d", p.name, next, lease.Token)
		} else if a := p.ask(order{Do: "ack", Queue: spool.DefaultQueue, ID: next.id(), Token: next.Token}); a.Text != "" {
			t.Errorf("%s acks again: %s", p.name, a.Text)
		}
		p.finish()
	}
	if v, err := filebroker.Verify(dir); err != nil || len(v.Findings) > 0 {
		t.Errorf("the store is %+v, %v", v, err)
	}
	with(t, dir, func(c *spool.Client) {
		if got := ready64(t, c); got[note.Name()] != 2 || got["churned"] != 0 {
			t.Errorf("there are %v, should be two jobs", got)
		}
	})
}
