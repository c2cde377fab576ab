package wire

import (
	"strconv"
	"time"

	"github.com/spoolq/spool/broker"
)

// ClaimRequest asks for jobs to run.
type ClaimRequest struct {
	Queues   []string `json:"queues,omitzero" doc:"In order of preference; every queue when left out."`
	Tasks    []string `json:"tasks,omitzero" doc:"What the caller can run, at most 256; any task when left out."`
	Max      *int     `json:"max,omitzero" doc:"Free slots: at most this many jobs, 1 to 1000; 1 when left out."`
	TTL      Duration `json:"ttl,omitzero" doc:"How long each lease lasts without being extended; 30s when left out." example:"30s"`
	Worker   string   `json:"worker,omitzero" doc:"Names the caller, which is listed as a worker under it while it claims, and for five minutes more."`
	Unlisted bool     `json:"unlisted,omitzero" doc:"Does not list the caller: it registers itself by extend, or is no worker."`
	Wait     Duration `json:"wait,omitzero" doc:"How long to wait for the first job; 0 answers at once. The server may cut it." example:"30s"`
}

// ClaimRequestOf is the shape of r.
func ClaimRequestOf(r *broker.ClaimRequest) ClaimRequest {
	return ClaimRequest{Queues: r.Queues, Tasks: r.Tasks, Max: &r.Max, TTL: Duration(r.TTL), Worker: r.Worker, Wait: Duration(r.Wait), Unlisted: true}
}

// ClaimRequest returns what v is the shape of: leases that outlive the server.
func (v *ClaimRequest) ClaimRequest() broker.ClaimRequest {
	slots := 1
	if v.Max != nil {
		slots = *v.Max
	}
	return broker.ClaimRequest{
		Queues: v.Queues, Tasks: v.Tasks, Max: slots, TTL: time.Duration(v.TTL), Worker: v.Worker,
		Wait: time.Duration(v.Wait), Remote: true,
	}
}

// Lease is the right to run one job for a time.
type Lease struct {
	Job       Job          `json:"job"`
	Token     broker.Token `json:"token" doc:"The fencing token: show it to extend and settle."`
	ExpiresAt time.Time    `json:"expires_at" doc:"On the store's clock. Extend the lease before."`
}

// Claimed is what a claim took.
type Claimed struct {
	Leases  []Lease  `json:"leases" doc:"May be empty; that is no error."`
	More    bool     `json:"more,omitzero" doc:"There may be more to take now."`
	NextDue Duration `json:"next_due,omitzero" doc:"How long until the next scheduled job of these queues is due; left out when none is known."`
}

// ClaimedOf is the shape of c, whose bytes it shares.
func ClaimedOf(c *broker.Claimed) Claimed {
	v := Claimed{Leases: make([]Lease, len(c.Leases)), More: c.More, NextDue: Duration(c.NextDue)}
	for i := range c.Leases {
		l := &c.Leases[i]
		v.Leases[i] = Lease{Job: JobOf(&l.Job), Token: l.Token, ExpiresAt: l.ExpiresAt}
	}
	return v
}

// Claimed returns what v is the shape of.
func (v *Claimed) Claimed() (c broker.Claimed, err error) {
	c.More, c.NextDue = v.More, time.Duration(v.NextDue)
	for i := range v.Leases {
		l := &v.Leases[i]
		job, err := l.Job.Job()
		if err != nil {
			return c, err
		}
		c.Leases = append(c.Leases, broker.Lease{Job: job, Token: l.Token, ExpiresAt: l.ExpiresAt})
	}
	return c, nil
}

func (v Claimed) appendTo(b []byte) []byte {
	o := open(b)
	array(&o, "leases", v.Leases, func(b []byte, l *Lease) []byte {
		o := open(b)
		o.name("job")
		o.b = appendJob(o.b, &l.Job)
		o.text("token", l.Token.String())
		o.time("expires_at", l.ExpiresAt)
		return o.close()
	})
	o.bool("more", v.More)
	o.duration("next_due", v.NextDue)
	return o.close()
}

