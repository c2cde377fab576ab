package dashboard

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// What the charts show: the last quarter of an hour closely, the last day by the
// minute.
const (
	sampleEvery = 2 * time.Second
	recentKept  = int(15 * time.Minute / sampleEvery)
	minutesKept = 24 * 60
	marksKept   = 15 // minutes that failing tasks are watched over
	marksMax    = 5000
	waitsMax    = 64 // queues whose oldest job is looked up for a sample
)

// sample is the store at one moment.
type sample struct {
	at      time.Time
	sum     broker.Count // over all queues
	wait    time.Duration
	longest time.Duration
}

// queueWait is the job of a queue that has been ready for longest.
type queueWait struct {
	Queue  string
	Paused bool
	Ready  int64
	Job    broker.ID
	Task   string
	Wait   time.Duration
}

// mark is what had happened to each task at one moment.
type mark struct {
	at     time.Time
	totals map[taskName]broker.Totals
}

type taskName struct{ Queue, Task string }

// series holds what the one sampler has seen, in memory.
type series struct {
	mu      sync.Mutex
	recent  ring
	minutes ring
	marks   []mark
	waits   []queueWait
}

// ring keeps the last samples, oldest first.
type ring struct {
	kept []sample
	max  int
}

func (r *ring) add(s sample) {
	if len(r.kept) >= 2*r.max { // so that each sample is moved once
		r.kept = append(r.kept[:0], r.kept[len(r.kept)-r.max:]...)
	}
	r.kept = append(r.kept, s)
}

func (r *ring) all() []sample { return r.kept[max(0, len(r.kept)-r.max):] }

// watched starts the sampler with the first page that needs it, and returns when
// there is a first sample.
func (d *Dashboard) watched() {
	d.watch.Do(func() {
		d.series.recent.max, d.series.minutes.max = recentKept, minutesKept
		d.sample()
		go d.sampling()
	})
}

func (d *Dashboard) sampling() {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		select {
		case <-d.life.Done():
			return
		case <-tick.C:
			d.sample()
		}
	}
}

// sample looks at the store once. What fails leaves a gap in the charts.
func (d *Dashboard) sample() {
	if d.life.Err() != nil {
		return
	}
	counts, err := d.counts()
	d.health()
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(d.life, snapshotWait)
	defer cancel()
	queues := byQueue(counts)
	s := sample{at: now()}
	for i := range queues {
		addCount(&s.sum, &queues[i].Sum)
		s.sum.Depth += queues[i].Sum.Depth
	}
	waits := d.oldest(ctx, queues, broker.Ready)
	for _, w := range waits {
		s.wait = max(s.wait, w.Wait)
	}
	for _, w := range d.oldest(ctx, queues, broker.Leased) {
		s.longest = max(s.longest, w.Wait)
	}
	d.series.add(s, waits, counts)
}

// oldest finds in each queue the job that is in the state for longest: of ready
// ones since when they are due, of leased ones since their claim. Of many queues
// the fullest are looked at.
func (d *Dashboard) oldest(ctx context.Context, queues []queueCounts, state broker.State) (found []queueWait) {
	full := slices.DeleteFunc(slices.Clone(queues), func(q queueCounts) bool { return q.Sum.Of(state) == 0 })
	slices.SortStableFunc(full, func(a, b queueCounts) int { return cmp.Compare(b.Sum.Of(state), a.Sum.Of(state)) })
	for _, q := range full[:min(len(full), waitsMax)] {
		page, err := d.broker.List(ctx, broker.Filter{Queue: q.Name, States: []broker.State{state}}, "", 1)
		if err != nil || len(page.Jobs) == 0 { // it has left meanwhile
			continue
		}
		j := &page.Jobs[0]
		since := cmp.Or(j.RunAt, j.EnqueuedAt)
		if state == broker.Leased {
			since = j.ClaimedAt
		}
		found = append(found, queueWait{
			Queue: q.Name, Paused: q.Paused, Ready: q.Sum.Ready, Job: j.ID, Task: j.Task, Wait: max(0, now().Sub(since)),
		})
	}
	slices.SortStableFunc(found, func(a, b queueWait) int { return cmp.Compare(b.Wait, a.Wait) })
	return found
}

func (s *series) add(x sample, waits []queueWait, counts []broker.Count) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recent.add(x)
	s.waits = waits
	if n := len(s.minutes.kept); n == 0 || x.at.Sub(s.minutes.kept[n-1].at) >= time.Minute {
		s.minutes.add(x)
		m := mark{at: x.at, totals: map[taskName]broker.Totals{}}
		for _, c := range counts[:min(len(counts), marksMax)] {
			m.totals[taskName{c.Queue, c.Task}] = c.Totals
		}
		s.marks = append(s.marks, m)
		if len(s.marks) > marksKept+1 {
			s.marks = slices.Delete(s.marks, 0, 1)
		}
	}
}

// failing is a task with failures.
type failing struct {
	Queue, Task string
	Failed      int64 // failed attempts within Over
	Ended       int64 // attempts that ended within Over
	Over        time.Duration
	Dead        int64 // dead letters there now
}

// failingMax is how many tasks the overview names.
const failingMax = 10

// failing lists the tasks that fail, the worst first: by what failed lately, then
// by their dead letters.
func (s *series) failing(counts []broker.Count, now time.Time) (bad []failing) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range counts {
		f := failing{Queue: c.Queue, Task: c.Task, Dead: c.Dead}
		if len(s.marks) > 0 {
			// A task that the mark does not have has come since, if the mark has all.
			if was, ok := s.marks[0].totals[taskName{c.Queue, c.Task}]; ok || len(s.marks[0].totals) < marksMax {
				f.Failed = max(0, c.Totals.Failed+c.Totals.Expired-was.Failed-was.Expired)
				f.Ended = f.Failed + max(0, c.Totals.Acked-was.Acked)
			}
			f.Over = now.Sub(s.marks[0].at)
		}
		if f.Failed > 0 || f.Dead > 0 {
			bad = append(bad, f)
		}
	}
	slices.SortStableFunc(bad, func(a, b failing) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Dead, a.Dead))
	})
	return bad[:min(len(bad), failingMax)]
}
