package spool_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
)

// tidyUp is what schedules enqueue here.
var tidyUp = spool.Define[string]("tidy_up", spool.Retain(10_000*time.Hour))

// ticks lists the instants of the jobs of a schedule, and checks that none has
// two.
func (b *bench) ticks(name string) (at []string) {
	b.Helper()
	seen := map[string]bool{}
	for j, err := range b.List(b.ctx, spool.Filter{Task: tidyUp.Name()}) {
		b.must(err)
		if j.Headers["spool.schedule"] != name {
			continue
		}
		tick := j.Headers["spool.tick"]
		if seen[tick] {
			b.Errorf("tick %s came twice", tick)
		}
		seen[tick] = true
		at = append(at, tick)
	}
	return at
}

// wantTicks wants the instants of a schedule's jobs, as hours and minutes of the
// bubble's first days: it begins on 2000-01-01 at midnight.
func (b *bench) wantTicks(name string, want ...string) {
	b.Helper()
	var got []string
	for _, tick := range b.ticks(name) {
		at, err := time.Parse(time.RFC3339, tick)
		b.must(err)
		got = append(got, at.Format("02 15:04"))
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		b.Fatalf("ticks of %s are %q, want %q", name, got, want)
	}
}

// scheduler starts a worker that declares schedules and handles their task.
func (b *bench) scheduler(schedules ...spool.Schedule) (stop func() error) {
	b.Helper()
	return b.deploy(func(w *spool.Worker) {
		greet.Handle(w, func(context.Context, string) error { return nil })
	}, schedules...)
}

func TestAScheduleEnqueuesItsJobAtEachInstant(t *testing.T) {
	bubble(t, func(b *bench) {
		b.scheduler(spool.Schedule{
			Name: "often", Spec: "*/20 * * * *",
			Job: tidyUp.With("attic", spool.Queue("night"), spool.Priority(3), spool.Tenant("acme"), spool.Group("g"), spool.Header("h", "v")),
		})
		b.wantTicks("often")
		b.sleep(time.Hour - time.Millisecond)
		b.wantTicks("often", "01 00:20", "01 00:40")
		b.sleep(time.Millisecond)
		b.wantTicks("often", "01 00:20", "01 00:40", "01 01:00")
		for j, err := range b.List(b.ctx, spool.Filter{}) {
			b.must(err)
			want(b, "the job", line(j.Queue, j.Task, string(j.Payload), j.Priority, j.Tenant, j.Group, j.Headers["h"], j.Headers["spool.codec"], j.State),
				`night tidy_up "attic" 3 acme g v json ready`)
			tick, err := time.Parse(time.RFC3339, j.Headers["spool.tick"])
			b.must(err)
			want(b, "enqueued at its instant", j.EnqueuedAt.UTC(), tick)
		}
	})
}

func TestManySchedulersEnqueueEachTickOnce(t *testing.T) {
	var added, existing atomic.Int64
	cfg := quietConfig
	cfg.OnEnqueue = []func(spool.EnqueueFunc) spool.EnqueueFunc{func(next spool.EnqueueFunc) spool.EnqueueFunc {
		return func(ctx context.Context, queue string, jobs []broker.NewJob) ([]spool.Enqueued, error) {
			answers, err := next(ctx, queue, jobs)
			if answers[0].Existing {
				existing.Add(1)
			} else {
				added.Add(1)
			}
			return answers, err
		}
	}}
	bubble(t, func(b *bench) {
		var stops []func() error
		for range 5 {
			process := *b
			slow := &fakeBroker{Broker: b.broker.another(), tick: func(broker.Tick) error {
				<-time.After(rand.N(50 * time.Millisecond)) // so that several have seen the same
				return nil
			}}
			process.Client = spool.New(slow, cfg)
			stops = append(stops, process.scheduler(spool.Schedule{Name: "s", Spec: "@every 10s", Job: tidyUp.With("x")}))
		}
		for i := range 100 {
			b.sleep(10 * time.Second)
			if n := len(b.ticks("s")); n != i && n != i+1 {
				b.Fatalf("after %d ticks there are %d jobs", i+1, n)
			}
			if i < 4 {
				b.must(stops[i]())
			}
		}
		b.sleep(time.Second)
		b.must(stops[4]())
		want(b, "ticks", len(b.ticks("s")), 100)
		want(b, "told as added", added.Load(), 100)
		if existing.Load() == 0 {
			b.Error("they never raced")
		}
	})
}

