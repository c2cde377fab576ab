package dashboard

import (
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// jobRow is a job in a list.
type jobRow struct {
	Link   string
	ID     string
	Task   string
	State  string
	Tags   [][2]string // name and value
	Tries  string
	At     time.Time // of what whenText names
	Extra  string    // of the run: who, how far
	Error  string
	Head   string // of the payload
	Asked  bool   // its cancellation is asked for
	Reason string
}

func rowOf(j *broker.Job) jobRow {
	r := jobRow{
		Link: "queues/" + escape(j.Queue) + "/jobs/" + j.ID.String(), ID: j.ID.String(), Task: j.Task, State: j.State.String(), Asked: j.CancelRequested,
		Tries: attempts(j), Error: head(firstLine(j.Error), headChars), Head: head(string(j.Payload), headChars), Reason: reasonText(j.Reason),
	}
	for _, t := range [...][2]string{{"tenant", j.Tenant}, {"group", j.Group}, {"key", j.Key}} {
		if t[1] != "" {
			r.Tags = append(r.Tags, [2]string{t[0], line(t[1])})
		}
	}
	switch j.State {
	case broker.Scheduled, broker.Ready:
		r.At = j.RunAt
	case broker.Leased:
		r.At = j.ClaimedAt
		r.Extra = progressText(j)
	default:
		r.At = j.FinishedAt
	}
	return r
}

// whenText names the time that a list shows of jobs in a state.
func whenText(s broker.State) string {
	switch s {
	case broker.Scheduled:
		return "due"
	case broker.Ready:
		return "ready since"
	case broker.Leased:
		return "claimed"
	case broker.Dead:
		return "died"
	}
	return s.String()
}

func attempts(j *broker.Job) string {
	return text.Count(int64(j.Attempt)) + " of " + text.Count(int64(j.MaxAttempts))
}

func progressText(j *broker.Job) string {
	if j.Progress == (broker.Progress{}) {
		return ""
	}
	s := text.Count(int64(j.Progress.Percent)) + " %"
	if j.Progress.Note != "" {
		s += " " + head(j.Progress.Note, tagChars)
	}
	return s
}

// reasonText is a reason constant in words.
func reasonText(reason string) string {
	if reason == "attempts" {
		return "all attempts used"
	}
	return strings.ReplaceAll(reason, "_", " ")
}

// tab is one state of a queue, with the number that is kept.
type tab struct {
	State   string
	N       int64
	Link    string
	Current bool
}

type jobsBody struct {
	Queue    string
	Paused   bool
	Moving   string
	Known    bool
	Tabs     []tab
	Query    *query
	Words    string
	Narrowed bool
	Filtered bool
	Tasks    []string
	Rows     []jobRow
	When     string
	Kept     int64 // jobs of the state, and the task
	Whole    int64 // jobs of the state
	Looked   int64
	First    string // the way back to the first page; "" on it
	Next     string // "" on the last
	Full     bool   // the page has all the rows it can have
	Actions  []bulkAction
}

func (d *Dashboard) jobs(w http.ResponseWriter, r *http.Request) error {
	queue, err := queueOf(r)
	if err != nil {
		return err
	}
	counts, err := d.counts()
	if err != nil {
		return err
	}
	v := r.URL.Query()
	q, err := queryOf(queue, v, firstState(queue, counts))
	if err != nil {
		return err
	}
	found, err := d.look(r.Context(), q, v.Get("cursor"), d.cfg.PageSize, nil)
	if err != nil {
		return err
	}
	b := jobsBody{Queue: queue, When: whenText(q.State), Query: q, Words: q.words(), Narrowed: q.narrowed(), Filtered: q.filtered(), Looked: found.Looked, Full: len(found.Jobs) >= d.cfg.PageSize}
	b.Kept, b.Whole = q.kept(counts)
	b.describe(counts)
	if !d.readOnly(r) {
		b.Actions = actionsFor(q.State)
	}
	for i := range found.Jobs {
		b.Rows = append(b.Rows, rowOf(&found.Jobs[i]))
	}
	if v.Get("cursor") != "" {
		b.First = queueLink(queue, q.values())
	}
	if found.Cursor != "" {
		next := q.values()
		next.Set("cursor", found.Cursor)
		b.Next = queueLink(queue, next)
	}
	p := d.page(r, "queues", "Jobs of "+queue, &b)
	p.Live = b.First == ""
	return d.render(w, http.StatusOK, "jobs", p)
}

// describe fills in what the counts say of the queue.
func (b *jobsBody) describe(counts []broker.Count) {
	var sum broker.Count
	for i := range counts {
		if c := &counts[i]; c.Queue == b.Queue {
			addCount(&sum, c)
			b.Known, b.Paused, b.Moving = true, c.Paused, c.Moving
			if c.Task != "" {
				b.Tasks = append(b.Tasks, c.Task)
			}
		}
	}
	for _, s := range broker.States {
		b.Tabs = append(b.Tabs, tab{s.String(), sum.Of(s), queueLink(b.Queue, b.Query.in(s)), s == b.Query.State})
	}
}

// firstState is what a queue shows at first: of what waits, runs or failed, the
// first that has a job.
func firstState(queue string, counts []broker.Count) broker.State {
	var sum broker.Count
	for i := range counts {
		if counts[i].Queue == queue {
			addCount(&sum, &counts[i])
		}
	}
	for _, s := range [...]broker.State{broker.Ready, broker.Leased, broker.Scheduled, broker.Dead, broker.Done, broker.Cancelled} {
		if sum.Of(s) > 0 {
			return s
		}
	}
	return broker.Ready
}

// find leads from what is typed into the search field to a job, or to a queue.
func (d *Dashboard) find(w http.ResponseWriter, r *http.Request) error {
	text := strings.TrimSpace(r.URL.Query().Get("q"))
	if id, err := broker.ParseID(text); err == nil {
		j, err := d.client.Get(r.Context(), id)
		if err != nil {
			return err
		}
		redirect(w, r, "queues/"+escape(j.Queue)+"/jobs/"+j.ID.String())
		return nil
	}
	counts, err := d.counts()
	if err != nil {
		return err
	}
	for _, c := range counts {
		if c.Queue == text {
			redirect(w, r, queueLink(text, url.Values{}))
			return nil
		}
	}
	for _, c := range counts {
		if c.Task == text {
			redirect(w, r, queueLink(c.Queue, url.Values{"task": {text}}))
			return nil
		}
	}
	return refusal{http.StatusNotFound, "Nothing is found: type the whole id of a job, or the name of a queue or a task."}
}
