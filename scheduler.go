package spool

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"math/rand/v2"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/timetable"
)

const (
	// scheduleMax is the longest that a scheduler sleeps, up to a sixth less:
	// the store tells it of changes, but that is only a hint.
	scheduleMax = 30 * time.Second
	// declarePatience is how long one attempt to declare may take.
	declarePatience = 10 * time.Second
)

// flowLoop declares what the worker's code says of the store, until that has
// succeeded, and then serves the schedules of the store until ctx ends. It
// closes ready when the worker may claim: after the first attempt to declare,
// and when it drains, after the first look at the schedules.
func (r *run) flowLoop(ctx context.Context, own declaration, ready chan<- struct{}) {
	s := scheduler{client: r.client, fault: r.fault, plans: map[planKey]planned{}}
	var pause pause
	for declared, first := false, true; ; first = false {
		failed := false
		if !declared {
			declared = r.tryDeclare(ctx, own)
			failed = !declared
		}
		if first && !r.cfg.Drain {
			close(ready)
		}
		wait := scheduleMax
		if !r.cfg.NoScheduler {
			s.listen(ctx)
			var ok bool
			wait, ok = s.pass(ctx)
			failed = failed || !ok
		}
		if first && r.cfg.Drain {
			close(ready)
		}
		switch {
		case declared && r.cfg.NoScheduler:
			return
		case failed:
			wait = min(wait, pause.draw(faultMin, faultMax))
		default:
			pause.reset()
		}
		if !s.rest(ctx, wait) {
			return
		}
	}
}

// listen makes the scheduler hear of changes of settings that come after it, and
// forgets those that came before.
func (s *scheduler) listen(ctx context.Context) {
	if s.changes == nil {
		events, err := s.client.Watch(ctx, Filter{Settings: true})
		if err != nil { // without them it looks less often, and tries again
			return
		}
		s.changes = events
	}
	for {
		select {
		case _, open := <-s.changes:
			if open {
				continue
			}
			s.changes = nil
		default:
		}
		return
	}
}

// rest waits for d, or until settings change, and reports whether to go on.
func (s *scheduler) rest(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case _, open := <-s.changes:
		if open {
			return true
		}
		s.changes = nil
		return sleep(ctx, min(d, faultMin))
	case <-ctx.Done():
		return false
	}
}

// Upkeep does what a store needs besides workers until ctx ends, and returns nil:
// it expires leases, drops what retention no longer keeps, and enqueues the jobs
// of schedules. A running worker does all of that; Upkeep is for a program that
// runs none, like a server. Any number of programs may do it.
func (c *Client) Upkeep(ctx context.Context) error {
	defer c.keepHouse(ctx)(time.Second)
	faults := faultLog{log: c.log}
	s := scheduler{client: c, fault: faults.note, plans: map[planKey]planned{}}
	var pause pause
	for {
		s.listen(ctx)
		wait, ok := s.pass(ctx)
		if ok {
			pause.reset()
		} else {
			wait = min(wait, pause.draw(faultMin, faultMax))
		}
		if !s.rest(ctx, wait) {
			return nil
		}
	}
}

func (r *run) tryDeclare(ctx context.Context, own declaration) bool {
	declare, cancel := context.WithTimeout(ctx, declarePatience)
	defer cancel()
	err := r.declare(declare, own)
	if ctx.Err() == nil {
		r.fault("declare", err)
	}
	return err == nil
}

// scheduler enqueues the jobs of schedules. Any number of them may serve a
// store: the broker lets one win each tick.
type scheduler struct {
	client  *Client
	fault   func(call string, err error) // takes the outcome of each call
	plans   map[planKey]planned          // of the schedules of the last pass
	changes <-chan broker.Event          // of settings; nil when there are none to be had
}

// planKey is what a plan is made from.
type planKey struct {
	spec, zone, dst, missed string
	limit                   int
	grace                   time.Duration
}

type planned struct {
	timetable.Table
	err error
}

// pass does what is due and returns how long there is nothing to do. It is not
// ok when something failed: each schedule is tried, whatever becomes of others.
func (s *scheduler) pass(ctx context.Context) (wait time.Duration, ok bool) {
	all, err := s.client.Schedules(ctx, "")
	var now time.Time
	if err == nil && len(all) > 0 {
		now, err = s.now(ctx, &all[0])
	}
	if ctx.Err() != nil {
		return 0, false
	}
	s.fault("schedules", err)
	ok = err == nil
	wait = scheduleMax - rand.N(scheduleMax/6)
	if !ok || len(all) == 0 {
		return wait, ok
	}
	start, old := time.Now(), s.plans
	s.plans = make(map[planKey]planned, len(old))
	next := now.Add(wait)
	for i := range all {
		if all[i].Schedule.Paused {
			continue
		}
		at, err := s.serve(ctx, &all[i], now, old)
		if ctx.Err() != nil {
			return 0, false
		}
		s.fault("schedule "+all[i].Queue+"/"+all[i].Name, err)
		if err != nil {
			ok = false
		} else if !at.IsZero() && at.Before(next) {
			next = at
		}
	}
	return max(next.Sub(now)-time.Since(start), 0), ok
}

