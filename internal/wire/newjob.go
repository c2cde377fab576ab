package wire

import (
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/spoolq/spool/broker"
)

// NewJob is a job to enqueue.
type NewJob struct {
	ID            broker.ID         `json:"id,omitzero" doc:"A UUID, best of version 7; the server makes one when left out."`
	Task          string            `json:"task" doc:"The sort of the job: 1 to 128 characters of A-Z a-z 0-9 _ . -"`
	Payload       jsontext.Value    `json:"payload,omitzero" doc:"Any JSON value, kept byte for byte."`
	PayloadBase64 []byte            `json:"payload_base64,omitzero" doc:"Any bytes, in place of payload."`
	Headers       map[string]string `json:"headers,omitzero" doc:"Pairs that travel with the job."`
	HeaderBytes   []HeaderBytes     `json:"header_bytes,omitzero" doc:"Headers that are not UTF-8."`

	Priority int32     `json:"priority,omitzero" doc:"Higher first; 0 by default."`
	Delay    Duration  `json:"delay,omitzero" doc:"From the store's now, like 1m30s. Not with at." example:"90s"`
	At       time.Time `json:"at,omitzero" doc:"When it is due. Not with delay."`

	Tenant  string `json:"tenant,omitzero" doc:"Who the job is for: tenants share a queue by their weights."`
	Group   string `json:"group,omitzero" doc:"What per-group limits count by, and what ordered keeps in order; the tenant when left out."`
	Ordered bool   `json:"ordered,omitzero" doc:"Run the jobs of its group one at a time, in their order."`

	Key       string   `json:"key,omitzero" doc:"Idempotency key, scoped to the task: while it is held, a repeat adds nothing and gives that job's id."`
	KeyHold   string   `json:"key_hold,omitzero" enum:"until_final,until_started,for" doc:"How long the key is held; until_final by default."`
	KeyFor    Duration `json:"key_for,omitzero" doc:"How long, of key_hold for (which it implies)." example:"24h"`
	KeyRepeat string   `json:"key_repeat,omitzero" enum:"first,replace,debounce" doc:"What a repeat of the key does to the job that waits with it; first by default: nothing."`

	MaxAttempts int      `json:"max_attempts,omitzero" doc:"Runs in all; 20 by default."`
	Timeout     Duration `json:"timeout,omitzero" doc:"Of one run; none by default." example:"30s"`
	StartWithin Duration `json:"start_within,omitzero" doc:"Cancel the job when it was not started this long after it was due."`
	Retain      Duration `json:"retain,omitzero" doc:"Keep the finished job this long; negative: not at all." example:"1h"`

	BatchSize    uint32    `json:"batch_size,omitzero" doc:"Of the completion job of a batch: how many members it waits for. It is enqueued in one call with them."`
	Batch        broker.ID `json:"batch,omitzero" doc:"Of a member of a batch: the id of the completion job."`
	BatchOrdinal uint32    `json:"batch_ordinal,omitzero" doc:"Of a member: its number, from 0."`
	Bytes        Bytes     `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

var (
	keyHolds   = [...]string{"until_final", "until_started", "for"}
	keyRepeats = [...]string{"first", "replace", "debounce"}
)

// NewJobOf is the shape of j, whose bytes it shares.
func NewJobOf(j *broker.NewJob) NewJob {
	v := NewJob{
		ID: j.ID, Task: j.Task, Headers: j.Headers, Priority: j.Priority, Delay: Duration(j.Delay), At: j.At,
		Tenant: j.Tenant, Group: j.Group, Ordered: j.Ordered, Key: j.Key, KeyFor: Duration(j.KeyFor),
		MaxAttempts: j.MaxAttempts, Timeout: Duration(j.Timeout), StartWithin: Duration(j.StartWithin), Retain: Duration(j.Retain),
		BatchSize: j.BatchSize, Batch: j.Batch, BatchOrdinal: j.BatchOrdinal,
	}
	v.Payload, v.PayloadBase64 = forms(j.Payload)
	v.KeyHold = nameOf(keyHolds[:], int(j.KeyHold))
	v.KeyRepeat = nameOf(keyRepeats[:], int(j.KeyRepeat))
	return v
}

// nameOf names a value; the zero one is left out, one that is not known is a
// number, which nobody takes.
func nameOf(names []string, value int) string {
	switch {
	case value == 0:
		return ""
	case value < len(names):
		return names[value]
	}
	return fmt.Sprint(value)
}

// valueOf is the value of a name; "" is 0.
func valueOf(field string, names []string, name string) (int, error) {
	if name == "" {
		return 0, nil
	}
	for i, n := range names {
		if n == name {
			return i, nil
		}
	}
	return 0, fmt.Errorf("%w: %s %.64q is unknown: allowed are %s", broker.ErrInvalid, field, name, choice(names))
}

func choice(names []string) (text string) {
	if names[0] == "" { // it stands for what is left out
		names = names[1:]
	}
	for i, n := range names {
		switch {
		case i == 0:
		case i == len(names)-1:
			text += " and "
		default:
			text += ", "
		}
		text += n
	}
	return text
}

// NewJob returns what v is the shape of, sharing its bytes. It checks no more
// than that the shape can be read.
func (v *NewJob) NewJob() (j broker.NewJob, err error) {
	if err := v.Bytes.into(map[string]*string{"tenant": &v.Tenant, "group": &v.Group, "key": &v.Key}); err != nil {
		return j, err
	}
	hold, err := valueOf("key_hold", keyHolds[:], v.KeyHold)
	if err != nil {
		return j, err
	}
	if v.KeyHold == "" && v.KeyFor != 0 {
		hold = int(broker.HoldFor)
	}
	repeat, err := valueOf("key_repeat", keyRepeats[:], v.KeyRepeat)
	if err != nil {
		return j, err
	}
	if j.Payload, err = bodyOf("payload", v.Payload, v.PayloadBase64); err != nil {
		return j, err
	}
	j.Task, j.Headers, j.Priority = v.Task, headersOf(v.Headers, v.HeaderBytes), v.Priority
	j.Delay, j.At, j.Tenant, j.Group, j.Ordered = time.Duration(v.Delay), v.At, v.Tenant, v.Group, v.Ordered
	j.Key, j.KeyHold, j.KeyFor, j.KeyRepeat = v.Key, broker.KeyHold(hold), time.Duration(v.KeyFor), broker.KeyRepeat(repeat)
	j.MaxAttempts, j.Timeout = v.MaxAttempts, time.Duration(v.Timeout)
	j.StartWithin, j.Retain = time.Duration(v.StartWithin), time.Duration(v.Retain)
	j.BatchSize, j.Batch, j.BatchOrdinal = v.BatchSize, v.Batch, v.BatchOrdinal
	j.ID = v.ID
	return j, nil
}

func (v NewJob) appendTo(b []byte) []byte { return appendNewJob(b, &v) }

func appendNewJob(b []byte, v *NewJob) []byte {
	o := open(b)
	o.newJob(v)
	return o.close()
}

// newJob writes the members of a new job.
func (o *object) newJob(v *NewJob) {
	o.id("id", v.ID)
	o.text("task", v.Task)
	o.body("payload", v.Payload, v.PayloadBase64)
	o.headers(v.Headers)
	o.int("priority", int64(v.Priority))
	o.duration("delay", v.Delay)
	o.time("at", v.At)
	o.text("tenant", v.Tenant)
	o.text("group", v.Group)
	o.bool("ordered", v.Ordered)
	o.text("key", v.Key)
	o.text("key_hold", v.KeyHold)
	o.duration("key_for", v.KeyFor)
	o.text("key_repeat", v.KeyRepeat)
	o.int("max_attempts", int64(v.MaxAttempts))
	o.duration("timeout", v.Timeout)
	o.duration("start_within", v.StartWithin)
	o.duration("retain", v.Retain)
	o.int("batch_size", int64(v.BatchSize))
	o.id("batch", v.Batch)
	o.int("batch_ordinal", int64(v.BatchOrdinal))
}

// EnqueueRequest adds jobs to one queue, all or none.
type EnqueueRequest struct {
	Jobs []NewJob `json:"jobs"`
	Wait Duration `json:"wait,omitzero" doc:"While the queue is full, wait up to so long for room; 0 answers 429 at once." example:"5s"`
}

func (v EnqueueRequest) appendTo(b []byte) []byte {
	o := open(b)
	array(&o, "jobs", v.Jobs, appendNewJob)
	o.duration("wait", v.Wait)
	return o.close()
}

// OneJob adds one job.
type OneJob struct {
	Queue string `json:"queue,omitzero" doc:"The queue, default when left out." example:"default"`
	NewJob
	Wait Duration `json:"wait,omitzero" doc:"While the queue is full, wait up to so long for room; 0 answers 429 at once."`
}

// Enqueued answers for one job.
type Enqueued struct {
	ID       broker.ID `json:"id" doc:"Of the job that is there now."`
	Existing bool      `json:"existing,omitzero" doc:"It was there already, by its id or its key: nothing was added."`
	Differs  bool      `json:"differs,omitzero" doc:"The job that is there has another payload."`
}

// EnqueueAnswer answers for all jobs of a call, in their order.
type EnqueueAnswer struct {
	Jobs []Enqueued `json:"jobs"`
}

// EnqueuedOf is the shape of answers.
func EnqueuedOf(answers []broker.Enqueued) []Enqueued {
	all := make([]Enqueued, len(answers))
	for i, a := range answers {
		all[i] = Enqueued(a)
	}
	return all
}

// Enqueued returns what v is the shape of.
func (v EnqueueAnswer) Enqueued() []broker.Enqueued {
	if v.Jobs == nil {
		return nil
	}
	all := make([]broker.Enqueued, len(v.Jobs))
	for i, a := range v.Jobs {
		all[i] = broker.Enqueued(a)
	}
	return all
}

func (v EnqueueAnswer) appendTo(b []byte) []byte {
	o := open(b)
	array(&o, "jobs", v.Jobs, func(b []byte, e *Enqueued) []byte {
		o := open(b)
		o.id("id", e.ID)
		o.bool("existing", e.Existing)
		o.bool("differs", e.Differs)
		return o.close()
	})
	return o.close()
}
