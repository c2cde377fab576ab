package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// bulkAction is what can be done to jobs of a state.
type bulkAction struct {
	Name  string // in addresses and forms
	Label string
	Grave bool // it cannot be undone
	kind  broker.CommandKind
}

var (
	cancelJobs  = bulkAction{"cancel", "Cancel", false, broker.CancelJobs}
	requeueJobs = bulkAction{"requeue", "Requeue", false, broker.RequeueJobs}
	deleteJobs  = bulkAction{"delete", "Delete", true, broker.DeleteJobs}
)

// actionsFor lists what applies to jobs of a state.
func actionsFor(s broker.State) []bulkAction {
	switch s {
	case broker.Scheduled, broker.Ready:
		return []bulkAction{cancelJobs, deleteJobs}
	case broker.Leased:
		return []bulkAction{cancelJobs}
	case broker.Done:
		return []bulkAction{deleteJobs}
	}
	return []bulkAction{requeueJobs, deleteJobs}
}

// bulk is an action on many jobs: those that are ticked, or all of a query. It is
// done in steps; between them the form in the page carries it.
type bulk struct {
	Action  bulkAction
	Query   *query
	IDs     []broker.ID // nil: all of the query
	Total   int64       // how many it will be, as far as is known
	Counted bool        // Total is all of them
	Looked  int64       // jobs looked at to count them
	Whole   int64       // jobs of the state
	Cursor  string      // of the counting, or of the run
	Changed int64
	Rows    []jobRow // some of them
}

// bulkOf reads a form.
func (d *Dashboard) bulkOf(r *http.Request) (*bulk, error) {
	queue, err := queueOf(r)
	if err != nil {
		return nil, err
	}
	v, err := url.ParseQuery(r.PostFormValue("query"))
	if err != nil || v.Get("state") == "" {
		return nil, refusal{http.StatusBadRequest, "The form does not say which jobs are meant."}
	}
	q, err := queryOf(queue, v, 0)
	if err != nil {
		return nil, err
	}
	b := &bulk{Query: q, Cursor: r.PostFormValue("cursor")}
	for _, a := range actionsFor(q.State) {
		if a.Name == r.PostFormValue("action") {
			b.Action = a
		}
	}
	if b.Action.Name == "" {
		return nil, refusal{http.StatusBadRequest, "That cannot be done to jobs that are " + q.State.String() + "."}
	}
	if r.PostFormValue("scope") != "all" {
		if b.IDs, err = tickedIDs(r.PostForm["job"]); err != nil {
			return nil, err
		}
		b.Query.filter = broker.Filter{Queue: queue, States: []broker.State{q.State}, IDs: b.IDs}
	}
	for _, n := range [...]struct {
		name string
		to   *int64
	}{{"total", &b.Total}, {"looked", &b.Looked}, {"changed", &b.Changed}} {
		if v, err := strconv.ParseInt(r.PostFormValue(n.name), 10, 64); err == nil && v >= 0 {
			*n.to = v
		}
	}
	return b, nil
}

