package wire

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// Filter chooses jobs of one queue. Fields left out choose all; those given are
// joined by "and".
type Filter struct {
	IDs           []broker.ID `json:"ids,omitzero"`
	States        []string    `json:"states,omitzero" enum:"scheduled,ready,leased,done,dead,cancelled"`
	Task          string      `json:"task,omitzero"`
	Tenant        string      `json:"tenant,omitzero"`
	Group         string      `json:"group,omitzero"`
	Key           string      `json:"key,omitzero"`
	ErrorContains string      `json:"error_contains,omitzero" doc:"A part of the error's text."`
	OlderThan     Duration    `json:"older_than,omitzero" doc:"Of its last change of state: of a dead letter, since its death." example:"24h"`
	NewerThan     Duration    `json:"newer_than,omitzero"`
	Bytes         Bytes       `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// FilterOf is the shape of f, without its queue.
func FilterOf(f *broker.Filter) Filter {
	var states []string
	for _, s := range f.States {
		states = append(states, s.String())
	}
	return Filter{
		IDs: f.IDs, States: states, Task: f.Task, Tenant: f.Tenant, Group: f.Group, Key: f.Key,
		ErrorContains: f.ErrorContains, OlderThan: Duration(f.OlderThan), NewerThan: Duration(f.NewerThan),
	}
}

// Filter returns what v is the shape of, in a queue.
func (v *Filter) Filter(queue string) (broker.Filter, error) {
	var states []broker.State
	for _, name := range v.States {
		s, err := broker.ParseState(name)
		if err != nil {
			return broker.Filter{}, fmt.Errorf("%w: states: %w", broker.ErrInvalid, err)
		}
		states = append(states, s)
	}
	err := v.Bytes.into(map[string]*string{"tenant": &v.Tenant, "group": &v.Group, "key": &v.Key, "error_contains": &v.ErrorContains})
	return broker.Filter{
		Queue: queue, IDs: v.IDs, States: states, Task: v.Task, Tenant: v.Tenant, Group: v.Group, Key: v.Key,
		ErrorContains: v.ErrorContains, OlderThan: time.Duration(v.OlderThan), NewerThan: time.Duration(v.NewerThan),
	}, err
}

func (v Filter) appendTo(b []byte) []byte { return appendFilter(b, &v) }

func appendFilter(b []byte, v *Filter) []byte {
	o := open(b)
	if v.IDs != nil {
		ids := make([]string, len(v.IDs))
		for i, id := range v.IDs {
			ids[i] = id.String()
		}
		o.list("ids", ids)
	}
	o.list("states", v.States)
	o.text("task", v.Task)
	o.text("tenant", v.Tenant)
	o.text("group", v.Group)
	o.text("key", v.Key)
	o.text("error_contains", v.ErrorContains)
	o.duration("older_than", v.OlderThan)
	o.duration("newer_than", v.NewerThan)
	return o.close()
}

// SearchRequest lists jobs of one queue that are in one state.
type SearchRequest struct {
	Filter Filter `json:"filter" doc:"With exactly one state."`
	Cursor string `json:"cursor,omitzero" doc:"Of the page before."`
	Limit  int    `json:"limit,omitzero" doc:"Jobs of the page, 1 to 1000; 100 when left out."`
}

func (v SearchRequest) appendTo(b []byte) []byte {
	o := open(b)
	o.name("filter")
	o.b = appendFilter(o.b, &v.Filter)
	o.text("cursor", v.Cursor)
	o.int("limit", int64(v.Limit))
	return o.close()
}

// Page is a part of a list.
type Page struct {
	Jobs   []Job  `json:"jobs"`
	Cursor string `json:"cursor,omitzero" doc:"Continues the list; left out at its end. A page can be empty and still have one."`
}

// PageOf is the shape of jobs with a cursor, whose bytes it shares.
func PageOf(jobs []broker.Job, cursor string) Page {
	v := Page{make([]Job, len(jobs)), cursor}
	for i := range jobs {
		v.Jobs[i] = JobOf(&jobs[i])
	}
	return v
}

// Page returns what v is the shape of.
func (v *Page) Page() (p broker.Page, err error) {
	p.Cursor = v.Cursor
	for i := range v.Jobs {
		job, err := v.Jobs[i].Job()
		if err != nil {
			return p, err
		}
		p.Jobs = append(p.Jobs, job)
	}
	return p, nil
}

func (v Page) appendTo(b []byte) []byte {
	o := open(b)
	array(&o, "jobs", v.Jobs, appendJob)
	o.text("cursor", v.Cursor)
	return o.close()
}

// Ref names one job.
type Ref struct {
	Queue string    `json:"queue"`
	ID    broker.ID `json:"id"`
}

// LookupRequest names jobs. With a wait, the answer comes when one of them is
// final, and holds those that are.
type LookupRequest struct {
	Jobs []Ref    `json:"jobs" doc:"At most 1000."`
	Wait Duration `json:"wait,omitzero" doc:"Of an await: how long to wait for the first. The server may cut it."`
}

// RefsOf is the shape of refs.
func RefsOf(refs []broker.Ref) []Ref {
	all := make([]Ref, len(refs))
	for i, r := range refs {
		all[i] = Ref(r)
	}
	return all
}

// Refs returns what v is the shape of.
func (v *LookupRequest) Refs() []broker.Ref {
	all := make([]broker.Ref, len(v.Jobs))
	for i, r := range v.Jobs {
		all[i] = broker.Ref(r)
	}
	return all
}

// Counts are the kept numbers by queue and task.
type Counts struct {
	Counts []broker.Count `json:"counts"`
}

// Explanation says why a job is not running now.
type Explanation struct {
	Reason  string    `json:"reason" enum:"final,leased,scheduled,paused,moving,no_worker,limit,rate,batch,behind,none"`
	Text    string    `json:"text" doc:"One sentence for people."`
	Until   time.Time `json:"until,omitzero"`
	Behind  int       `json:"behind,omitzero" doc:"How many jobs go first."`
	Worker  string    `json:"worker,omitzero"`
	Limit   string    `json:"limit,omitzero" doc:"The limit's name."`
	Holders []Ref     `json:"holders,omitzero" doc:"Jobs that hold it, at most 10."`
	After   Duration  `json:"after,omitzero"`
	Bytes   Bytes     `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// ExplanationOf is the shape of e.
func ExplanationOf(e *broker.Explanation) Explanation {
	v := Explanation{
		Reason: e.Reason, Text: e.Text, Until: e.Until, Behind: e.Behind, Worker: e.Worker, Limit: e.Limit, After: Duration(e.After),
	}
	if e.Holders != nil {
		v.Holders = RefsOf(e.Holders)
	}
	return v
}

// Explanation returns what v is the shape of.
func (v *Explanation) Explanation() (broker.Explanation, error) {
	err := v.Bytes.into(map[string]*string{"text": &v.Text, "worker": &v.Worker})
	e := broker.Explanation{
		Reason: v.Reason, Text: v.Text, Until: v.Until, Behind: v.Behind, Worker: v.Worker, Limit: v.Limit, After: time.Duration(v.After),
	}
	if v.Holders != nil {
		e.Holders = (&LookupRequest{Jobs: v.Holders}).Refs()
	}
	return e, err
}

func (v Explanation) appendTo(b []byte) []byte {
	o := open(b)
	o.text("reason", v.Reason)
	o.text("text", v.Text)
	o.time("until", v.Until)
	o.int("behind", int64(v.Behind))
	o.text("worker", v.Worker)
	o.text("limit", v.Limit)
	if v.Holders != nil {
		array(&o, "holders", v.Holders, func(b []byte, r *Ref) []byte {
			o := open(b)
			o.ref(r.Queue, r.ID, 0)
			return o.close()
		})
	}
	o.duration("after", v.After)
	return o.close()
}

// Event says that something happened to a job, or that a setting was changed.
type Event struct {
	Queue   string              `json:"queue"`
	ID      broker.ID           `json:"id,omitzero"`
	Task    string              `json:"task,omitzero"`
	State   string              `json:"state,omitzero"`
	Reason  string              `json:"reason,omitzero"`
	Worker  string              `json:"worker,omitzero"`
	At      time.Time           `json:"at,omitzero"`
	Setting *broker.SettingName `json:"setting,omitzero" doc:"What was set, declared, removed, paused or resumed."`
	Bytes   Bytes               `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// EventOf is the shape of e.
func EventOf(e *broker.Event) Event {
	v := Event{Queue: e.Queue, ID: e.ID, Task: e.Task, Reason: e.Reason, Worker: e.Worker, At: e.At, Setting: e.Setting}
	if e.State != 0 {
		v.State = e.State.String()
	}
	return v
}

// Event returns what v is the shape of.
func (v *Event) Event() (e broker.Event, err error) {
	if v.State != "" {
		if e.State, err = broker.ParseState(v.State); err != nil {
			return e, err
		}
	}
	err = v.Bytes.into(map[string]*string{"worker": &v.Worker})
	e.Queue, e.ID, e.Task, e.Reason, e.Worker, e.At, e.Setting = v.Queue, v.ID, v.Task, v.Reason, v.Worker, v.At, v.Setting
	return e, err
}

func (v Event) appendTo(b []byte) []byte {
	o := open(b)
	o.text("queue", v.Queue)
	o.id("id", v.ID)
	o.text("task", v.Task)
	o.text("state", v.State)
	o.text("reason", v.Reason)
	o.text("worker", v.Worker)
	o.time("at", v.At)
	if v.Setting != nil {
		o.name("setting")
		inner := open(o.b)
		inner.name("kind")
		inner.b = append(inner.b, '"')
		inner.b = append(append(inner.b, v.Setting.Kind...), '"')
		inner.string("name", "", v.Setting.Name)
		inner.odd = nil
		o.b = inner.close()
	}
	return o.close()
}

// Caps says what the server's store can do and promise.
type Caps struct {
	Broker     string   `json:"broker" doc:"What the server keeps its jobs in." example:"file"`
	Durability string   `json:"durability" doc:"What an acknowledged call survives, in words."`
	OneCommit  bool     `json:"one_commit" doc:"A call for several queues is one commit."`
	MaxBatch   int      `json:"max_batch" doc:"Jobs in one call."`
	MaxBytes   int      `json:"max_bytes" doc:"Bytes of payloads and headers in one call."`
	MaxPayload int      `json:"max_payload" doc:"Bytes of one payload, and of one result."`
	Retry      Duration `json:"retry" doc:"How long a repeated call id is recognised."`
	MaxWait    Duration `json:"max_wait" doc:"The longest wait of a claim, an await and an enqueue."`
	Version    string   `json:"version" doc:"Of the server."`
}

// Queues is every queue of the store.
type Queues struct {
	Queues []Queue `json:"queues"`
}

// Queue is one queue: the sums of its tasks.
type Queue struct {
	Name      string `json:"name"`
	Paused    bool   `json:"paused,omitzero"`
	Moving    string `json:"moving,omitzero" doc:"It moves to or from another store."`
	Depth     int64  `json:"depth" doc:"Scheduled, ready and leased jobs."`
	HighWater int64  `json:"high_water" doc:"The most that depth ever was."`
	Bytes     int64  `json:"bytes"`
	Scheduled int64  `json:"scheduled"`
	Ready     int64  `json:"ready"`
	Leased    int64  `json:"leased"`
	Done      int64  `json:"done"`
	Dead      int64  `json:"dead"`
	Cancelled int64  `json:"cancelled"`

	Totals broker.Totals `json:"totals" doc:"What ever happened."`
}

// QueuesOf sums counts, which are sorted by queue.
func QueuesOf(counts []broker.Count) []Queue {
	all := []Queue{}
	for i := range counts {
		c := &counts[i]
		if len(all) == 0 || all[len(all)-1].Name != c.Queue {
			all = append(all, Queue{Name: c.Queue, Paused: c.Paused, Moving: c.Moving, Depth: c.Depth, HighWater: c.HighWater, Bytes: c.Bytes})
		}
		q := &all[len(all)-1]
		q.Scheduled += c.Scheduled
		q.Ready += c.Ready
		q.Leased += c.Leased
		q.Done += c.Done
		q.Dead += c.Dead
		q.Cancelled += c.Cancelled
		t := &q.Totals
		t.Enqueued += c.Totals.Enqueued
		t.Claimed += c.Totals.Claimed
		t.Acked += c.Totals.Acked
		t.Failed += c.Totals.Failed
		t.Expired += c.Totals.Expired
		t.Died += c.Totals.Died
		t.Cancelled += c.Totals.Cancelled
		t.Deleted += c.Totals.Deleted
	}
	return all
}
