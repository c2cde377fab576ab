package httpbroker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// ofQueue is the path of something of a queue. A name that is none gives a path
// that no server has, so it is refused here.
func ofQueue(queue, what string) (string, error) {
	if err := broker.ValidName(queue); err != nil {
		return "", fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	return "/v1/queues/" + queue + what, nil
}

// post makes a call that changes something.
func (c *client) post(ctx context.Context, call broker.Call, path string, in, out any) error {
	if call.ID.IsZero() {
		call = broker.NewCall()
	}
	return c.call(ctx, posted(call, path, in), out)
}

func posted(call broker.Call, path string, in any) request {
	return request{method: http.MethodPost, path: path, body: in, id: call.ID}
}

// posts makes a call that is answered for each of n things; count says for how
// many an answer is.
func (c *client) posts(ctx context.Context, call broker.Call, path string, in, out any, n int, count func() int) error {
	if call.ID.IsZero() {
		call = broker.NewCall()
	}
	r := posted(call, path, in)
	if err := c.call(ctx, r, out); err != nil {
		return err
	}
	return c.all(&r, count(), n)
}

// Enqueue is Broker.Enqueue.
func (c *client) Enqueue(ctx context.Context, call broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	path, err := ofQueue(queue, "/jobs")
	if err != nil {
		return nil, err
	}
	var out wire.EnqueueAnswer
	post := func(jobs []broker.NewJob) error {
		in := wire.EnqueueRequest{Jobs: wire.NewJobsOf(jobs)}
		return c.posts(ctx, call, path, in, &out, len(jobs), func() int { return len(out.Jobs) })
	}
	err = post(jobs)
	if errors.Is(err, broker.ErrMisplaced) {
		err = post(withoutNewIDs(jobs))
	}
	if err != nil {
		return nil, err
	}
	return out.Enqueued(), nil
}

// withoutNewIDs leaves the ids to the server that nobody chose: it cannot see which
// these are, and takes an id for chosen. Those of jobs that complete a batch stay:
// its members name them.
func withoutNewIDs(jobs []broker.NewJob) []broker.NewJob {
	jobs = slices.Clone(jobs)
	for i := range jobs {
		if jobs[i].HasNewID() && jobs[i].BatchSize == 0 {
			jobs[i].ClearID()
		}
	}
	return jobs
}

// withoutNewFollowUpIDs is withoutNewIDs for the follow-ups of settlements.
func withoutNewFollowUpIDs(list []broker.Settlement) []broker.Settlement {
	list = slices.Clone(list)
	for i := range list {
		list[i].FollowUps = slices.Clone(list[i].FollowUps)
		for k := range list[i].FollowUps {
			if j := &list[i].FollowUps[k].Job; j.HasNewID() {
				j.ClearID()
			}
		}
	}
	return list
}

// Extend is Broker.Extend. It can be repeated: what it did twice it did once.
func (c *client) Extend(ctx context.Context, r broker.ExtendRequest) ([]broker.Beat, error) {
	var out wire.Beats
	in := wire.ExtendRequestOf(&r)
	if err := c.posts(ctx, broker.NewCall(), "/v1/extend", in, &out, len(r.Leases), func() int { return len(out.Leases) }); err != nil {
		return nil, err
	}
	beats, err := out.Beats()
	if err == nil {
		c.held.extended(&r, beats)
	}
	return beats, err
}

// Settle is Broker.Settle.
func (c *client) Settle(ctx context.Context, call broker.Call, list []broker.Settlement) ([]broker.Settled, error) {
	var out wire.SettleAnswer
	post := func(list []broker.Settlement) error {
		in := wire.SettleRequestOf(list)
		return c.posts(ctx, call, "/v1/settle", in, &out, len(list), func() int { return len(out.Settlements) })
	}
	err := post(list)
	if errors.Is(err, broker.ErrMisplaced) {
		err = post(withoutNewFollowUpIDs(list))
	}
	if err != nil {
		return nil, err
	}
	c.held.settled(list)
	return out.Settled()
}

// commands are the paths of the commands.
var commands = map[broker.CommandKind]string{
	broker.CancelJobs: "/cancel", broker.RequeueJobs: "/requeue", broker.DeleteJobs: "/delete",
	broker.PauseQueue: "/pause", broker.ResumeQueue: "/resume",
}

// Apply is Broker.Apply.
func (c *client) Apply(ctx context.Context, call broker.Call, cmd broker.Command) (step broker.Step, err error) {
	what, known := commands[cmd.Kind]
	if !known {
		return step, fmt.Errorf("%w: command %d is unknown", broker.ErrInvalid, cmd.Kind)
	}
	path, err := ofQueue(cmd.Filter.Queue, what)
	if err == nil {
		err = ofJobs(&cmd.Filter)
	}
	if err != nil {
		return step, err
	}
	var in any
	if cmd.Kind != broker.PauseQueue && cmd.Kind != broker.ResumeQueue {
		in = wire.CommandRequestOf(&cmd)
	}
	var out wire.Step
	err = c.post(ctx, call, path, in, &out)
	return broker.Step(out), err
}

// Configure is Broker.Configure.
func (c *client) Configure(ctx context.Context, call broker.Call, queue string, change broker.Change) error {
	path, err := ofQueue(queue, "/settings")
	if err != nil {
		return err
	}
	return c.post(ctx, call, path, wire.ChangeOf(&change), nil)
}

// Tick is Broker.Tick.
func (c *client) Tick(ctx context.Context, call broker.Call, t broker.Tick) (won bool, now time.Time, err error) {
	if err := broker.ValidName(t.Schedule); err != nil {
		return false, now, fmt.Errorf("%w: schedule name %w", broker.ErrInvalid, err)
	}
	path, err := ofQueue(t.Queue, "/schedules/"+t.Schedule+"/tick")
	if err != nil {
		return false, now, err
	}
	var out wire.Ticked
	err = c.post(ctx, call, path, wire.TickRequest{Due: t.Due, Next: t.Next, Jobs: wire.NewJobsOf(t.Jobs)}, &out)
	return out.Won, out.Now, err
}

// Maintain is Broker.Maintain. The server keeps house by itself; one more step
// does no harm, and brings forward what is due.
func (c *client) Maintain(ctx context.Context) (time.Duration, error) {
	var out wire.Maintained
	err := c.call(ctx, request{method: http.MethodPost, path: "/v1/maintain"}, &out)
	return time.Duration(out.After), err
}

// Get is Inspector.Get.
func (c *client) Get(ctx context.Context, refs []broker.Ref) ([]broker.Job, error) {
	jobs := make([]broker.Job, 0, len(refs))
	for most := maxRefs; len(refs) > 0; {
		n := min(len(refs), most)
		r := request{method: http.MethodPost, path: "/v1/lookup", body: wire.LookupRequest{Jobs: wire.RefsOf(refs[:n])}}
		page, err := c.page(ctx, r)
		if err == nil {
			err = c.all(&r, len(page.Jobs), n)
		}
		if errors.Is(err, broker.ErrTooLarge) && n > 1 {
			most = n / 2
			continue
		}
		if err != nil {
			return nil, err
		}
		jobs, refs = append(jobs, page.Jobs...), refs[n:]
	}
	return jobs, nil
}

// maxRefs is how many jobs a call names.
const maxRefs = 1000

// page makes a call that is answered with jobs.
func (c *client) page(ctx context.Context, r request) (broker.Page, error) {
	var out wire.Page
	if err := c.call(ctx, r, &out); err != nil {
		return broker.Page{}, err
	}
	return out.Page()
}

// ofJobs refuses what only Watch knows.
func ofJobs(f *broker.Filter) error {
	if f.Settings || f.Reason != "" {
		return fmt.Errorf("%w: a filter of settings or of a reason chooses no jobs: it is for Watch alone", broker.ErrInvalid)
	}
	return nil
}

// List is Inspector.List.
func (c *client) List(ctx context.Context, f broker.Filter, cursor string, n int) (broker.Page, error) {
	path, err := ofQueue(f.Queue, "/search")
	if err == nil {
		err = ofJobs(&f)
	}
	if err != nil {
		return broker.Page{}, err
	}
	if n < 1 {
		return broker.Page{}, fmt.Errorf("%w: %d jobs a page: allowed are 1 to %d", broker.ErrInvalid, n, broker.MaxPageJobs)
	}
	return c.page(ctx, request{method: http.MethodPost, path: path, body: wire.SearchRequest{Filter: wire.FilterOf(&f), Cursor: cursor, Limit: n}})
}

// get makes a call that only reads.
func (c *client) get(ctx context.Context, path, queue string, out any) error {
	r := request{method: http.MethodGet, path: path}
	if queue != "" {
		r.query = url.Values{"queue": {queue}}
	}
	return c.call(ctx, r, out)
}

// Counts is Inspector.Counts.
func (c *client) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	var out wire.Counts
	err := c.get(ctx, "/v1/counts", queue, &out)
	return out.Counts, err
}