// tickedIDs reads the ids of the jobs that are ticked.
func tickedIDs(texts []string) ([]broker.ID, error) {
	if len(texts) == 0 {
		return nil, refusal{http.StatusBadRequest, "No job is ticked: go back and tick some, or choose all that match."}
	}
	if len(texts) > MaxPageSize+lookStep {
		return nil, refusal{http.StatusBadRequest, "More jobs are ticked than a page has."}
	}
	var ids []broker.ID
	for _, t := range texts {
		id, err := broker.ParseID(t)
		if err != nil {
			return nil, refusal{http.StatusBadRequest, "A ticked job is none: " + safe(err.Error(), false) + "."}
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// Scope is the form's field of that name.
func (b *bulk) Scope() string {
	if b.IDs == nil {
		return "all"
	}
	return "ticked"
}

// What says which jobs they are.
func (b *bulk) What() string {
	if words := b.Query.words(); b.IDs == nil && words != "" {
		return words
	}
	return ""
}

// preview counts the jobs that an action would be about, and asks.
func (d *Dashboard) preview(w http.ResponseWriter, r *http.Request) error {
	b, err := d.bulkOf(r)
	if err != nil {
		return err
	}
	counts, err := d.counts()
	if err != nil {
		return err
	}
	kept, whole := b.Query.kept(counts)
	b.Whole = whole
	switch {
	case b.IDs == nil && !b.Query.narrowed():
		b.Total, b.Counted = kept, true
		if err := d.someRows(r.Context(), b); err != nil {
			return err
		}
	case b.IDs != nil:
		if err := d.countTicked(r.Context(), b); err != nil {
			return err
		}
	default:
		if err := d.countOn(r.Context(), b); err != nil {
			return err
		}
	}
	p := d.page(r, "queues", b.Action.Label+" jobs of "+b.Query.Queue, b)
	return d.render(w, http.StatusOK, "preview", p)
}

// previewRows is how many of the jobs a preview shows.
const previewRows = 5

func (d *Dashboard) someRows(ctx context.Context, b *bulk) error {
	some, err := d.look(ctx, b.Query, "", previewRows, nil)
	if err != nil {
		return err
	}
	for i := range some.Jobs[:min(len(some.Jobs), previewRows)] {
		b.Rows = append(b.Rows, rowOf(&some.Jobs[i]))
	}
	return nil
}

// countTicked finds which of the ticked jobs are still in the state.
func (d *Dashboard) countTicked(ctx context.Context, b *bulk) error {
	b.Counted = true
	for ids := range slices.Chunk(b.IDs, lookStep) {
		refs := make([]broker.Ref, len(ids))
		for i, id := range ids {
			refs[i] = broker.Ref{Queue: b.Query.Queue, ID: id}
		}
		jobs, err := d.broker.Get(ctx, refs)
		if err != nil {
			return err
		}
		for i := range jobs {
			if jobs[i].State != b.Query.State {
				continue
			}
			if b.Total++; len(b.Rows) < previewRows {
				b.Rows = append(b.Rows, rowOf(&jobs[i]))
			}
		}
	}
	return nil
}

// countOn counts on from the cursor, within the bounds of a look.
func (d *Dashboard) countOn(ctx context.Context, b *bulk) error {
	found, err := d.look(ctx, b.Query, b.Cursor, 0, func(j *broker.Job) {
		if b.Total++; len(b.Rows) < previewRows {
			b.Rows = append(b.Rows, rowOf(j))
		}
	})
	if err != nil {
		return err
	}
	b.Looked += found.Looked
	b.Cursor, b.Counted = found.Cursor, found.Cursor == ""
	return nil
}

// Bounds of one step of a run.
const (
	runTime  = 300 * time.Millisecond
	runLimit = 500 // jobs changed by one commit
)

// run does one step of an action, and shows how far it is, or what was done.
func (d *Dashboard) run(w http.ResponseWriter, r *http.Request) error {
	b, err := d.bulkOf(r)
	if err != nil {
		return err
	}
	before := b.Changed
	over, err := d.runOn(r.Context(), b)
	d.record(r, b.Action.Name, b.Query.Queue, int(b.Changed-before), err,
		"state", b.Query.State.String(), "filter", b.Query.values().Encode(), "ticked", len(b.IDs), "finished", over)
	d.snap.forget()
	if err != nil {
		return fmt.Errorf("%s of %s changed so far: %w", b.Action.Name, text.Plural(b.Changed, "job", "jobs"), err)
	}
	if over {
		redirect(w, r, queueLink(b.Query.Queue, withFlash(backTo(b), b.Action.Name, int(b.Changed))))
		return nil
	}
	p := d.page(r, "queues", b.Action.Label+" jobs of "+b.Query.Queue, b)
	return d.render(w, http.StatusOK, "run", p)
}

// backTo is the list that a run leads back to: without the cause or the id, of
// which nothing is left there.
func backTo(b *bulk) url.Values {
	v := b.Query.values()
	v.Del("cause")
	v.Del("id")
	return v
}

// runOn does steps for runTime, and reports whether it is through.
func (d *Dashboard) runOn(ctx context.Context, b *bulk) (over bool, err error) {
	for begun := time.Now(); time.Since(begun) < runTime; {
		var n int
		if b.Query.Cause != "" && b.IDs == nil {
			n, err = d.stepByCause(ctx, b)
		} else {
			var step broker.Step
			step, err = d.broker.Apply(ctx, broker.NewCall(), broker.Command{
				Kind: b.Action.kind, Filter: b.Query.filter, Limit: runLimit, Cursor: b.Cursor,
			})
			n, b.Cursor = step.Changed, step.Cursor
		}
		if err != nil {
			return false, err
		}
		if b.Changed += int64(n); b.Cursor == "" {
			return true, nil
		}
	}
	return false, nil
}

// stepByCause finds jobs by their cause and changes those, by their ids.
func (d *Dashboard) stepByCause(ctx context.Context, b *bulk) (changed int, err error) {
	var ids []broker.ID
	found, err := d.look(ctx, b.Query, b.Cursor, runLimit, func(j *broker.Job) { ids = append(ids, j.ID) })
	if err != nil {
		return 0, err
	}
	cmd := broker.Command{Kind: b.Action.kind, Filter: broker.Filter{Queue: b.Query.Queue, States: []broker.State{b.Query.State}, IDs: ids}}
	for len(ids) > 0 {
		step, err := d.broker.Apply(ctx, broker.NewCall(), cmd)
		if err != nil {
			return changed, err
		}
		changed += step.Changed
		if cmd.Cursor = step.Cursor; cmd.Cursor == "" {
			break
		}
	}
	b.Cursor = found.Cursor
	return changed, nil
}

// actOnJob cancels or requeues one job.
func (d *Dashboard) actOnJob(w http.ResponseWriter, r *http.Request) error {
	j, err := d.jobOf(r)
	if err != nil {
		return err
	}
	did, act := "cancel", d.client.Cancel
	if lastSegment(r) == "requeue" {
		did, act = "requeue", d.client.Requeue
	}
	n, err := act(r.Context(), broker.Filter{Queue: j.Queue, IDs: []broker.ID{j.ID}})
	d.record(r, did, j.Queue, n, err, "job", j.ID.String())
	d.snap.forget()
	if err != nil {
		return err
	}
	if n == 0 {
		return refusal{http.StatusConflict, "Nothing was changed: the job is " + j.State.String() + "."}
	}
	redirect(w, r, "queues/"+escape(j.Queue)+"/jobs/"+j.ID.String()+"?"+withFlash(url.Values{}, did, n).Encode())
	return nil
}

// lastSegment is the action at the end of a path.
func lastSegment(r *http.Request) string {
	p := r.URL.Path
	for i := len(p) - 1; i >= 0; i-- {
		if p[i] == '/' {
			return p[i+1:]
		}
	}
	return p
}
