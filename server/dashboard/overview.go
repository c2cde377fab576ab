package dashboard

import (
	"net/http"
	"slices"

	"github.com/spoolq/spool/broker"
)

// waitsShown is how many queues the overview names with their oldest job.
const waitsShown = 10

type overviewBody struct {
	Empty      bool // nothing was ever enqueued
	States     []stateCount
	Depth      int64
	Totals     broker.Totals
	Queues     int
	Workers    int
	Waits      []queueWait
	WaitsMore  int
	Failing    []failing
	Health     broker.Health
	Broker     string
	Durability string
	URL        string // of the server, when it is one of spool's API
}

// urlOf is where a request was for.
func urlOf(r *http.Request) string {
	if r.TLS != nil {
		return "https://" + r.Host
	}
	return "http://" + r.Host
}

func (d *Dashboard) overview(w http.ResponseWriter, r *http.Request) error {
	d.watched()
	b := overviewBody{Health: d.health(), Broker: d.caps.Broker, Durability: d.caps.Durability, URL: urlOf(r)}
	counts, err := d.counts()
	if err != nil {
		return err
	}
	workers, err := d.liveWorkers()
	if err != nil {
		return err
	}
	queues := byQueue(counts)
	var sum broker.Count
	for i := range queues {
		addCount(&sum, &queues[i].Sum)
		b.Depth += queues[i].Sum.Depth
	}
	b.States, b.Totals, b.Queues, b.Workers = statesOf(&sum), sum.Totals, len(queues), len(workers)
	b.Empty = sum.Totals.Enqueued == 0
	d.series.mu.Lock()
	b.Waits = slices.Clone(d.series.waits)
	d.series.mu.Unlock()
	if n := len(b.Waits); n > waitsShown {
		b.Waits, b.WaitsMore = b.Waits[:waitsShown], n-waitsShown
	}
	b.Failing = d.series.failing(counts, now())
	p := d.page(r, "overview", "Overview", &b)
	p.Live = true
	return d.render(w, http.StatusOK, "overview", p)
}
