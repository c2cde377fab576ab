package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

func (s *Server) produceRoutes() {
	register(s, route{
		method: http.MethodPost, path: "/v1/jobs", id: "enqueue", tag: "produce", scope: Produce, status: http.StatusCreated,
		summary: "Enqueue a job",
		doc:     "When it answers, the job is durable. Answers 200 in place of 201 when the job was there already.",
	}, s.enqueueOne)
	one := s.api.OpenAPI().Paths["/v1/jobs"].Post.Responses
	one["200"] = &huma.Response{Description: "It was there already.", Content: one["201"].Content}
	register(s, route{
		method: http.MethodPost, path: "/v1/queues/{queue}/jobs", id: "enqueue-many", tag: "produce", scope: Produce, status: http.StatusCreated,
		summary: "Enqueue jobs of one queue, all or none",
	}, s.enqueueMany)
	register(s, route{
		method: http.MethodPost, path: "/v1/await", id: "await", tag: "produce", scope: Produce,
		summary: "Wait until one of some jobs is final",
		doc: "Answers those that are, and those that are not known (any more), as soon as there is one, or nothing when the wait is over. " +
			"Of many that have large results it answers some: wait for the others again. " +
			"The payload is left out for a credential without the scope read: who enqueued the job knows it.",
	}, s.await)
}

type enqueueOneIn struct {
	Called
	Body wire.OneJob
}

type enqueueOneOut struct {
	Status int
	Body   wire.Enqueued
}

func (s *Server) enqueueOne(ctx context.Context, in *enqueueOneIn) (*enqueueOneOut, error) {
	queue := in.Body.Queue
	if queue == "" {
		queue = "default"
	}
	job, err := in.Body.NewJob.NewJob()
	if err != nil {
		return nil, err
	}
	answers, err := s.enqueue(ctx, in.call(), queue, []broker.NewJob{job}, time.Duration(in.Body.Wait))
	if err != nil {
		return nil, err
	}
	out := &enqueueOneOut{Status: http.StatusCreated, Body: wire.Enqueued(answers[0])}
	if out.Body.Existing {
		out.Status = http.StatusOK
	}
	return out, nil
}

type enqueueManyIn struct {
	Called
	Queue string `path:"queue" doc:"A queue comes into being with its first job."`
	Body  wire.EnqueueRequest
}

func (s *Server) enqueueMany(ctx context.Context, in *enqueueManyIn) (*answer[wire.EnqueueAnswer], error) {
	jobs, err := wire.NewJobs(in.Body.Jobs)
	if err != nil {
		return nil, err
	}
	var answers []broker.Enqueued
	if len(jobs) > 0 {
		answers, err = s.enqueue(ctx, in.call(), in.Queue, jobs, time.Duration(in.Body.Wait))
	}
	if err != nil {
		return nil, err
	}
	return &answer[wire.EnqueueAnswer]{wire.EnqueueAnswer{Jobs: wire.EnqueuedOf(answers)}}, nil
}

// enqueue adds jobs, after everything about them that needs no store is checked.
func (s *Server) enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob, wait time.Duration) ([]broker.Enqueued, error) {
	made, err := s.checkJobs(queue, jobs)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.waiting(ctx)
	defer cancel()
	deadline := time.Now().Add(s.cut(wait))
	for first := true; ; first = false {
		answers, err := s.broker.Enqueue(ctx, c, queue, jobs)
		full, isFull := errors.AsType[*broker.FullError](err)
		left := time.Until(deadline)
		if !isFull || full.RetryAfter == 0 || wait <= 0 || left <= 0 {
			if isFull {
				s.refused.rejected.Add(1)
			}
			if err == nil {
				err = checkAnswers(c, queue, jobs, made, answers)
			}
			return answers, err
		}
		if first {
			s.refused.waited.Add(1)
		}
		if !sleep(ctx, min(full.RetryAfter, left)) {
			return nil, ctx.Err()
		}
	}
}

// checkJobs checks jobs, and gives ids to those that have none: made says which.
func (s *Server) checkJobs(queue string, jobs []broker.NewJob) (made []bool, err error) {
	if err := broker.ValidName(queue); err != nil {
		return nil, fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if n := len(jobs); n > s.caps.MaxBatch {
		return nil, fmt.Errorf("%w: %d jobs in one call, the limit is %d", broker.ErrTooLarge, n, s.caps.MaxBatch)
	}
	size := 0
	made = make([]bool, len(jobs))
	for i := range jobs {
		if err := jobs[i].Validate(s.client.PayloadMax()); err != nil {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
		}
		if jobs[i].ID.IsZero() {
			jobs[i].MakeMarkedID(markOf(queue, &jobs[i]))
			made[i] = true
		}
		size += jobs[i].Size()
	}
	if size > s.caps.MaxBytes {
		return nil, fmt.Errorf("%w: jobs of %d bytes in one call, the limit is %d", broker.ErrTooLarge, size, s.caps.MaxBytes)
	}
	return made, nil
}

// cut bounds a wait.
func (s *Server) cut(wait time.Duration) time.Duration { return min(max(wait, 0), s.cfg.MaxWait) }

// waiting is a context that also ends when the server stops.
func (s *Server) waiting(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// sleep waits for d and reports whether it was not cut short by ctx.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

type lookupIn struct{ Body wire.LookupRequest }

func (s *Server) await(ctx context.Context, in *lookupIn) (*answer[wire.Page], error) {
	if err := checkRefs(&in.Body); err != nil {
		return nil, err
	}
	ctx, cancel := s.waiting(ctx)
	defer cancel()
	jobs, err := s.final(ctx, in.Body.Refs(), s.cut(time.Duration(in.Body.Wait)))
	if err != nil {
		return nil, err
	}
	if !mayRead(ctx) {
		for i := range jobs {
			jobs[i].Payload = nil
		}
	}
	return &answer[wire.Page]{wire.PageOf(jobs, "")}, nil
}

// final waits until one of some jobs is final. Those that are already are read in
// steps, and no further than until an answer is full.
func (s *Server) final(ctx context.Context, refs []broker.Ref, wait time.Duration) ([]broker.Job, error) {
	if len(refs) > awaitStep {
		var all []broker.Job
		for some := range slices.Chunk(refs, awaitStep) {
			jobs, err := s.broker.Await(ctx, some, 0)
			if err != nil {
				return nil, err
			}
			all = append(all, jobs...)
			if cut := full(all); cut < len(all) {
				return all[:cut], nil
			}
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	jobs, err := s.broker.Await(ctx, refs, wait)
	return jobs[:full(jobs)], err
}

// awaitStep is how many jobs are read at a time that are waited for.
const awaitStep = 32

// full is how many of some jobs are an answer: those with which their payloads and
// results are pageBytes.
func full(jobs []broker.Job) int {
	size := 0
	for i := range jobs {
		if size += len(jobs[i].Payload) + len(jobs[i].Result); size > pageBytes {
			return i + 1
		}
	}
	return len(jobs)
}

// maxRefs is how many jobs one call can name.
const maxRefs = 1000

func checkRefs(r *wire.LookupRequest) error {
	if len(r.Jobs) > maxRefs {
		return fmt.Errorf("%w: %d jobs are named, the limit is %d", broker.ErrInvalid, len(r.Jobs), maxRefs)
	}
	return nil
}
