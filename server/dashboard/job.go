package dashboard

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// moment is a point of a job's life.
type moment struct {
	Name string
	At   time.Time
	Note string
	Bad  bool
}

type jobBody struct {
	*broker.Job
	State     string
	Link      string // of the job, relative to the overview
	Tags      [][2]string
	Headers   [][2]string
	Options   [][2]string
	Life      []moment
	Payload   content
	Result    *content
	Error     string
	Log       []string
	Reason    string
	Worker    string
	Why       broker.Explanation
	WayOut    string
	Holders   []string
	BatchLink string
	Actions   []bulkAction
	Percent   int
	Progress  string
}

// jobOf returns the job that a request's path names.
func (d *Dashboard) jobOf(r *http.Request) (*broker.Job, error) {
	queue, err := queueOf(r)
	if err != nil {
		return nil, err
	}
	id, err := broker.ParseID(r.PathValue("id"))
	if err != nil {
		return nil, refusal{http.StatusNotFound, "There is no such job: " + safe(err.Error(), false) + "."}
	}
	jobs, err := d.broker.Get(r.Context(), []broker.Ref{{Queue: queue, ID: id}})
	if err != nil {
		return nil, err
	}
	if len(jobs) != 1 || jobs[0].State == 0 {
		return nil, refusal{http.StatusNotFound, "Queue " + queue + " has no job " + id.String() + " (any more): it was deleted, or it finished and its retention is over."}
	}
	return &jobs[0], nil
}

func (d *Dashboard) job(w http.ResponseWriter, r *http.Request) error {
	j, err := d.jobOf(r)
	if err != nil {
		return err
	}
	b := jobBody{
		Job: j, State: j.State.String(), Link: "queues/" + escape(j.Queue) + "/jobs/" + j.ID.String(), Tags: rowOf(j).Tags,
		Options: optionsOf(j), Payload: contentOf(j.Payload), Error: blockText(j.Error), Reason: reasonText(j.Reason),
		Percent: j.Progress.Percent, Progress: progressText(j), Worker: j.Worker,
	}
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		b.Headers = append(b.Headers, [2]string{safe(name, false), safe(j.Headers[name], false)})
	}
	for _, l := range j.Log {
		b.Log = append(b.Log, safe(l, true))
	}
	if j.HasResult {
		b.Result = new(contentOf(j.Result))
	}
	if !j.Batch.IsZero() {
		b.BatchLink = "queues/" + escape(j.Queue) + "/jobs/" + j.Batch.String()
	}
	if workers, err := d.liveWorkers(); err == nil {
		for i := range workers {
			if workers[i].ID == j.Worker {
				b.Worker = workerName(&workers[i])
			}
		}
	}
	b.Life = lifeOf(j, safe(b.Worker, false), now())
	if b.Why, err = d.broker.Explain(r.Context(), j.Ref()); err != nil {
		b.Why = broker.Explanation{Text: "The store does not say: " + err.Error()} // it may have just left
	}
	if j.Worker != "" && b.Why.Worker == j.Worker {
		b.Why.Text = strings.ReplaceAll(b.Why.Text, j.Worker, b.Worker) // its name says more than its id
	}
	b.WayOut = wayOut(j, &b.Why)
	for _, h := range b.Why.Holders {
		b.Holders = append(b.Holders, "queues/"+escape(h.Queue)+"/jobs/"+h.ID.String())
	}
	if !d.readOnly(r) {
		b.Actions = actionsFor(j.State)
	}
	p := d.page(r, "queues", "Job "+j.ID.String(), &b)
	p.Live = true
	return d.render(w, http.StatusOK, "job", p)
}

