package dashboard

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// Bounds of how many leased jobs the page shows.
const (
	runsMax   = 500
	runsBytes = 8 << 20
)

// runRow is a job that a worker has a lease for.
type runRow struct {
	jobRow
	Queue   string
	Claimed time.Time
	Ends    time.Time // of the lease
	Over    bool      // it has ended
}

type workerRow struct {
	Name        string
	ID          string
	Host        string
	PID         int
	Queues      string
	Tasks       string
	Concurrency int
	StartedAt   time.Time
	Leases      int
	Runs        []runRow
}

type workersBody struct {
	Workers []workerRow
	// Gone are the holders of leases that are not registered: workers whose
	// process has ended or is cut off, and callers who claim by hand.
	Gone    []workerRow
	Leased  int64
	Shown   int
	Unasked int // queues with leased jobs that were not looked at
}

func workerName(w *broker.Worker) string {
	s := w.Name
	if w.Host != "" {
		s += " on " + w.Host
	}
	return s
}

func (d *Dashboard) workers(w http.ResponseWriter, r *http.Request) error {
	counts, err := d.counts()
	if err != nil {
		return err
	}
	live, err := d.liveWorkers()
	if err != nil {
		return err
	}
	var b workersBody
	known := map[string]int{}
	for i := range live {
		known[live[i].ID] = i
		b.Workers = append(b.Workers, workerRowOf(&live[i]))
	}
	runs, err := d.leased(r.Context(), &b, counts)
	if err != nil {
		return err
	}
	b.share(runs, known)
	p := d.page(r, "workers", "Workers", &b)
	p.Live = true
	return d.render(w, http.StatusOK, "workers", p)
}

func workerRowOf(w *broker.Worker) workerRow {
	row := workerRow{
		Name: line(w.Name), ID: line(w.ID), Host: line(w.Host), PID: w.PID, Concurrency: w.Concurrency, StartedAt: w.StartedAt, Leases: w.Leases,
		Queues: names(w.Queues, "every queue"), Tasks: names(w.Tasks, "any task"),
	}
	return row
}

// names lists some names.
func names(list []string, all string) string {
	const most = 12
	switch {
	case list == nil:
		return all
	case len(list) > most:
		return safe(strings.Join(list[:most], ", "), false) + fmt.Sprintf(" and %d more", len(list)-most)
	}
	return safe(strings.Join(list, ", "), false)
}

// leased lists leased jobs, the longest running first in each queue.
func (d *Dashboard) leased(ctx context.Context, b *workersBody, counts []broker.Count) (runs []broker.Job, err error) {
	size := 0
	for _, c := range byQueue(counts) {
		b.Leased += c.Sum.Leased
		if c.Sum.Leased == 0 {
			continue
		}
		if len(runs) >= runsMax || size > runsBytes {
			b.Unasked++
			continue
		}
		f := broker.Filter{Queue: c.Name, States: []broker.State{broker.Leased}}
		for cursor, step := "", firstStep; len(runs) < runsMax && size <= runsBytes; step = lookStep {
			page, err := d.broker.List(ctx, f, cursor, step)
			if err != nil {
				return nil, err
			}
			for i := range page.Jobs {
				size += len(page.Jobs[i].Payload)
				cutJob(&page.Jobs[i])
			}
			runs = append(runs, page.Jobs...)
			if cursor = page.Cursor; cursor == "" {
				break
			}
		}
	}
	b.Shown = len(runs)
	return runs, nil
}

// share puts each leased job to the worker that holds it.
func (b *workersBody) share(runs []broker.Job, known map[string]int) {
	gone := map[string]int{}
	for i := range runs {
		j := &runs[i]
		run := runRow{jobRow: rowOf(j), Queue: j.Queue, Claimed: j.ClaimedAt, Ends: j.LeaseExpiresAt, Over: j.LeaseExpiresAt.Before(now())}
		if at, ok := known[j.Worker]; ok {
			b.Workers[at].Runs = append(b.Workers[at].Runs, run)
			continue
		}
		at, ok := gone[j.Worker]
		if !ok {
			at = len(b.Gone)
			gone[j.Worker] = at
			b.Gone = append(b.Gone, workerRow{Name: cmp.Or(line(j.Worker), "(no name)")})
		}
		b.Gone[at].Runs = append(b.Gone[at].Runs, run)
	}
	slices.SortStableFunc(b.Workers, func(x, y workerRow) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), x.StartedAt.Compare(y.StartedAt))
	})
}
