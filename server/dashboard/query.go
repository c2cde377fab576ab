package dashboard

import (
	"net/url"
	"strings"

	"github.com/spoolq/spool/broker"
)

// query is which jobs of one state of a queue a page is about, as its address has
// it.
type query struct {
	Queue string
	State broker.State

	ID, Task, Tenant, Group, Key, Error, Older, Newer string
	// Cause chooses dead letters by what causeOf makes of their error: the
	// dashboard looks at each by itself, since the store knows nothing of it.
	Cause string

	filter broker.Filter
}

// fields are the parts of a query beside queue and state, by their names in an
// address.
func (q *query) fields() []struct {
	name  string
	value *string
} {
	return []struct {
		name  string
		value *string
	}{
		{"id", &q.ID}, {"task", &q.Task}, {"tenant", &q.Tenant}, {"group", &q.Group}, {"key", &q.Key},
		{"error", &q.Error}, {"older", &q.Older}, {"newer", &q.Newer}, {"cause", &q.Cause},
	}
}

// queryOf reads a query; a state that is not given is the fallback.
func queryOf(queue string, v url.Values, fallback broker.State) (*query, error) {
	q := &query{Queue: queue, State: fallback}
	for _, f := range q.fields() {
		*f.value = v.Get(f.name)
	}
	bad := func(err error) (*query, error) {
		return nil, refusal{400, "The filter cannot be used: " + safe(err.Error(), false) + "."}
	}
	if s := v.Get("state"); s != "" {
		state, err := broker.ParseState(s)
		if err != nil {
			return bad(err)
		}
		q.State = state
	}
	older, err := age(q.Older)
	if err != nil {
		return bad(err)
	}
	newer, err := age(q.Newer)
	if err != nil {
		return bad(err)
	}
	q.filter = broker.Filter{
		Queue: queue, States: []broker.State{q.State}, Task: q.Task, Tenant: q.Tenant, Group: q.Group, Key: q.Key,
		ErrorContains: q.Error, OlderThan: older, NewerThan: newer,
	}
	if id := strings.TrimSpace(q.ID); id != "" {
		parsed, err := broker.ParseID(id)
		if err != nil {
			return bad(err)
		}
		q.filter.IDs = []broker.ID{parsed}
	}
	return q, nil
}

// values writes the query as part of an address.
func (q *query) values() url.Values {
	v := url.Values{"state": {q.State.String()}}
	for _, f := range q.fields() {
		if *f.value != "" {
			v.Set(f.name, *f.value)
		}
	}
	return v
}

// in is the same query of another state.
func (q *query) in(s broker.State) url.Values {
	v := q.values()
	v.Set("state", s.String())
	return v
}

// Encoded is the query as one field of a form, which carries any bytes.
func (q *query) Encoded() string { return q.values().Encode() }

// words say what the query chooses beside queue and state: "task send_email, error
// with “timeout”".
func (q *query) words() string {
	var parts []string
	for _, w := range [...]struct{ words, value string }{
		{"id ", q.ID}, {"task ", q.Task}, {"tenant ", q.Tenant}, {"group ", q.Group}, {"key ", q.Key}, {"error with ", q.Error},
		{"cause ", q.Cause}, {"older than ", q.Older}, {"newer than ", q.Newer},
	} {
		if w.value != "" {
			parts = append(parts, w.words+"“"+head(w.value, headChars)+"”")
		}
	}
	return strings.Join(parts, ", ")
}

// narrowed reports whether anything but the task is asked for: the store keeps no
// number of such jobs.
func (q *query) narrowed() bool {
	for _, f := range q.fields() {
		if *f.value != "" && f.name != "task" {
			return true
		}
	}
	return false
}

// filtered reports whether anything is asked for beside queue and state.
func (q *query) filtered() bool { return q.Task != "" || q.narrowed() }

// reads reports whether each job has to be read to be judged.
func (q *query) reads() bool { return q.Error != "" || q.Cause != "" }

// matches judges a job by what the store cannot.
func (q *query) matches(j *broker.Job) bool {
	return q.Cause == "" || causeOf(j.Error) == q.Cause
}

// kept is the number of jobs of the query's queue, state and task, and of the
// state as a whole.
func (q *query) kept(counts []broker.Count) (n, whole int64) {
	for i := range counts {
		if c := &counts[i]; c.Queue == q.Queue {
			whole += c.Of(q.State)
			if q.Task == "" || c.Task == q.Task {
				n += c.Of(q.State)
			}
		}
	}
	return n, whole
}
