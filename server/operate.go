package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/timetable"
	"github.com/spoolq/spool/internal/wire"
)

func (s *Server) operateRoutes() {
	post := func(path, id, summary, doc string, status int) route {
		return route{method: http.MethodPost, path: path, id: id, summary: summary, doc: doc, tag: "operate", scope: Operate, status: status}
	}
	const steps = "One bounded step: repeat it with the cursor of the answer until that is left out."
	for _, c := range [...]struct {
		path, summary string
		kind          broker.CommandKind
	}{
		{"cancel", "Cancel jobs: those that wait end cancelled, those that run are told", broker.CancelJobs},
		{"requeue", "Bring dead and cancelled jobs back, with fresh attempts", broker.RequeueJobs},
		{"delete", "Delete jobs that do not run", broker.DeleteJobs},
	} {
		register(s, post("/v1/queues/{queue}/"+c.path, c.path+"-jobs", c.summary, steps, 0), func(ctx context.Context, in *commandIn) (*answer[wire.Step], error) {
			return s.command(ctx, c.path, c.kind, in)
		})
	}
	register(s, post("/v1/queues/{queue}/pause", "pause-queue", "Claim no job of a queue until it is resumed", "", 0), func(ctx context.Context, in *pauseIn) (*answer[wire.Step], error) {
		return s.pause(ctx, "pause", broker.PauseQueue, in)
	})
	register(s, post("/v1/queues/{queue}/resume", "resume-queue", "Let a paused queue go on", "", 0), func(ctx context.Context, in *pauseIn) (*answer[wire.Step], error) {
		return s.pause(ctx, "resume", broker.ResumeQueue, in)
	})
	register(s, post("/v1/queues/{queue}/settings", "change-settings", "Change settings of a queue, all or none",
		"Limits, weights of tenants, capacities, retentions, ageing, schedules. A revision that is given has to be the current one: 409 else.", http.StatusNoContent), s.configure)
	register(s, post("/v1/queues/{queue}/schedules/{schedule}/tick", "tick", "Move a schedule's cursor and enqueue what it passes",
		"For programs that serve schedules by themselves; the server does.", 0), s.tick)
	register(s, post("/v1/maintain", "maintain", "One step of upkeep", "For programs that keep house by themselves; the server does.", 0), s.maintain)
}

type commandIn struct {
	Called
	Queue string `path:"queue"`
	Body  wire.CommandRequest
}

func (s *Server) command(ctx context.Context, what string, kind broker.CommandKind, in *commandIn) (*answer[wire.Step], error) {
	var step broker.Step
	cmd, err := in.Body.Command(kind, in.Queue)
	if err == nil {
		step, err = s.broker.Apply(ctx, in.call(), cmd)
	}
	if err := s.record(ctx, what, in.Queue, err, filterOf(&in.Body.Filter), "changed", step.Changed); err != nil {
		return nil, err
	}
	return &answer[wire.Step]{wire.Step(step)}, nil
}

type pauseIn struct {
	Called
	Queue string `path:"queue"`
}

func (s *Server) pause(ctx context.Context, what string, kind broker.CommandKind, in *pauseIn) (*answer[wire.Step], error) {
	step, err := s.broker.Apply(ctx, in.call(), broker.Command{Kind: kind, Filter: broker.Filter{Queue: in.Queue}})
	if err := s.record(ctx, what, in.Queue, err, "changed", step.Changed); err != nil {
		return nil, err
	}
	return &answer[wire.Step]{wire.Step(step)}, nil
}

type configureIn struct {
	Called
	Queue string `path:"queue"`
	Body  wire.Change
}

func (s *Server) configure(ctx context.Context, in *configureIn) (*empty, error) {
	said := changeOf(&in.Body) // before anything is put into other forms
	change, err := in.Body.Change()
	if err == nil {
		err = s.checkSettings(change.Set)
	}
	if err == nil {
		err = s.broker.Configure(ctx, in.call(), in.Queue, change)
	}
	return nil, s.record(ctx, "change settings", in.Queue, err, said...)
}

// checkSettings checks of settings what a broker leaves to its client: when a
// schedule fires, and how much its job has.
func (s *Server) checkSettings(list []broker.Setting) error {
	for i := range list {
		one := list[i].Schedule
		if one == nil || list[i].Kind != broker.ScheduleSetting {
			continue
		}
		if field, _, err := timetable.Read(one); err != nil {
			return fmt.Errorf("/set/%d/schedule: %s: %w", i, strings.ToLower(field), err)
		}
		if err := one.Job.Validate(s.client.PayloadMax()); err != nil {
			return fmt.Errorf("/set/%d/schedule/job: %w", i, err)
		}
	}
	return nil
}

type tickIn struct {
	Called
	Queue    string `path:"queue"`
	Schedule string `path:"schedule"`
	Body     wire.TickRequest
}

func (s *Server) tick(ctx context.Context, in *tickIn) (*answer[wire.Ticked], error) {
	jobs, err := wire.NewJobs(in.Body.Jobs)
	if err != nil {
		return nil, err
	}
	for i := range jobs {
		if err := jobs[i].Validate(s.client.PayloadMax()); err != nil {
			return nil, fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
		}
	}
	won, now, err := s.broker.Tick(ctx, in.call(), broker.Tick{Queue: in.Queue, Schedule: in.Schedule, Due: in.Body.Due, Next: in.Body.Next, Jobs: jobs})
	if err != nil {
		return nil, err
	}
	return &answer[wire.Ticked]{wire.Ticked{Won: won, Now: now}}, nil
}

func (s *Server) maintain(ctx context.Context, _ *struct{}) (*answer[wire.Maintained], error) {
	after, err := s.broker.Maintain(ctx)
	if err != nil {
		return nil, err
	}
	return &answer[wire.Maintained]{wire.Maintained{After: wire.Duration(after)}}, nil
}