func TestAnUnchangedDeclarationWritesNothing(t *testing.T) {
	bubble(t, func(b *bench) {
		s := spool.Schedule{Name: "s", Spec: "@hourly", Job: tidyUp.With("x")}
		b.must(b.scheduler(s)())
		before, err := b.Settings(b.ctx, "")
		b.must(err)
		b.must(b.scheduler(s)())
		after, err := b.Settings(b.ctx, "")
		b.must(err)
		want(b, "revision", after[0].Revision, before[0].Revision)
	})
}

func TestWhatWasMissedIsRunByItsPolicy(t *testing.T) {
	job := tidyUp.With("x")
	bubble(t, func(b *bench) {
		schedules := []spool.Schedule{
			{Name: "latest", Spec: "@hourly", Job: job},
			{Name: "all", Spec: "@hourly", Missed: cron.All, Job: job},
			{Name: "capped", Spec: "@hourly", Missed: cron.All, Cap: 2, Job: job},
			{Name: "skip", Spec: "@hourly", Missed: cron.Skip, Job: job},
			{Name: "late", Spec: "@hourly", Missed: cron.Skip, Grace: 90 * time.Minute, Job: job},
		}
		stop := b.scheduler(schedules...)
		b.sleep(time.Hour)
		b.must(stop())
		b.sleep(4*time.Hour + 30*time.Minute) // 05:30, nobody runs
		b.scheduler(schedules...)
		b.wantTicks("latest", "01 01:00", "01 05:00")
		b.wantTicks("all", "01 01:00", "01 02:00", "01 03:00", "01 04:00", "01 05:00")
		b.wantTicks("capped", "01 01:00", "01 04:00", "01 05:00")
		b.wantTicks("skip", "01 01:00")
		b.wantTicks("late", "01 01:00", "01 04:00", "01 05:00")
		b.sleep(30 * time.Minute)
		for _, s := range schedules {
			if at := b.ticks(s.Name); at[len(at)-1] != "2000-01-01T06:00:00Z" {
				b.Errorf("%s goes on with %v", s.Name, at)
			}
		}
	})
}

func TestManyMissedTicksAreEnqueuedInChunks(t *testing.T) {
	bubble(t, func(b *bench) {
		b.broker.max = 7
		b.Client = spool.New(b.broker, quietConfig) // Caps are read once
		s := spool.Schedule{Name: "s", Spec: "* * * * *", Missed: cron.All, Cap: 50, Job: tidyUp.With("x")}
		b.must(b.scheduler(s)())
		b.sleep(2 * time.Hour)
		failed := 0
		b.broker.set(func() {
			b.broker.tick = func(t broker.Tick) error {
				if len(t.Jobs) > 7 {
					b.Errorf("a tick of %d jobs", len(t.Jobs))
				}
				if failed++; failed == 5 { // after three chunks
					return errDisk
				}
				return nil
			}
		})
		b.scheduler(s)
		b.sleep(time.Second)
		at := b.ticks("s")
		want(b, "ticks", len(at), 50)
		want(b, "first and last", at[0]+" "+at[49], "2000-01-01T01:11:00Z 2000-01-01T02:00:00Z")
	})
}

