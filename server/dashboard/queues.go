package dashboard

import (
	"net/http"
	"net/url"

	"github.com/spoolq/spool/broker"
)

// queueRow is a queue as the page shows it.
type queueRow struct {
	queueCounts
	States    []stateCount
	Capacity  *broker.Capacity // of the queue; nil: none
	PerTenant *broker.Capacity // of each tenant
}

// Used is how full the queue is, in per cent of its capacity.
func (q *queueRow) Used() int64 {
	if q.Capacity == nil {
		return 0
	}
	used := int64(0)
	if q.Capacity.Jobs > 0 {
		used = q.Sum.Depth * 100 / q.Capacity.Jobs
	}
	if q.Capacity.Bytes > 0 {
		used = max(used, q.Sum.Bytes*100/q.Capacity.Bytes)
	}
	return used
}

func (d *Dashboard) queues(w http.ResponseWriter, r *http.Request) error {
	counts, err := d.counts()
	if err != nil {
		return err
	}
	settings, err := d.settings()
	if err != nil {
		return err
	}
	caps := map[string]map[string]*broker.Capacity{}
	for _, s := range settings {
		if s.Kind == broker.CapacitySetting {
			if caps[s.Queue] == nil {
				caps[s.Queue] = map[string]*broker.Capacity{}
			}
			caps[s.Queue][s.Name] = s.Capacity
		}
	}
	var rows []queueRow
	for _, q := range byQueue(counts) {
		rows = append(rows, queueRow{queueCounts: q, States: statesOf(&q.Sum), Capacity: caps[q.Name][""], PerTenant: caps[q.Name][broker.TenantCapacity]})
	}
	p := d.page(r, "queues", "Queues", rows)
	p.Live = true
	return d.render(w, http.StatusOK, "queues", p)
}

// toJobs leads from a queue to its jobs.
func (d *Dashboard) toJobs(w http.ResponseWriter, r *http.Request) error {
	redirect(w, r, queueLink(r.PathValue("queue"), url.Values{}))
	return nil
}

// queueOf is the queue that a request's path names.
func queueOf(r *http.Request) (string, error) {
	queue := r.PathValue("queue")
	if err := broker.ValidName(queue); err != nil {
		return "", refusal{http.StatusNotFound, "There is no queue of that name: the name " + safe(err.Error(), false) + "."}
	}
	return queue, nil
}

// pause stops or resumes claiming from a queue.
func (d *Dashboard) pause(w http.ResponseWriter, r *http.Request) error {
	queue, err := queueOf(r)
	if err != nil {
		return err
	}
	did, act := "pause", d.client.Pause
	if lastSegment(r) == "resume" {
		did, act = "resume", d.client.Resume
	}
	err = act(r.Context(), queue)
	d.record(r, did, queue, 0, err)
	d.snap.forget()
	if err != nil {
		return err
	}
	if r.FormValue("to") == "jobs" {
		redirect(w, r, queueLink(queue, withFlash(url.Values{}, did, 0)))
		return nil
	}
	redirect(w, r, "queues?"+withFlash(url.Values{}, did, 0).Encode())
	return nil
}