// Settings is Inspector.Settings.
func (c *client) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	var out wire.Settings
	if err := c.get(ctx, "/v1/settings", queue, &out); err != nil {
		return nil, err
	}
	var all []broker.QueueSetting
	for i := range out.Settings {
		s, err := out.Settings[i].Setting()
		if err != nil {
			return nil, err
		}
		all = append(all, broker.QueueSetting{Queue: out.Settings[i].Queue, Setting: s})
	}
	return all, nil
}

// Workers is Inspector.Workers.
func (c *client) Workers(ctx context.Context, queue string) ([]broker.Worker, error) {
	var out wire.Workers
	if err := c.get(ctx, "/v1/workers", queue, &out); err != nil {
		return nil, err
	}
	var all []broker.Worker
	for i := range out.Workers {
		w, err := out.Workers[i].Worker()
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	return all, nil
}

// Explain is Inspector.Explain.
func (c *client) Explain(ctx context.Context, r broker.Ref) (broker.Explanation, error) {
	path, err := ofQueue(r.Queue, "/jobs/"+r.ID.String()+"/explain")
	if err != nil {
		return broker.Explanation{}, err
	}
	var out wire.Explanation
	if err := c.get(ctx, path, "", &out); err != nil {
		return broker.Explanation{}, err
	}
	return out.Explanation()
}

// Health is Inspector.Health: the store's, or that nobody answers.
func (c *client) Health(ctx context.Context) (broker.Health, error) {
	var out broker.Health
	err := c.call(ctx, request{method: http.MethodGet, path: "/v1/health", once: true}, &out)
	switch {
	case err == nil:
		out.Detail = joined("behind the server at "+c.place, out.Detail)
		return out, nil
	case ctx.Err() != nil || c.life.Err() != nil:
		return out, err
	}
	return broker.Health{Status: broker.Unreachable, Text: "the server at " + c.place + " does not answer: " + err.Error() + "; calls are repeated until it does"}, nil
}

func joined(a, b string) string {
	if b == "" {
		return a
	}
	return a + "; " + b
}