func TestSchedulesByHand(t *testing.T) {
	bubble(t, func(b *bench) {
		b.scheduler()
		add := func(spec string) {
			b.Helper()
			b.must(b.AddSchedule(b.ctx, spool.Schedule{Name: "s", Spec: spec, Job: tidyUp.With("x", spool.Queue("q"))}))
		}
		add("@hourly")
		b.sleep(time.Hour)
		b.wantTicks("s", "01 01:00")
		b.must(b.PauseSchedule(b.ctx, "q", "s"))
		b.must(b.PauseSchedule(b.ctx, "q", "s"))
		b.sleep(3 * time.Hour)
		b.wantTicks("s", "01 01:00")
		e, err := b.TriggerSchedule(b.ctx, "q", "s")
		b.must(err)
		j := b.wantState(e.ID, spool.Ready)
		want(b, "triggered", line(j.Queue, j.Task, string(j.Payload), j.Headers["spool.schedule"], j.Headers["spool.tick"]), `q tidy_up "x" s `)
		_, err = b.Delete(b.ctx, spool.Filter{IDs: []spool.ID{e.ID}})
		b.must(err)
		b.must(b.ResumeSchedule(b.ctx, "q", "s"))
		b.must(b.ResumeSchedule(b.ctx, "q", "s"))
		b.sleep(30 * time.Second)
		b.wantTicks("s", "01 01:00", "01 04:00") // the latest that was missed
		add("30 * * * *")
		b.sleep(time.Hour - 30*time.Second)
		b.wantTicks("s", "01 01:00", "01 04:00", "01 04:30")
		all, err := b.Schedules(b.ctx, "q")
		b.must(err)
		want(b, "next", all[0].Schedule.Due, time.Date(2000, 1, 1, 5, 30, 0, 0, time.UTC))
		b.must(b.RemoveSchedule(b.ctx, "q", "s"))
		b.sleep(5 * time.Hour)
		want(b, "ticks", len(b.ticks("s")), 3)
		for _, err := range []error{
			b.RemoveSchedule(b.ctx, "q", "s"), b.PauseSchedule(b.ctx, "q", "s"), b.ResumeSchedule(b.ctx, "none", "s"),
		} {
			b.wantErr(err, spool.ErrNotFound)
			wantText(b, err.Error(), `has no schedule "s"`)
		}
		_, err = b.TriggerSchedule(b.ctx, "q", "s")
		b.wantErr(err, spool.ErrNotFound)
		b.wantErr(b.PauseSchedule(b.ctx, "a b", "s"), spool.ErrInvalid)
	})
}

func TestSchedulesOfOthersAreTakenUpAtOnce(t *testing.T) {
	bubble(t, func(b *bench) {
		b.scheduler()
		b.sleep(time.Hour)
		process := *b
		process.Client = spool.New(b.broker.another(), quietConfig)
		every := func(spec string) {
			b.must(process.AddSchedule(b.ctx, spool.Schedule{Name: "s", Spec: spec, Job: tidyUp.With("x")}))
		}
		every("@every 2s")
		b.sleep(5 * time.Second)
		want(b, "ticks", len(b.ticks("s")), 2)
		every("@every 1s")
		b.sleep(3 * time.Second)
		want(b, "ticks of a shorter interval", len(b.ticks("s")), 5)
		b.must(process.PauseSchedule(b.ctx, "default", "s"))
		b.sleep(10 * time.Second)
		want(b, "ticks of a paused one", len(b.ticks("s")), 5)
		b.must(process.ResumeSchedule(b.ctx, "default", "s"))
		b.sleep(500 * time.Millisecond)
		want(b, "ticks, the latest that was missed among them", len(b.ticks("s")), 6)
		b.must(process.Close())
	})
}

// TestWithoutNoticeSchedulesAreTakenUpLater: a scheduler that is told nothing
// looks by itself.
func TestWithoutNoticeSchedulesAreTakenUpLater(t *testing.T) {
	bubble(t, func(b *bench) {
		b.Client = spool.New(blindBroker{b.broker}, quietConfig)
		b.scheduler()
		b.must(b.AddSchedule(b.ctx, spool.Schedule{Name: "s", Spec: "@every 1m", Job: tidyUp.With("x")}))
		b.sleep(2 * time.Minute)
		want(b, "ticks", len(b.ticks("s")) > 0, true)
	})
}

// blindBroker has nothing to watch.
type blindBroker struct{ broker.Broker }

func (blindBroker) Watch(context.Context, broker.Filter) (<-chan broker.Event, error) {
	return nil, errDisk
}

func TestAPauseOfADeclaredScheduleOutlivesADeploy(t *testing.T) {
	version := func(spec string) spool.Schedule {
		return spool.Schedule{Name: "s", Spec: spec, Job: tidyUp.With("x")}
	}
	bubble(t, func(b *bench) {
		stop := b.scheduler(version("@hourly"))
		b.must(b.PauseSchedule(b.ctx, "default", "s"))
		b.must(stop())
		stop = b.scheduler(version("@every 10m"))
		b.sleep(3 * time.Hour)
		b.wantTicks("s")
		b.wantErr(b.RemoveSchedule(b.ctx, "default", "s"), spool.ErrInvalid)
		e, err := b.TriggerSchedule(b.ctx, "default", "s")
		b.must(err)
		want(b, "headers", line(b.job(e.ID).Headers), "map[spool.codec:json spool.schedule:s spool.version:1]")
		_, err = b.Delete(b.ctx, spool.Filter{IDs: []spool.ID{e.ID}})
		b.must(err)
		b.must(b.ResumeSchedule(b.ctx, "default", "s"))
		b.sleep(15 * time.Minute)
		b.wantTicks("s", "01 03:10") // by what code says now, and from now on
		all, err := b.Schedules(b.ctx, "")
		b.must(err)
		want(b, "in force", line(len(all), all[0].Schedule.Spec, all[0].Owner, len(all[0].Schedule.Job.Headers)), "1 @every 10m app 2")
		err = b.RemoveSchedule(b.ctx, "default", "s")
		b.wantErr(err, spool.ErrInvalid)
		wantText(b, err.Error(), "declared by the code of app")
		b.must(stop())
	})
}

