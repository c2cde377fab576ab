//go:build linux

package proctest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/limit"
)

// paced is a limit by a rate, and whose claims it counts.
type paced struct {
	task *spool.Task[args]
	of   string // the tenant
	rate limit.Rate
}

// paces are what the tasks of a flow worker say.
var paces = []paced{
	{even, "", limit.Rate{Count: 100, Per: time.Second, Burst: 1}},
	{slow, "", limit.Rate{Count: 10, Per: time.Second, Burst: 1}},
	{plain, "", limit.Rate{Count: 100, Per: time.Second, Burst: 100}},
	{bursty, "", limit.Rate{Count: 50, Per: time.Second, Burst: 20}},
	{byTenant, "x", limit.Rate{Count: 20, Per: time.Second, Burst: 5}},
	{byTenant, "y", limit.Rate{Count: 20, Per: time.Second, Burst: 5}},
}

func TestProofThatNoWindowExceedsItsRate(t *testing.T) {
	for _, c := range []struct {
		name  string
		steps []time.Duration // of the wall clocks of the workers, in mid-run
	}{
		{"over several processes", nil},
		{"while the wall clocks of two step an hour apart", []time.Duration{time.Hour, -time.Hour}},
	} {
		t.Run(c.name, func(t *testing.T) {
			span := size(2*time.Second, 60*time.Second)
			dir := newStore(t)
			fill(t, dir, span)
			watched := watchWakes(t)
			var workers []*process
			for i := range 4 {
				workers = append(workers, start(t, plan{Role: asFlow, Store: dir, Name: fmt.Sprintf("worker %d", i)}))
			}
			begun := workers[0].await("start", 1)[0].At
			sleepUntil(begun + span/2)
			for i, d := range c.steps {
				workers[i].order(order{Do: "step", For: d})
				if e := workers[i].await("stepped", 1)[0]; e.Number != int64(d) {
					t.Errorf("the wall clock of %s is off by %v, want %v", workers[i].name, time.Duration(e.Number), d)
				}
			}
			sleepUntil(begun + span + time.Second)
			for _, w := range workers {
				w.finish()
			}
			late := watched()
			t.Logf("the machine woke who waited for a moment %v late on average, %v at worst", late.mean, late.worst)
			told := make([][]event, len(workers))
			for i, w := range workers {
				told[i], _ = w.told("start")
			}
			for _, p := range paces {
				p.judge(t, told, span, p.least(late))
			}
		})
	}
}

// lateness is how late this machine wakes whom an alarm clock wakes.
type lateness struct{ mean, worst time.Duration }

// watchWakes begins to watch that; watched ends it, and returns what it saw.
func watchWakes(t *testing.T) (watched func() lateness) {
	t.Helper()
	alarm, err := system.Alarm()
	must(t, err)
	seen := make(chan lateness)
	go func() {
		var l lateness
		for n := time.Duration(1); ; n++ {
			at := now() + 5*time.Millisecond
			if alarm.Set(at) != nil || alarm.Next() != nil {
				seen <- l
				return
			}
			late := now() - at
			l.worst = max(l.worst, late)
			l.mean += (late - l.mean) / n
		}
	}()
	return func() lateness {
		must(t, alarm.Close())
		return <-seen
	}
}

func sleepUntil(at time.Duration) { <-time.After(at - now()) }

// fill gives each limit more work than it lets through.
func fill(t *testing.T, dir string, span time.Duration) {
	t.Helper()
	with(t, dir, func(c *spool.Client) {
		for _, p := range paces {
			specs := make([]spool.Spec, p.rate.Burst+p.rate.Count*int(span/time.Second+5))
			for i := range specs {
				specs[i] = p.task.With(args{}, spool.Tenant(p.of))
			}
			enqueueAll(t, c, specs)
		}
	})
}

// enqueueAll adds jobs in calls of as many as the broker takes.
func enqueueAll(t *testing.T, c *spool.Client, specs []spool.Spec) (ids []spool.ID) {
	t.Helper()
	for some := range slices.Chunk(specs, min(broker.MaxBatchJobs, c.Broker().Caps().MaxBatch)) {
		got, err := c.Enqueue(t.Context(), some...)
		must(t, err)
		for _, e := range got {
			ids = append(ids, e.ID)
		}
	}
	return ids
}

// judge compares the claims of all workers, of which each has told its starts,
// with the rate. At least is the part of what is allowed that has to be used.
func (p *paced) judge(t *testing.T, told [][]event, span time.Duration, least float64) {
	t.Helper()
	at, took := p.claims(t, told, span)
	worst := largestBurst(at, p.rate)
	allowed := float64(p.rate.Burst) + float64(p.rate.Count)*span.Seconds()/p.rate.Per.Seconds()
	use := float64(len(at)) / allowed
	t.Logf("%s %s: %d claims (by worker %v), %.2f %% of what is allowed; the fullest window holds %.4f more than rate × window, allowed are %d",
		p.task.Name(), p.of, len(at), took, 100*use, worst, p.rate.Burst)
	if worst > float64(p.rate.Burst) {
		t.Errorf("%s %s: a window holds %.6f claims more than rate × window, allowed are %d", p.task.Name(), p.of, worst, p.rate.Burst)
	}
	if use < least {
		t.Errorf("%s %s: %.2f %% of what is allowed is used, want %.2f %%", p.task.Name(), p.of, 100*use, 100*least)
	}
}

// claims are the instants of the claims of all workers within span of the
// first, sorted, and how many each worker made in all.
func (p *paced) claims(t *testing.T, told [][]event, span time.Duration) (at []int64, took []int) {
	t.Helper()
	took = make([]int, len(told))
	for i, starts := range told {
		for _, e := range starts {
			if e.Name == p.task.Name() && e.Of == p.of {
				at = append(at, e.Claimed.UnixNano())
				took[i]++
			}
		}
	}
	if len(at) == 0 {
		t.Fatalf("%s: nothing was claimed", p.task.Name())
	}
	slices.Sort(at)
	if end := at[0] + int64(span); at[len(at)-1] < end-int64(p.rate.Per) {
		t.Errorf("%s %s: the work or the time ended too soon", p.task.Name(), p.of)
	} else if n, _ := slices.BinarySearch(at, end+1); n < len(at) {
		at = at[:n]
	}
	return at, took
}

// least is the part of what is allowed that has to be used: all but 1 %, in the
// full size and where this machine wakes a claim soon enough for that. A burst
// makes up for claims that are late for as long as the rate takes to earn it. A
// burst of 1 makes up for nothing, since no two claims may be closer than the
// rate says: each loses what it is late by.
func (p *paced) least(late lateness) float64 {
	interval := p.rate.Per / time.Duration(p.rate.Count)
	slack, loss := interval*time.Duration(p.rate.Burst-1), late.worst
	if p.rate.Burst == 1 {
		slack, loss = interval/100, late.mean
	}
	if slack < 4*loss {
		return 0.6
	}
	return size(0.6, 0.99)
}

// largestBurst is by how much the fullest window exceeds rate × window, over
// the windows of every length: those that matter begin and end with a claim.
// The instants are sorted.
func largestBurst(at []int64, r limit.Rate) float64 {
	per, count := int64(r.Per), int64(r.Count)
	least, most := int64(0), int64(0)
	for i := range at {
		x := int64(i)*per - count*(at[i]-at[0])
		least = min(least, x)
		most = max(most, x+per-least)
	}
	return float64(most) / float64(per)
}
