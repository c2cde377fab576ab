package server

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

func (s *Server) readRoutes() {
	get := func(path, id, summary, doc string) route {
		return route{method: http.MethodGet, path: path, id: id, summary: summary, doc: doc, tag: "read", scope: Read}
	}
	register(s, get("/v1/jobs/{id}", "get-job", "One job, whatever its queue", "Each queue is asked."), s.getJob)
	register(s, get("/v1/queues/{queue}/jobs/{id}", "get-job-of-queue", "One job", ""), s.getJobOfQueue)
	register(s, get("/v1/queues/{queue}/jobs/{id}/explain", "explain", "Why a job is not running now", ""), s.explain)
	register(s, get("/v1/queues/{queue}/jobs/{id}/payload", "get-payload", "The bytes of a job's payload", ""), s.payload)
	register(s, get("/v1/queues/{queue}/jobs/{id}/result", "get-result", "The bytes of a job's result", ""), s.result)
	register(s, get("/v1/queues/{queue}/jobs", "list-jobs", "Jobs of one queue that are in one state",
		"In the order in which they entered it. A filter beyond task, tenant and group looks at 10,000 jobs a page at most: a page may be empty and still have a cursor."), s.listJobs)
	register(s, route{
		method: http.MethodPost, path: "/v1/queues/{queue}/search", id: "search-jobs", tag: "read", scope: Read,
		summary: "The same list with its filter in the body",
	}, s.searchJobs)
	register(s, route{
		method: http.MethodPost, path: "/v1/lookup", id: "lookup", tag: "read", scope: Read,
		summary: "Jobs by queue and id",
		doc:     "At most 1000. Answers 413 when several of them have more than 32 MiB together.",
	}, s.lookup)
	register(s, get("/v1/counts", "counts", "Jobs by queue, task and state, and what ever happened", "Kept, not counted: it costs the number of tasks."), s.counts)
	register(s, get("/v1/queues", "list-queues", "Every queue with its depth", ""), s.queues)
	register(s, get("/v1/settings", "list-settings", "The settings in force", "Limits, weights of tenants, capacities, retentions, ageing, schedules."), s.settings)
	register(s, get("/v1/workers", "list-workers", "The registered workers that live", ""), s.workers)
}

type idIn struct {
	ID broker.ID `path:"id"`
}

func (s *Server) getJob(ctx context.Context, in *idIn) (*answer[wire.Job], error) {
	job, err := s.client.Get(ctx, in.ID)
	if err != nil {
		return nil, err
	}
	return &answer[wire.Job]{wire.JobOf(&job)}, nil
}

type refIn struct {
	Queue string    `path:"queue"`
	ID    broker.ID `path:"id"`
}

// job returns the job of a path.
func (s *Server) job(ctx context.Context, in *refIn) (*broker.Job, error) {
	if err := broker.ValidName(in.Queue); err != nil {
		return nil, fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	jobs, err := s.broker.Get(ctx, []broker.Ref{{Queue: in.Queue, ID: in.ID}})
	if err != nil {
		return nil, err
	}
	if jobs[0].State == 0 {
		return nil, fmt.Errorf("job %s of queue %s: %w", in.ID, in.Queue, broker.ErrNotFound)
	}
	return &jobs[0], nil
}

func (s *Server) getJobOfQueue(ctx context.Context, in *refIn) (*answer[wire.Job], error) {
	job, err := s.job(ctx, in)
	if err != nil {
		return nil, err
	}
	return &answer[wire.Job]{wire.JobOf(job)}, nil
}

func (s *Server) explain(ctx context.Context, in *refIn) (*answer[wire.Explanation], error) {
	why, err := s.broker.Explain(ctx, broker.Ref{Queue: in.Queue, ID: in.ID})
	if err != nil {
		return nil, err
	}
	return &answer[wire.Explanation]{wire.ExplanationOf(&why)}, nil
}

// download is bytes as they are: never shown by a browser, always saved.
type download struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Body        []byte
}

func downloadOf(name string, b []byte) *download {
	return &download{"application/octet-stream", `attachment; filename="` + name + `"`, b}
}

func (s *Server) payload(ctx context.Context, in *refIn) (*download, error) {
	job, err := s.job(ctx, in)
	if err != nil {
		return nil, err
	}
	return downloadOf("payload-"+in.ID.String(), job.Payload), nil
}

func (s *Server) result(ctx context.Context, in *refIn) (*download, error) {
	job, err := s.job(ctx, in)
	if err != nil {
		return nil, err
	}
	if !job.HasResult {
		return nil, wire.NewProblem("not_found", http.StatusNotFound, "The job has no result", "it is "+job.State.String())
	}
	return downloadOf("result-"+in.ID.String(), job.Result), nil
}

type listIn struct {
	Queue     string `path:"queue"`
	State     string `query:"state" required:"true" enum:"scheduled,ready,leased,done,dead,cancelled"`
	Task      string `query:"task"`
	Tenant    string `query:"tenant"`
	Group     string `query:"group"`
	Key       string `query:"key"`
	Error     string `query:"error_contains" doc:"A part of the error's text."`
	OlderThan string `query:"older_than" doc:"Since its last change of state: a duration, like 1m30s."`
	NewerThan string `query:"newer_than"`
	Cursor    string `query:"cursor" doc:"Of the page before."`
	Limit     int    `query:"limit" minimum:"1" maximum:"1000" doc:"100 when left out."`
}