func TestBadSchedulesAreRefused(t *testing.T) {
	good := spool.Schedule{Name: "s", Spec: "@hourly", Job: tidyUp.With("x")}
	for _, c := range []struct {
		name   string
		change func(s *spool.Schedule)
		parts  []string
	}{
		{"an expression that is none", func(s *spool.Schedule) { s.Spec = "61 * * * *" }, []string{"Spec", "61", "0 to 59"}},
		{"no expression", func(s *spool.Schedule) { s.Spec = "" }, []string{"Spec", "empty"}},
		{"one that never fires", func(s *spool.Schedule) { s.Spec = "0 0 30 2 *" }, []string{"Spec", "never fires"}},
		{"an unknown zone", func(s *spool.Schedule) { s.Zone = "Europe/Atlantis" }, []string{"Zone", "Europe/Atlantis"}},
		{"the host's zone", func(s *spool.Schedule) { s.Zone = "Local" }, []string{"Zone", "Local"}},
		{"an unknown DST policy", func(s *spool.Schedule) { s.DST = 9 }, []string{"DST", "wall vixie"}},
		{"an unknown policy for missed ticks", func(s *spool.Schedule) { s.Missed = 9 }, []string{"Missed", "latest all skip"}},
		{"a negative cap", func(s *spool.Schedule) { s.Cap = -1 }, []string{"Cap", "-1"}},
		{"a huge cap", func(s *spool.Schedule) { s.Cap = 1001 }, []string{"Cap", "1001"}},
		{"a negative grace", func(s *spool.Schedule) { s.Grace = -1 }, []string{"Grace", "-1ns"}},
		{"a bad name", func(s *spool.Schedule) { s.Name = "a b" }, []string{"Name", "position 2"}},
		{"no job", func(s *spool.Schedule) { s.Job = spool.Spec{} }, []string{"Job", "missing"}},
		{"a job with a delay", func(s *spool.Schedule) { s.Job = tidyUp.With("x", spool.Delay(1)) }, []string{"Job", "Delay or At"}},
		{"a job with a time", func(s *spool.Schedule) { s.Job = tidyUp.With("x", spool.At(time.Now())) }, []string{"Job", "Delay or At"}},
		{"a job in no queue", func(s *spool.Schedule) { s.Job = tidyUp.With("x", spool.Queue("")) }, []string{"Job", "queue name"}},
		{"a job that cannot be encoded", func(s *spool.Schedule) { s.Job = tidyUp.With("\xff") }, []string{"Job", "UTF-8"}},
		{"a large job", func(s *spool.Schedule) { s.Job = spool.Raw("t", make([]byte, 2<<20)) }, []string{"Job", "limit"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				s := good
				c.change(&s)
				err := b.AddSchedule(b.ctx, s)
				if c.name == "a large job" {
					b.wantErr(err, spool.ErrTooLarge)
				} else {
					b.wantErr(err, spool.ErrInvalid)
				}
				wantText(b, err.Error(), c.parts...)
				defer func() {
					wantText(b, fmt.Sprint(recover()), append(c.parts, "spool: NewWorker: field Schedules[1]")...)
					all, err := b.Schedules(b.ctx, "")
					b.must(err)
					want(b, "stored", len(all), 0)
				}()
				spool.NewWorker(b.Client, spool.WorkerConfig{Schedules: []spool.Schedule{good, s}})
			})
		})
	}
	bubble(t, func(b *bench) {
		raw := broker.Setting{Kind: broker.ScheduleSetting, Name: "s", Schedule: &broker.Schedule{Spec: "0 0 31 4 *", Job: broker.NewJob{Task: "t"}}}
		b.wantErr(b.Configure(b.ctx, "q", broker.Change{Set: []broker.Setting{raw}}), spool.ErrInvalid)
		b.wantErr(b.Configure(b.ctx, "../q", broker.Change{}), spool.ErrInvalid)
		defer func() { wantText(b, fmt.Sprint(recover()), "Schedules[1]", "Schedules[0] has it in queue default") }()
		spool.NewWorker(b.Client, spool.WorkerConfig{Schedules: []spool.Schedule{good, good}})
	})
}

