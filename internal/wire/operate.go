package wire

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// CommandRequest changes many jobs in bounded steps: repeat it with the cursor of
// the answer until that is left out.
type CommandRequest struct {
	Filter Filter `json:"filter,omitzero"`
	Reason string `json:"reason,omitzero" doc:"Kept with cancelled jobs."`
	Limit  int    `json:"limit,omitzero" doc:"Change at most so many in this step; 1000 when left out."`
	Cursor string `json:"cursor,omitzero" doc:"Of the step before."`
	Bytes  Bytes  `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// CommandRequestOf is the shape of c, without its kind and its queue.
func CommandRequestOf(c *broker.Command) CommandRequest {
	return CommandRequest{Filter: FilterOf(&c.Filter), Reason: c.Reason, Limit: c.Limit, Cursor: c.Cursor}
}

// Command returns what v is the shape of.
func (v *CommandRequest) Command(kind broker.CommandKind, queue string) (broker.Command, error) {
	if err := v.Bytes.into(map[string]*string{"reason": &v.Reason}); err != nil {
		return broker.Command{}, err
	}
	filter, err := v.Filter.Filter(queue)
	return broker.Command{Kind: kind, Filter: filter, Reason: v.Reason, Limit: v.Limit, Cursor: v.Cursor}, err
}

func (v CommandRequest) appendTo(b []byte) []byte {
	o := open(b)
	o.name("filter")
	o.b = appendFilter(o.b, &v.Filter)
	o.text("reason", v.Reason)
	o.int("limit", int64(v.Limit))
	o.text("cursor", v.Cursor)
	return o.close()
}

// Step is what one step of a command did.
type Step struct {
	Changed int    `json:"changed"`
	Cursor  string `json:"cursor,omitzero" doc:"Repeat the command with it; left out when it is finished."`
}

// TickRequest moves a schedule's cursor and enqueues the jobs of the instants
// that it passes.
type TickRequest struct {
	Due  time.Time `json:"due,omitzero" doc:"Where the caller saw the cursor."`
	Next time.Time `json:"next,omitzero" doc:"Where it goes; left out when the expression never fires again."`
	Jobs []NewJob  `json:"jobs,omitzero"`
}

func (v TickRequest) appendTo(b []byte) []byte {
	o := open(b)
	o.time("due", v.Due)
	o.time("next", v.Next)
	array(&o, "jobs", v.Jobs, appendNewJob)
	return o.close()
}

// Ticked answers a TickRequest.
type Ticked struct {
	Won bool      `json:"won" doc:"Of any number of callers with one due one wins."`
	Now time.Time `json:"now" doc:"The store's wall clock."`
}

// Maintained answers one step of upkeep.
type Maintained struct {
	After Duration `json:"after" doc:"When the next step is wanted."`
}

// NewJobsOf is the shape of jobs, whose bytes it shares.
func NewJobsOf(jobs []broker.NewJob) []NewJob {
	all := make([]NewJob, len(jobs))
	for i := range jobs {
		all[i] = NewJobOf(&jobs[i])
	}
	return all
}

// NewJobs returns what list is the shape of.
func NewJobs(list []NewJob) ([]broker.NewJob, error) {
	jobs := make([]broker.NewJob, len(list))
	for i := range list {
		job, err := list[i].NewJob()
		if err != nil {
			return nil, err
		}
		jobs[i] = job
	}
	return jobs, nil
}