// now reads the broker's wall clock, by a tick that cannot be won.
func (s *scheduler) now(ctx context.Context, q *broker.QueueSetting) (now time.Time, err error) {
	nowhere := time.Unix(1, 0)
	_, now, err = s.client.broker.Tick(ctx, broker.NewCall(), broker.Tick{Queue: q.Queue, Schedule: q.Name, Due: nowhere, Next: nowhere})
	return now, err
}

// serve does what is due of one schedule and returns its next instant; a zero
// one means that there is none.
func (s *scheduler) serve(ctx context.Context, q *broker.QueueSetting, now time.Time, old map[planKey]planned) (time.Time, error) {
	p := s.plan(q.Schedule, old)
	if p.err != nil {
		return time.Time{}, p.err
	}
	due := q.Schedule.Due
	if due.IsZero() { // a new schedule has missed nothing
		next, _ := p.Next(now)
		_, err := s.tick(ctx, q, due, next, nil)
		return next, err
	}
	if due.After(now) {
		return due, nil
	}
	todo := p.Plan(due, now, p.CatchUp)
	for rest := todo.Run; ; {
		n := min(len(rest), s.batchOf(q))
		next := todo.Next
		if n < len(rest) {
			next = rest[n]
		}
		won, err := s.tick(ctx, q, due, next, rest[:n])
		if err != nil {
			return time.Time{}, err
		}
		due, rest = next, rest[n:]
		if !won || len(rest) == 0 {
			return todo.Next, nil // where a winner has moved it, too
		}
	}
}

// plan reads a schedule, or finds what was read of it before.
func (s *scheduler) plan(sched *broker.Schedule, old map[planKey]planned) planned {
	key := planKey{sched.Spec, sched.Zone, sched.DST, sched.Missed, sched.Cap, sched.Grace}
	p, known := old[key]
	if !known {
		_, p.Table, p.err = timetable.Read(sched)
	}
	s.plans[key] = p
	return p
}

// batchOf is how many jobs of a schedule one call holds, whatever headers the
// interceptors add.
func (s *scheduler) batchOf(q *broker.QueueSetting) int {
	caps := &s.client.caps
	return max(1, min(caps.MaxBatch, caps.MaxBytes/(q.Schedule.Job.Size()+broker.MaxHeaderBytes)))
}

// tick moves the cursor and enqueues the jobs of instants, through the
// interceptors. Jobs of a tick that another scheduler won are answered as
// existing: they have the same ids.
func (s *scheduler) tick(ctx context.Context, q *broker.QueueSetting, due, next time.Time, instants []time.Time) (won bool, err error) {
	if next.After(broker.MaxTime) { // further than a store can tell
		next = time.Time{}
	}
	called := false
	move := func(ctx context.Context, _ string, jobs []broker.NewJob) ([]Enqueued, error) {
		called = true
		if err := s.client.recheck(jobs); err != nil {
			return nil, err
		}
		t := broker.Tick{Queue: q.Queue, Schedule: q.Name, Due: due, Next: next, Jobs: jobs}
		err := s.client.repeat(ctx, func(call broker.Call) (err error) {
			won, _, err = s.client.broker.Tick(ctx, call, t)
			return err
		})
		answers := make([]Enqueued, len(jobs))
		for i := range jobs {
			answers[i] = Enqueued{ID: jobs[i].ID, Existing: !won}
		}
		return answers, err
	}
	if len(instants) > 0 {
		jobs := make([]broker.NewJob, len(instants))
		for i, at := range instants {
			jobs[i] = tickJob(q, tickID(q, at), at)
		}
		_, err = s.client.intercept(move)(ctx, q.Queue, jobs)
	}
	if !called && err == nil { // no jobs, or an interceptor kept them all
		_, err = move(ctx, q.Queue, nil)
	}
	return won, err
}

// tickID is the id of the job of a schedule's instant, whoever makes it.
func tickID(q *broker.QueueSetting, at time.Time) (id ID) {
	ms := uint64(at.UnixMilli())
	b := binary.BigEndian.AppendUint64([]byte(q.Queue+"\x00"+q.Name+"\x00"), ms)
	sum := sha256.Sum256(b)
	copy(id[:], sum[:])
	for i := range 6 {
		id[i] = byte(ms >> (40 - 8*i))
	}
	id[6], id[8] = 0x70|id[6]&0x0f, 0x80|id[8]&0x3f
	return id
}