func TestAWorkerCanLeaveSchedulesAlone(t *testing.T) {
	bubble(t, func(b *bench) {
		w := spool.NewWorker(b.Client, spool.WorkerConfig{NoScheduler: true, Schedules: []spool.Schedule{{Spec: "@hourly", Job: tidyUp.With("x")}}})
		greet.Handle(w, func(context.Context, string) error { return nil })
		b.start(w)
		b.sleep(5 * time.Hour)
		all, err := b.Schedules(b.ctx, "")
		b.must(err)
		want(b, "declared", len(all), 1)
		want(b, "served", !all[0].Schedule.Due.IsZero(), false)
		w = spool.NewWorker(b.Client, spool.WorkerConfig{Name: "another"})
		greet.Handle(w, func(context.Context, string) error { return nil })
		b.start(w)
		b.sleep(time.Hour)
		b.wantTicks("tidy_up", "01 06:00")
	})
}

func TestADrainingWorkerServesSchedulesFirst(t *testing.T) {
	bubble(t, func(b *bench) {
		ran := 0
		cfg := spool.WorkerConfig{Schedules: []spool.Schedule{{Spec: "@hourly", Job: tidyUp.With("x")}}}
		work := func(w *spool.Worker) { tidyUp.Handle(w, func(context.Context, string) error { ran++; return nil }) }
		b.drain(cfg, work)
		want(b, "runs", ran, 0)
		for i := range 3 {
			b.sleep(time.Hour)
			b.drain(cfg, work)
			want(b, "runs", ran, i+1)
		}
	})
}

func TestAFaultOfOneScheduleHoldsUpNoOther(t *testing.T) {
	bubble(t, func(b *bench) {
		b.broker.set(func() {
			b.broker.tick = func(t broker.Tick) error {
				if t.Schedule == "a" && len(t.Jobs) > 0 {
					return errDisk
				}
				return nil
			}
		})
		stop := b.scheduler(
			spool.Schedule{Name: "a", Spec: "@hourly", Job: tidyUp.With("x")},
			spool.Schedule{Name: "b", Spec: "*/30 * * * *", Job: tidyUp.With("x")},
		)
		b.sleep(2 * time.Hour)
		b.wantTicks("a")
		b.wantTicks("b", "01 00:30", "01 01:00", "01 01:30", "01 02:00")
		want(b, "logged", b.log.count("schedule default/a"), 1)
		b.broker.set(func() { b.broker.tick = nil })
		b.sleep(5 * time.Second)
		b.wantTicks("a", "01 02:00")
		b.must(stop())
	})
}

func TestAScheduleThatCannotBeReadIsLeftAlone(t *testing.T) {
	bubble(t, func(b *bench) {
		// As a newer release, with expressions that this one cannot read.
		strange := broker.Setting{Kind: broker.ScheduleSetting, Name: "s", Schedule: &broker.Schedule{Spec: "@fullmoon", Job: broker.NewJob{Task: "t"}}}
		b.must(b.broker.Configure(b.ctx, broker.NewCall(), "q", broker.Change{Set: []broker.Setting{strange}}))
		b.scheduler(spool.Schedule{Name: "b", Spec: "@hourly", Job: tidyUp.With("x")})
		b.sleep(2 * time.Hour)
		b.wantTicks("b", "01 01:00", "01 02:00")
		want(b, "logged", b.log.count("schedule q/s"), 1)
		all, err := b.Schedules(b.ctx, "q")
		b.must(err)
		want(b, "kept", all[0].Schedule.Due.IsZero(), true)
	})
}

