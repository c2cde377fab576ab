package spoolprom_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/spoolprom"
)

// TestEveryProcessScrapesWhatTheStoreHolds does random things through three
// clients, which come and go, and compares what each says with the store's counts.
func TestEveryProcessScrapesWhatTheStoreHolds(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		first := membroker.New(membroker.Config{})
		fleetOf(t, func() broker.Broker { return first.Another() }).play(400)
	})
	t.Run("file", func(t *testing.T) {
		dir := t.TempDir()
		fleetOf(t, func() broker.Broker {
			b, err := filebroker.Open(dir, filebroker.Config{AllowUnsafeFS: true})
			if err != nil {
				t.Fatal(err)
			}
			return b
		}).play(150)
	})
}

// fleet is three clients of one store and what they scrape.
type fleet struct {
	*testing.T
	rand       *rand.Rand
	join       func() broker.Broker
	clients    [3]*spool.Client
	collectors [3]prometheus.Collector
	shown      [3]values // what the last scrape of each had to say of the counts
	leases     []*spool.Lease
	last       values
}

func fleetOf(t *testing.T, join func() broker.Broker) *fleet {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	f := &fleet{T: t, rand: rand.New(rand.NewPCG(seed, 0)), join: join, last: values{}}
	for i := range f.clients {
		f.start(i)
	}
	t.Cleanup(func() {
		for _, c := range f.clients {
			c.Close()
		}
	})
	return f
}

func (f *fleet) start(i int) {
	f.clients[i], f.shown[i] = quiet(f.join()), nil
	f.collectors[i] = spoolprom.NewCollector(f.clients[i], fresh)
}

func (f *fleet) play(steps int) {
	f.overture()
	for range steps {
		f.step()
		f.look()
	}
	for _, total := range []string{"acked", "failed", "died", "cancelled", "deleted", "expired"} {
		if f.total(total) == 0 {
			f.Errorf("no job was %s: the test is about less than it says", total)
		}
	}
}

// overture makes every total grow once, whatever chance does then.
func (f *fleet) overture() {
	ctx := f.Context()
	enqueue(f, f.clients[0], "q0", "t0", 5, spool.MaxAttempts(1))
	got, err := f.clients[1].Claim(ctx, broker.ClaimRequest{Max: 4, Worker: "w", TTL: time.Hour})
	f.must(err)
	f.must(f.clients[2].Lease(got[0].Job.Ref(), got[0].Token).Ack(ctx, nil))
	f.must(f.clients[0].Lease(got[1].Job.Ref(), got[1].Token).Nack(ctx, 0, errors.New("failed")))
	f.look()
	f.restart(1) // with two leases
	for i := range f.clients {
		_, err = f.clients[i].Cancel(ctx, spool.Filter{Queue: "q0", States: []spool.State{spool.Ready}})
		f.must(err)
		f.look()
	}
	_, err = f.clients[0].Delete(ctx, spool.Filter{Queue: "q0", States: []spool.State{spool.Cancelled}})
	f.must(err)
	f.look()
	for f.total("expired") < 2 { // the others notice by themselves
		f.look()
	}
}

// total is the sum of what was scraped last.
func (f *fleet) total(name string) (sum float64) {
	for _, v := range f.last.part("spool_jobs_" + name + "_total") {
		sum += v
	}
	return sum
}

func (f *fleet) restart(i int) {
	f.must(f.clients[i].Close())
	f.start(i)
}

// step does one thing through one of the clients.
func (f *fleet) step() {
	ctx, c := f.Context(), f.clients[f.rand.IntN(len(f.clients))]
	queue, task := fmt.Sprintf("q%d", f.rand.IntN(2)), fmt.Sprintf("t%d", f.rand.IntN(3))
	filter := spool.Filter{Queue: queue, Task: task}
	switch f.rand.IntN(12) {
	case 0, 1:
		enqueue(f, c, queue, task, 1+f.rand.IntN(3), spool.MaxAttempts(2))
	case 2:
		enqueue(f, c, queue, task, 1, spool.Delay(time.Hour))
	case 3, 4:
		got, err := c.Claim(ctx, broker.ClaimRequest{Max: 3, Worker: "w", TTL: time.Hour})
		f.must(err)
		f.leases = append(f.leases, got...)
	case 5, 6, 7:
		f.settle(ctx)
	case 8:
		_, err := c.Cancel(ctx, filter)
		f.must(err)
	case 9:
		_, err := c.Requeue(ctx, filter)
		f.must(err)
	case 10:
		filter.States = []spool.State{spool.Dead, spool.Cancelled, spool.Done}
		_, err := c.Delete(ctx, filter)
		f.must(err)
		if f.rand.IntN(2) == 0 {
			f.must(c.Pause(ctx, queue))
		} else {
			f.must(c.Resume(ctx, queue))
		}
	case 11:
		f.restart(f.rand.IntN(len(f.clients)))
	}
}

// settle ends one of the leases, which may be lost, through any client.
func (f *fleet) settle(ctx context.Context) {
	if len(f.leases) == 0 {
		return
	}
	old := f.leases[0]
	f.leases = f.leases[1:]
	l := f.clients[f.rand.IntN(len(f.clients))].Lease(old.Job.Ref(), old.Token)
	switch f.rand.IntN(4) {
	case 0:
		_ = l.Ack(ctx, nil) // a lost lease is one of the inputs
	case 1:
		_ = l.Nack(ctx, 0, errors.New("failed"))
	case 2:
		_ = l.Bury(ctx, errors.New("buried"))
	case 3:
		_ = l.Snooze(ctx, time.Hour)
	}
}

func (f *fleet) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// look scrapes each client and compares with the counts. The store moves by
// itself (leases of a client that left expire), so that a scrape counts when the
// counts before and after are the same. A paused queue without a job is gone with
// its pause: each collector says 0 of it once.
func (f *fleet) look() {
	for i, c := range f.clients {
		for {
			before, err := c.Counts(f.Context(), "")
			f.must(err)
			scraped := gather(f, f.collectors[i])
			after, err := c.Counts(f.Context(), "")
			f.must(err)
			if !reflect.DeepEqual(before, after) {
				f.shown[i] = nil // it may have said the 0 now
				continue
			}
			want, shown := expected(after), expected(after)
			for name := range f.shown[i] {
				if _, there := want[name]; !there {
					want[name] = 0
				}
			}
			if d := difference(scraped.part(ofCounts...), want); d != "" {
				f.Fatalf("client %d:\n%s", i, d)
			}
			f.shown[i] = shown
			f.grew(scraped)
			break
		}
	}
}

// grew checks that nothing is negative and no total falls, whoever says it.
func (f *fleet) grew(scraped values) {
	for name, v := range scraped {
		if v < 0 {
			f.Fatalf("%s is %v", name, v)
		}
	}
	totals := values{}
	for _, total := range []string{"enqueued", "claimed", "acked", "failed", "expired", "died", "cancelled", "deleted"} {
		for name, v := range scraped.part("spool_jobs_" + total + "_total") {
			totals[name] = v
		}
	}
	for name, v := range f.last {
		if totals[name] < v {
			f.Fatalf("%s fell from %v to %v", name, v, totals[name])
		}
	}
	f.last = totals
}