// Worker is a registered worker: who claims, and what it can run.
type Worker struct {
	ID          string    `json:"id,omitzero" doc:"Unique for a start of a worker."`
	Name        string    `json:"name,omitzero" doc:"Chosen by people."`
	Host        string    `json:"host,omitzero"`
	PID         int       `json:"pid,omitzero"`
	Queues      []string  `json:"queues,omitzero" doc:"That it listens to; every queue when left out."`
	Tasks       []string  `json:"tasks,omitzero" doc:"That it can run; any task when left out."`
	Concurrency int       `json:"concurrency,omitzero"`
	StartedAt   time.Time `json:"started_at,omitzero"`
	Leases      int       `json:"leases,omitzero" doc:"Held now."`
	Bytes       Bytes     `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// WorkerOf is the shape of w.
func WorkerOf(w *broker.Worker) Worker {
	return Worker{
		ID: w.ID, Name: w.Name, Host: w.Host, PID: w.PID, Queues: w.Queues, Tasks: w.Tasks,
		Concurrency: w.Concurrency, StartedAt: w.StartedAt, Leases: w.Leases,
	}
}

// Worker returns what v is the shape of.
func (v *Worker) Worker() (broker.Worker, error) {
	err := v.Bytes.into(map[string]*string{"id": &v.ID, "name": &v.Name, "host": &v.Host})
	return broker.Worker{
		ID: v.ID, Name: v.Name, Host: v.Host, PID: v.PID, Queues: v.Queues, Tasks: v.Tasks,
		Concurrency: v.Concurrency, StartedAt: v.StartedAt, Leases: v.Leases,
	}, err
}

func (v Worker) appendTo(b []byte) []byte { return appendWorker(b, &v) }

func appendWorker(b []byte, v *Worker) []byte {
	o := open(b)
	o.text("id", v.ID)
	o.text("name", v.Name)
	o.text("host", v.Host)
	o.int("pid", int64(v.PID))
	o.list("queues", v.Queues)
	o.list("tasks", v.Tasks)
	o.int("concurrency", int64(v.Concurrency))
	o.time("started_at", v.StartedAt)
	o.int("leases", int64(v.Leases))
	return o.close()
}

// Workers is a list of workers.
type Workers struct {
	Workers []Worker `json:"workers"`
}

func (v Workers) appendTo(b []byte) []byte {
	o := open(b)
	array(&o, "workers", v.Workers, appendWorker)
	return o.close()
}

// ExtendRequest is a worker's heartbeat.
type ExtendRequest struct {
	Worker  *Worker     `json:"worker,omitzero" doc:"Registers the caller, or refreshes it; left out by one who only extends leases."`
	Leaving bool        `json:"leaving,omitzero" doc:"Removes the registration."`
	Leases  []Extension `json:"leases,omitzero"`
	TTL     Duration    `json:"ttl,omitzero" doc:"Each lease expires so long from now; 30s when left out." example:"30s"`
}

// Extension is what a heartbeat says of one lease.
type Extension struct {
	Queue    string       `json:"queue"`
	ID       broker.ID    `json:"id"`
	Token    broker.Token `json:"token,omitzero" doc:"The lease's; without it the lease counts as lost."`
	Progress *Progress    `json:"progress,omitzero" doc:"Unchanged when left out."`
	Log      []string     `json:"log,omitzero" doc:"Lines to keep with the job: it keeps the last 100, and 8 KiB of them."`
	Bytes    Bytes        `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// ExtendRequestOf is the shape of r.
func ExtendRequestOf(r *broker.ExtendRequest) ExtendRequest {
	v := ExtendRequest{Leaving: r.Leaving, TTL: Duration(r.TTL), Leases: make([]Extension, len(r.Leases))}
	w := WorkerOf(&r.Worker)
	v.Worker = &w
	for i := range r.Leases {
		x := &r.Leases[i]
		v.Leases[i] = Extension{Queue: x.Ref.Queue, ID: x.Ref.ID, Token: x.Token, Log: x.Log}
		if x.Progress != nil {
			v.Leases[i].Progress = &Progress{x.Progress.Percent, x.Progress.Note}
		}
	}
	return v
}

// ExtendRequest returns what v is the shape of.
func (v *ExtendRequest) ExtendRequest() (r broker.ExtendRequest, err error) {
	r.Leaving, r.TTL = v.Leaving, time.Duration(v.TTL)
	if v.Worker != nil {
		if r.Worker, err = v.Worker.Worker(); err != nil {
			return r, err
		}
	}
	for i := range v.Leases {
		x := &v.Leases[i]
		x.Bytes.intoLog(x.Log)
		one := broker.Extension{Ref: broker.Ref{Queue: x.Queue, ID: x.ID}, Token: x.Token, Log: x.Log}
		fields := map[string]*string{}
		if x.Progress != nil {
			one.Progress = &broker.Progress{Percent: x.Progress.Percent, Note: x.Progress.Note}
			fields["note"] = &one.Progress.Note
		}
		if err := x.Bytes.into(fields); err != nil {
			return r, err
		}
		r.Leases = append(r.Leases, one)
	}
	return r, nil
}

func (v ExtendRequest) appendTo(b []byte) []byte {
	o := open(b)
	if v.Worker != nil {
		o.name("worker")
		o.b = appendWorker(o.b, v.Worker)
	}
	o.bool("leaving", v.Leaving)
	o.duration("ttl", v.TTL)
	array(&o, "leases", v.Leases, func(b []byte, x *Extension) []byte {
		o := open(b)
		o.ref(x.Queue, x.ID, x.Token)
		if x.Progress != nil {
			o.progress(x.Progress)
		}
		o.list("log", x.Log)
		return o.close()
	})
	return o.close()
}

// ref writes a job's name and a token.
func (o *object) ref(queue string, id broker.ID, token broker.Token) {
	o.text("queue", queue)
	o.name("id")
	o.b = append(o.b, '"')
	o.b = append(o.b, id.String()...)
	o.b = append(o.b, '"')
	if token != 0 {
		o.name("token")
		o.b = append(o.b, '"')
		o.b = strconv.AppendUint(o.b, uint64(token), 10)
		o.b = append(o.b, '"')
	}
}

// Beat says what became of a lease.
type Beat struct {
	Status    string    `json:"status" enum:"held,cancel_asked,lost" doc:"Held: extended. Cancel_asked: the same, but stop the job. Lost: stop, and settle nothing."`
	ExpiresAt time.Time `json:"expires_at,omitzero"`
}

// Beats answers an ExtendRequest, in the order of its leases.
type Beats struct {
	Leases []Beat `json:"leases"`
}

var beatNames = [...]string{"", "held", "cancel_asked", "lost"}

// BeatsOf is the shape of beats.
func BeatsOf(beats []broker.Beat) Beats {
	v := Beats{make([]Beat, len(beats))}
	for i, b := range beats {
		v.Leases[i] = Beat{nameOf(beatNames[:], int(b.Status)), b.ExpiresAt}
	}
	return v
}

// Beats returns what v is the shape of.
func (v *Beats) Beats() ([]broker.Beat, error) {
	var all []broker.Beat
	for _, b := range v.Leases {
		status, err := valueOf("status", beatNames[:], b.Status)
		if err != nil {
			return nil, err
		}
		all = append(all, broker.Beat{Status: broker.BeatStatus(status), ExpiresAt: b.ExpiresAt})
	}
	return all, nil
}