func TestInterceptorsSeeTheJobsOfSchedules(t *testing.T) {
	var seen notes[string]
	see := func(next spool.EnqueueFunc) spool.EnqueueFunc {
		return func(ctx context.Context, queue string, jobs []broker.NewJob) ([]spool.Enqueued, error) {
			if len(seen.all()) == 2 {
				seen.add("kept back")
				return nil, nil
			}
			jobs[0].Headers["trace"] = "1"
			answers, err := next(ctx, queue, jobs)
			if err == nil {
				seen.add(line(queue, jobs[0].Task, jobs[0].ID == answers[0].ID, answers[0].Existing))
			}
			return answers, err
		}
	}
	bubbleWith(t, spool.Config{OnEnqueue: []func(spool.EnqueueFunc) spool.EnqueueFunc{see}}, func(b *bench) {
		b.scheduler(spool.Schedule{Name: "s", Spec: "@hourly", Job: tidyUp.With("x")})
		b.sleep(4 * time.Hour)
		want(b, "seen", strings.Join(seen.all(), ", "), "default tidy_up true false, default tidy_up true false, kept back, default tidy_up true false")
		b.wantTicks("s", "01 01:00", "01 02:00", "01 04:00")
		for j, err := range b.List(b.ctx, spool.Filter{}) {
			b.must(err)
			want(b, "header", j.Headers["trace"], "1")
		}
		_, err := b.TriggerSchedule(b.ctx, "default", "s")
		b.must(err)
		want(b, "triggered", len(seen.all()), 5)
	})
}

func TestAKeyKeepsTicksFromPilingUp(t *testing.T) {
	bubble(t, func(b *bench) {
		b.scheduler(spool.Schedule{Name: "s", Spec: "@hourly", Job: tidyUp.With("x", spool.Key("k"))})
		b.sleep(5 * time.Hour)
		b.wantTicks("s", "01 01:00")
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) { tidyUp.Handle(w, func(context.Context, string) error { return nil }) })
		b.sleep(time.Hour)
		b.wantTicks("s", "01 06:00", "01 01:00")
	})
}

func TestSchedulesFollowTheirZone(t *testing.T) {
	bubble(t, func(b *bench) {
		b.sleep(time.Until(time.Date(2000, 4, 1, 12, 0, 0, 0, time.UTC)))
		for _, dst := range []cron.DST{cron.Wall, cron.Vixie} {
			b.must(b.AddSchedule(b.ctx, spool.Schedule{Name: dst.String(), Spec: "30 2 * * *", Zone: "America/New_York", DST: dst, Job: tidyUp.With("x")}))
		}
		b.scheduler()
		b.sleep(48 * time.Hour) // 02:30 does not exist on April 2
		b.wantTicks("wall", "03 06:30")
		b.wantTicks("vixie", "02 07:00", "03 06:30")
	})
}

func TestAClockThatStepsRepeatsNoTick(t *testing.T) {
	bubble(t, func(b *bench) {
		step := func(d time.Duration) { b.broker.set(func() { b.broker.behind -= d }) }
		step(-10 * time.Hour) // it is 14:00 of the day before
		b.scheduler(spool.Schedule{Name: "s", Spec: "@hourly", Job: tidyUp.With("x")})
		b.sleep(2*time.Hour + 30*time.Minute)
		b.wantTicks("s", "31 15:00", "31 16:00")
		step(-time.Hour) // from 16:30 back to 15:30
		b.sleep(time.Hour + 29*time.Minute)
		b.wantTicks("s", "31 15:00", "31 16:00")
		b.sleep(time.Minute)
		b.wantTicks("s", "31 15:00", "31 16:00", "31 17:00")
		step(3*time.Hour + 30*time.Minute) // 20:30: as after downtime
		b.sleep(30 * time.Second)
		b.wantTicks("s", "31 15:00", "31 16:00", "31 17:00", "31 20:00")
		b.sleep(30 * time.Minute)
		b.wantTicks("s", "31 15:00", "31 16:00", "31 17:00", "31 20:00", "31 21:00")
	})
}

func TestASchedulerRestsWhileNothingIsDue(t *testing.T) {
	bubble(t, func(b *bench) {
		var calls notes[broker.Tick]
		b.broker.set(func() { b.broker.tick = func(t broker.Tick) error { calls.add(t); return nil } })
		b.scheduler(spool.Schedule{Name: "s", Spec: "@daily", Job: tidyUp.With("x")})
		b.sleep(time.Hour)
		if n := len(calls.all()); n < 100 || n > 150 { // every 25 to 30 s
			b.Errorf("%d calls in an hour", n)
		}
	})
}