// optionsOf lists what the job was enqueued with, defaults left out.
func optionsOf(j *broker.Job) (pairs [][2]string) {
	add := func(name, value string, there bool) {
		if there {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	add("priority", fmt.Sprint(j.Priority), j.Priority != 0)
	add("ordered", "one of its group at a time", j.Ordered)
	add("timeout", text.Span(j.Timeout), j.Timeout > 0)
	add("start within", text.Span(j.StartWithin), j.StartWithin > 0)
	add("retention", text.Span(j.Retain), j.Retain > 0)
	add("retention", "none", j.Retain < 0)
	add("token", j.Token.String(), j.Token > 0)
	add("number in its batch", fmt.Sprint(j.BatchOrdinal), !j.Batch.IsZero())
	return pairs
}

// lifeOf is what the store knows of a job's life, in its order.
func lifeOf(j *broker.Job, worker string, now time.Time) []moment {
	life := []moment{{Name: "enqueued", At: j.EnqueuedAt}}
	due := moment{Name: "due", At: j.RunAt}
	if j.State == broker.Scheduled && j.Reason != "" {
		due.Note = reasonText(j.Reason)
	}
	claimed := moment{Name: "claimed", At: j.ClaimedAt, Note: "attempt " + attempts(j)}
	if worker != "" {
		claimed.Note += ", worker " + head(worker, tagChars)
	}
	if !j.RunAt.IsZero() && (j.ClaimedAt.IsZero() || !j.RunAt.After(j.ClaimedAt)) {
		life = append(life, due)
	}
	if !j.ClaimedAt.IsZero() {
		life = append(life, claimed)
	}
	if !j.RunAt.IsZero() && !j.ClaimedAt.IsZero() && j.RunAt.After(j.ClaimedAt) {
		life = append(life, due)
	}
	switch {
	case j.State.Final():
		m := moment{Name: j.State.String(), At: j.FinishedAt, Note: reasonText(j.Reason), Bad: j.State == broker.Dead}
		if run := j.FinishedAt.Sub(j.ClaimedAt); !j.ClaimedAt.IsZero() && run >= 0 && j.State == broker.Done {
			m.Note += ", " + text.Span(run) + " after its claim"
		}
		life = append(life, m)
	case j.State == broker.Leased:
		m := moment{Name: "lease ends", At: j.LeaseExpiresAt, Note: "unless its worker extends it"}
		if j.LeaseExpiresAt.Before(now) {
			m.Name, m.Bad, m.Note = "lease ended", true, "no heartbeat: it is ready again, or dead, with the next upkeep"
		}
		life = append(life, m)
	}
	return life
}

// wayOut says what would let the job run, or run sooner.
func wayOut(j *broker.Job, x *broker.Explanation) string {
	switch x.Reason {
	case broker.WhyPaused:
		return "Resume the queue."
	case broker.WhyMoving:
		return "The end of the move."
	case broker.WhyNoWorker:
		return "Start a worker that listens to the queue and handles the task."
	case broker.WhyLimit:
		if x.Limit == "" {
			return "The end of the job that holds its group: done, dead or cancelled."
		}
		return "The end of a job that holds the limit, or another limit."
	case broker.WhyRate:
		return "Time, or another rate."
	case broker.WhyBehind:
		return "More workers, or a higher priority, weight or ageing for what is to go first."
	case broker.WhyBatch:
		return "The end of the batch's other jobs: done, dead or cancelled."
	case broker.WhyLeased:
		if j.CancelRequested {
			return "Its worker is asked to stop it."
		}
	case broker.WhyFinal:
		if j.State == broker.Dead || j.State == broker.Cancelled {
			return "Requeue it: it is ready again, with fresh attempts."
		}
	}
	return ""
}

func (d *Dashboard) payload(w http.ResponseWriter, r *http.Request) error {
	j, err := d.jobOf(r)
	if err != nil {
		return err
	}
	return download(w, "payload-"+j.ID.String(), j.Payload)
}

func (d *Dashboard) result(w http.ResponseWriter, r *http.Request) error {
	j, err := d.jobOf(r)
	if err != nil {
		return err
	}
	if !j.HasResult {
		return refusal{http.StatusNotFound, "The job has no result."}
	}
	return download(w, "result-"+j.ID.String(), j.Result)
}

// download answers with bytes as they are: a browser saves them and shows nothing.
func download(w http.ResponseWriter, name string, b []byte) error {
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", `attachment; filename="`+name+`"`)
	h.Set("Content-Length", fmt.Sprint(len(b)))
	_, _ = w.Write(b) // a client that has gone
	return nil
}
