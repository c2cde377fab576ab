package wire

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/spoolq/spool/broker"
)

// unknown is the state of a job that is not there.
const unknown = "unknown"

// Job is what the store knows of a job.
type Job struct {
	Queue    string    `json:"queue" doc:"The queue; a job is named by queue and id."`
	ID       broker.ID `json:"id" doc:"A UUID."`
	Task     string    `json:"task,omitzero" doc:"The sort of the job."`
	State    string    `json:"state" enum:"scheduled,ready,leased,done,dead,cancelled,unknown" doc:"Unknown: there is no such job, any more."`
	Reason   string    `json:"reason,omitzero" doc:"Why it is in its state; empty after the enqueue."`
	Priority int32     `json:"priority,omitzero" doc:"Higher first."`
	Tenant   string    `json:"tenant,omitzero" doc:"Who the job is for."`
	Group    string    `json:"group,omitzero" doc:"What per-group limits count by; the tenant when left out."`
	Ordered  bool      `json:"ordered,omitzero" doc:"Jobs of its group run one at a time, in order."`
	Key      string    `json:"key,omitzero" doc:"Idempotency key, scoped to the task."`

	Payload       jsontext.Value    `json:"payload,omitzero" doc:"The payload when it is JSON, byte for byte as it was enqueued."`
	PayloadBase64 []byte            `json:"payload_base64,omitzero" doc:"The payload when it is not JSON."`
	Headers       map[string]string `json:"headers,omitzero" doc:"Pairs that travel with the job."`
	HeaderBytes   []HeaderBytes     `json:"header_bytes,omitzero" doc:"Headers that are not UTF-8."`

	Attempt     int      `json:"attempt,omitzero" doc:"Starts so far, less those given back. The first run is attempt 1."`
	MaxAttempts int      `json:"max_attempts,omitzero" doc:"Runs in all before it is dead."`
	Timeout     Duration `json:"timeout,omitzero" doc:"Of one run."`
	StartWithin Duration `json:"start_within,omitzero" doc:"Cancelled when not started this long after it was due."`
	Retain      Duration `json:"retain,omitzero" doc:"How long the finished job is kept; negative: not at all."`

	EnqueuedAt time.Time `json:"enqueued_at,omitzero"`
	RunAt      time.Time `json:"run_at,omitzero" doc:"When it is or was due."`
	ClaimedAt  time.Time `json:"claimed_at,omitzero" doc:"The last claim."`
	FinishedAt time.Time `json:"finished_at,omitzero" doc:"When it became final."`

	Token           broker.Token `json:"token,omitzero" doc:"The last fencing token ever given for it."`
	Worker          string       `json:"worker,omitzero" doc:"Who holds, or last held, its lease."`
	LeaseExpiresAt  time.Time    `json:"lease_expires_at,omitzero"`
	CancelRequested bool         `json:"cancel_requested,omitzero" doc:"It runs, and its worker is to stop it."`

	HasResult    bool           `json:"has_result,omitzero"`
	Result       jsontext.Value `json:"result,omitzero" doc:"The result when it is JSON."`
	ResultBase64 []byte         `json:"result_base64,omitzero" doc:"The result when it is not JSON."`
	Error        string         `json:"error,omitzero" doc:"The text of the last failed attempt, or why it was cancelled."`
	Failures     int            `json:"failures,omitzero" doc:"Failed attempts ever."`
	Progress     *Progress      `json:"progress,omitzero" doc:"What the handler said of how far it is."`
	Log          []string       `json:"log,omitzero" doc:"The last lines that its handler logged in this run."`

	Batch        broker.ID `json:"batch,omitzero" doc:"Of a member of a batch: the completion job."`
	BatchOrdinal uint32    `json:"batch_ordinal,omitzero"`
	Bytes        Bytes     `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// Progress is how far a run is.
type Progress struct {
	Percent int    `json:"percent" minimum:"0" maximum:"100"`
	Note    string `json:"note,omitzero"`
}

// JobOf is the shape of j, whose bytes it shares.
func JobOf(j *broker.Job) Job {
	if j.State == 0 {
		return Job{Queue: j.Queue, ID: j.ID, State: unknown}
	}
	v := Job{
		Queue: j.Queue, ID: j.ID, Task: j.Task, State: j.State.String(), Reason: j.Reason, Priority: j.Priority,
		Tenant: j.Tenant, Group: j.Group, Ordered: j.Ordered, Key: j.Key, Headers: j.Headers,
		Attempt: j.Attempt, MaxAttempts: j.MaxAttempts, Timeout: Duration(j.Timeout), StartWithin: Duration(j.StartWithin), Retain: Duration(j.Retain),
		EnqueuedAt: j.EnqueuedAt, RunAt: j.RunAt, ClaimedAt: j.ClaimedAt, FinishedAt: j.FinishedAt,
		Token: j.Token, Worker: j.Worker, LeaseExpiresAt: j.LeaseExpiresAt, CancelRequested: j.CancelRequested,
		HasResult: j.HasResult, Error: j.Error, Failures: j.Failures, Log: j.Log, Batch: j.Batch, BatchOrdinal: j.BatchOrdinal,
	}
	v.Payload, v.PayloadBase64 = forms(j.Payload)
	if j.HasResult {
		v.Result, v.ResultBase64 = forms(j.Result)
	}
	if j.Progress != (broker.Progress{}) {
		v.Progress = &Progress{j.Progress.Percent, j.Progress.Note}
	}
	return v
}

// forms returns b in the field that it stands in.
func forms(b []byte) (jsontext.Value, []byte) {
	switch {
	case len(b) == 0:
		return nil, nil
	case isJSON(b):
		return b, nil
	}
	return nil, b
}

// Job returns what v is the shape of.
func (v *Job) Job() (j broker.Job, err error) {
	if v.State == unknown {
		return broker.Job{Queue: v.Queue, ID: v.ID}, nil
	}
	state, err := broker.ParseState(v.State)
	if err != nil {
		return j, err
	}
	v.Bytes.intoLog(v.Log)
	fields := map[string]*string{"tenant": &v.Tenant, "group": &v.Group, "key": &v.Key, "worker": &v.Worker, "error": &v.Error}
	if v.Progress != nil {
		fields["note"] = &v.Progress.Note
		j.Progress = broker.Progress{Percent: v.Progress.Percent}
	}
	if err := v.Bytes.into(fields); err != nil {
		return j, err
	}
	if v.Progress != nil {
		j.Progress.Note = v.Progress.Note
	}
	if j.Payload, err = bodyOf("payload", v.Payload, v.PayloadBase64); err != nil {
		return j, err
	}
	if j.Result, err = bodyOf("result", v.Result, v.ResultBase64); err != nil {
		return j, err
	}
	if v.HasResult && j.Result == nil {
		j.Result = []byte{}
	}
	j.Queue, j.ID, j.Task, j.State, j.Reason, j.Priority = v.Queue, v.ID, v.Task, state, v.Reason, v.Priority
	j.Tenant, j.Group, j.Ordered, j.Key, j.Headers = v.Tenant, v.Group, v.Ordered, v.Key, headersOf(v.Headers, v.HeaderBytes)
	j.Attempt, j.MaxAttempts = v.Attempt, v.MaxAttempts
	j.Timeout, j.StartWithin, j.Retain = time.Duration(v.Timeout), time.Duration(v.StartWithin), time.Duration(v.Retain)
	j.EnqueuedAt, j.RunAt, j.ClaimedAt, j.FinishedAt = v.EnqueuedAt, v.RunAt, v.ClaimedAt, v.FinishedAt
	j.Token, j.Worker, j.LeaseExpiresAt, j.CancelRequested = v.Token, v.Worker, v.LeaseExpiresAt, v.CancelRequested
	j.HasResult, j.Error, j.Failures, j.Log = v.HasResult, v.Error, v.Failures, v.Log
	j.Batch, j.BatchOrdinal = v.Batch, v.BatchOrdinal
	return j, nil
}

func (v Job) appendTo(b []byte) []byte { return appendJob(b, &v) }

func appendJob(b []byte, v *Job) []byte {
	o := open(b)
	o.text("queue", v.Queue)
	o.id("id", v.ID)
	o.text("task", v.Task)
	o.text("state", v.State)
	o.text("reason", v.Reason)
	o.int("priority", int64(v.Priority))
	o.text("tenant", v.Tenant)
	o.text("group", v.Group)
	o.bool("ordered", v.Ordered)
	o.text("key", v.Key)
	o.body("payload", v.Payload, v.PayloadBase64)
	o.headers(v.Headers)
	o.int("attempt", int64(v.Attempt))
	o.int("max_attempts", int64(v.MaxAttempts))
	o.duration("timeout", v.Timeout)
	o.duration("start_within", v.StartWithin)
	o.duration("retain", v.Retain)
	o.time("enqueued_at", v.EnqueuedAt)
	o.time("run_at", v.RunAt)
	o.time("claimed_at", v.ClaimedAt)
	o.time("finished_at", v.FinishedAt)
	if v.Token != 0 {
		o.text("token", v.Token.String())
	}
	o.text("worker", v.Worker)
	o.time("lease_expires_at", v.LeaseExpiresAt)
	o.bool("cancel_requested", v.CancelRequested)
	o.bool("has_result", v.HasResult)
	o.body("result", v.Result, v.ResultBase64)
	o.text("error", v.Error)
	o.int("failures", int64(v.Failures))
	if v.Progress != nil {
		o.progress(v.Progress)
	}
	o.list("log", v.Log)
	o.id("batch", v.Batch)
	o.int("batch_ordinal", int64(v.BatchOrdinal))
	return o.close()
}

// progress writes how far a run is; a note that is not UTF-8 is the object's.
func (o *object) progress(p *Progress) {
	o.name("progress")
	inner := open(o.b)
	inner.name("percent")
	inner.b = append(inner.b, jsontext.Int(int64(p.Percent)).String()...)
	if p.Note != "" {
		inner.string("note", "note", p.Note)
	}
	o.odd = append(o.odd, inner.odd...)
	inner.odd = nil
	o.b = inner.close()
}