func (s *Server) listJobs(ctx context.Context, in *listIn) (*answer[wire.Page], error) {
	state, err := broker.ParseState(in.State)
	if err != nil {
		return nil, fmt.Errorf("%w: state: %w", broker.ErrInvalid, err)
	}
	f := broker.Filter{
		Queue: in.Queue, States: []broker.State{state}, Task: in.Task, Tenant: in.Tenant, Group: in.Group, Key: in.Key, ErrorContains: in.Error,
	}
	if f.OlderThan, err = span("older_than", in.OlderThan); err != nil {
		return nil, err
	}
	if f.NewerThan, err = span("newer_than", in.NewerThan); err != nil {
		return nil, err
	}
	return s.list(ctx, f, in.Cursor, in.Limit)
}

// span reads a duration of a query, where the framework would want a number.
func span(name, text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	var d wire.Duration
	if err := d.UnmarshalText([]byte(text)); err != nil {
		return 0, fmt.Errorf("%w: %s: %w", broker.ErrInvalid, name, err)
	}
	return time.Duration(d), nil
}

type searchIn struct {
	Queue string `path:"queue"`
	Body  wire.SearchRequest
}

func (s *Server) searchJobs(ctx context.Context, in *searchIn) (*answer[wire.Page], error) {
	f, err := in.Body.Filter.Filter(in.Queue)
	if err != nil {
		return nil, err
	}
	return s.list(ctx, f, in.Body.Cursor, in.Body.Limit)
}

func (s *Server) list(ctx context.Context, f broker.Filter, cursor string, n int) (*answer[wire.Page], error) {
	if err := broker.ValidName(f.Queue); err != nil {
		return nil, fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if n < 0 || n > broker.MaxPageJobs {
		return nil, fmt.Errorf("%w: limit is %d, allowed are 1 to %d", broker.ErrInvalid, n, broker.MaxPageJobs)
	}
	var jobs []broker.Job
	left, size := cmp.Or(n, 100), 0
	for {
		page, err := s.broker.List(ctx, f, cursor, min(left, pageStep))
		if err != nil {
			return nil, err
		}
		for i := range page.Jobs {
			size += len(page.Jobs[i].Payload) + len(page.Jobs[i].Result)
		}
		jobs, cursor, left = append(jobs, page.Jobs...), page.Cursor, left-len(page.Jobs)
		if cursor == "" || left == 0 || len(page.Jobs) < pageStep || size > pageBytes {
			return &answer[wire.Page]{wire.PageOf(jobs, cursor)}, nil
		}
	}
}

// A page is read in steps, and cut after the one with which its payloads and
// results are more than so many bytes.
const (
	pageStep  = 50
	pageBytes = 8 << 20
)

func (s *Server) lookup(ctx context.Context, in *lookupIn) (*answer[wire.Page], error) {
	if err := checkRefs(&in.Body); err != nil {
		return nil, err
	}
	refs := in.Body.Refs()
	jobs, size := make([]broker.Job, 0, len(refs)), 0
	for some := range slices.Chunk(refs, lookupStep) {
		got, err := s.broker.Get(ctx, some)
		if err != nil {
			return nil, err
		}
		for i := range got {
			size += len(got[i].Payload) + len(got[i].Result)
		}
		if size > lookupBytes && len(refs) > 1 {
			return nil, fmt.Errorf("%w: the %d jobs have more than %d bytes together: name fewer", broker.ErrTooLarge, len(refs), lookupBytes)
		}
		jobs = append(jobs, got...)
	}
	return &answer[wire.Page]{wire.PageOf(jobs, "")}, nil
}

// A lookup reads so many jobs at a time, and is refused when the payloads and
// results of several are more than so many bytes.
const (
	lookupStep  = 8
	lookupBytes = 32 << 20
)

// OfQueue is the part of a request that may name a queue.
type OfQueue struct {
	Queue string `query:"queue" doc:"Every queue when left out."`
}

func (s *Server) counts(ctx context.Context, in *OfQueue) (*answer[wire.Counts], error) {
	counts, err := s.broker.Counts(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	return &answer[wire.Counts]{wire.Counts{Counts: append([]broker.Count{}, counts...)}}, nil
}

func (s *Server) queues(ctx context.Context, _ *struct{}) (*answer[wire.Queues], error) {
	counts, err := s.broker.Counts(ctx, "")
	if err != nil {
		return nil, err
	}
	return &answer[wire.Queues]{wire.Queues{Queues: wire.QueuesOf(counts)}}, nil
}

func (s *Server) settings(ctx context.Context, in *settingsIn) (*answer[wire.Settings], error) {
	all, err := s.broker.Settings(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	v := wire.Settings{Settings: []wire.Setting{}}
	for i := range all {
		if in.Kind == "" || string(all[i].Kind) == in.Kind {
			v.Settings = append(v.Settings, wire.SettingOf(all[i].Queue, &all[i].Setting))
		}
	}
	return &answer[wire.Settings]{v}, nil
}

type settingsIn struct {
	OfQueue
	Kind string `query:"kind" enum:"limit,weight,capacity,retention,ageing,schedule" doc:"Every kind when left out."`
}

func (s *Server) workers(ctx context.Context, in *OfQueue) (*answer[wire.Workers], error) {
	all, err := s.broker.Workers(ctx, in.Queue)
	if err != nil {
		return nil, err
	}
	v := wire.Workers{Workers: []wire.Worker{}}
	for i := range all {
		v.Workers = append(v.Workers, wire.WorkerOf(&all[i]))
	}
	return &answer[wire.Workers]{v}, nil
}
