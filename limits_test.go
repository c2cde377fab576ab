package spool_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// limitsOf lists the limits of the store in a line each.
func (b *bench) limitsOf(queue string) (lines []string) {
	b.Helper()
	all, err := b.Settings(b.ctx, queue)
	b.must(err)
	for _, s := range all {
		if l := s.Limit; l != nil {
			lines = append(lines, line(s.Queue, s.Name, l.Tasks, l.Count, l.Every, l.Burst, l.Running, "per", l.Per, "by", s.Owner))
		}
	}
	return lines
}

func TestAWorkerDeclaresTheLimitsOfItsTasks(t *testing.T) {
	nothing := func(context.Context, int) error { return nil }
	bubble(t, func(b *bench) {
		w := spool.NewWorker(b.Client, spool.WorkerConfig{Name: "app"})
		spool.Define[int]("a", spool.RateLimit("10/s"), spool.RunningLimit(3, spool.PerTenant())).Handle(w, nothing)
		spool.Define[int]("b", spool.Queue("q"), spool.RateLimit("0.5/m burst 4", spool.PerGroup()), spool.RunningLimit(2, spool.Bucket("api"))).Handle(w, nothing)
		spool.Define[int]("c", spool.Queue("q"), spool.RunningLimit(2, spool.Bucket("api"))).Handle(w, nothing)
		spool.Define[int]("free").Handle(w, nothing)
		b.start(w)
		synctest.Wait()
		want(b, "limits", strings.Join(b.limitsOf(""), "\n"), strings.Join([]string{
			"default a.rate [a] 10 1s 0 0 per  by app",
			"default a.running.tenant [a] 0 0s 0 3 per tenant by app",
			"q api [b c] 0 0s 0 2 per  by app",
			"q b.rate.group [b] 1 2m0s 4 0 per group by app",
		}, "\n"))
	})
}

func TestBadLimitsPanicWhenTheyAreDefined(t *testing.T) {
	long := strings.Repeat("x", 126)
	for _, c := range []struct {
		name, task string
		opts       []spool.TaskOption
		part       string
	}{
		{"a rate of zero", "t", []spool.TaskOption{spool.RateLimit("0/s")}, "is zero"},
		{"a negative rate", "t", []spool.TaskOption{spool.RateLimit("-1/s")}, `count "-1" is not a number`},
		{"a rate without a period", "t", []spool.TaskOption{spool.RateLimit("10")}, "no period"},
		{"a period that nobody knows", "t", []spool.TaskOption{spool.RateLimit("10/week")}, `period "week" is unknown`},
		{"a burst of zero", "t", []spool.TaskOption{spool.RateLimit("10/s burst 0")}, `burst "0"`},
		{"no running job", "t", []spool.TaskOption{spool.RunningLimit(0)}, "running limit is 0"},
		{"a negative number of running jobs", "t", []spool.TaskOption{spool.RunningLimit(-1)}, "running limit is -1"},
		{"two scopes", "t", []spool.TaskOption{spool.RunningLimit(1, spool.PerTenant(), spool.PerGroup())}, "either by tenant or by group"},
		{"a bad bucket", "t", []spool.TaskOption{spool.RunningLimit(1, spool.Bucket("a b"))}, "bucket name"},
		{"an empty bucket", "t", []spool.TaskOption{spool.RunningLimit(1, spool.Bucket(""))}, "bucket name is empty"},
		{"a name that has no room for the limit's", long, []spool.TaskOption{spool.RunningLimit(1)}, "name it with Bucket"},
		{"two limits of one name", "t", []spool.TaskOption{spool.RateLimit("1/s"), spool.RateLimit("9/m")}, "name one of them with Bucket"},
		{"five limits", "t", []spool.TaskOption{
			spool.RateLimit("1/s"), spool.RateLimit("1/s", spool.PerTenant()), spool.RateLimit("1/s", spool.PerGroup()),
			spool.RunningLimit(1), spool.RunningLimit(1, spool.PerTenant()),
		}, "at most 4 limits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			defer func() { wantText(t, fmt.Sprint(recover()), "spool: Define(", c.part) }()
			spool.Define[int](c.task, c.opts...)
		})
	}
}

func TestABucketIsTheSameForAllItsTasks(t *testing.T) {
	nothing := func(context.Context, int) error { return nil }
	bubble(t, func(b *bench) {
		for name, other := range map[string]*spool.Task[int]{
			"is another one": spool.Define[int]("b", spool.RateLimit("2/s", spool.Bucket("api"))),
			"to one queue":   spool.Define[int]("b", spool.Queue("q"), spool.RateLimit("1/s", spool.Bucket("api"))),
		} {
			w := spool.NewWorker(b.Client, spool.WorkerConfig{})
			spool.Define[int]("a", spool.RateLimit("1/s", spool.Bucket("api"))).Handle(w, nothing)
			func() {
				defer func() { wantText(b, fmt.Sprint(recover()), `Handle("b")`, name) }()
				other.Handle(w, nothing)
			}()
		}
	})
}

// started notes when each job started.
type started struct {
	mu   sync.Mutex
	from time.Time
	at   []time.Duration
	args []int
}

func (s *started) note(_ context.Context, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at, s.args = append(s.at, time.Since(s.from)), append(s.args, n)
	return nil
}

func TestARateIsKeptAndBurnsNoAttempt(t *testing.T) {
	task := spool.Define[int]("t", spool.RateLimit("10/s burst 2"), kept)
	bubble(t, func(b *bench) {
		for n := range 12 {
			b.add(task.With(n))
		}
		s := &started{from: time.Now()}
		var other notes[string]
		for range 2 { // workers share the limit
			w := spool.NewWorker(b.Client, spool.WorkerConfig{})
			task.Handle(w, s.note)
			greet.Handle(w, func(_ context.Context, s string) error { other.add(s); return nil })
			b.start(w)
		}
		b.add(greet.With("flows past"))
		synctest.Wait()
		want(b, "other tasks", len(other.all()), 1)
		b.sleep(time.Minute)
		s.mu.Lock()
		defer s.mu.Unlock()
		want(b, "runs", len(s.args), 12)
		slices.Sort(s.args[:2]) // they start at once
		if !slices.IsSorted(s.args) {
			b.Errorf("order is %v", s.args)
		}
		for i, at := range s.at {
			due := time.Duration(max(i-1, 0)) * 100 * time.Millisecond
			if at < due || at > due+20*time.Millisecond {
				b.Errorf("job %d started after %v, want %v", i, at, due)
			}
		}
		for j, err := range b.List(b.ctx, spool.Filter{Task: "t"}) {
			b.must(err)
			want(b, "attempt", j.Attempt, 1)
		}
	})
}

func TestALimitOnRunningJobsHoldsAcrossWorkers(t *testing.T) {
	task := spool.Define[int]("t", spool.RunningLimit(2, spool.PerTenant()), spool.TenantBy(func(n int) string { return fmt.Sprint(n % 2) }), kept)
	bubble(t, func(b *bench) {
		for n := range 20 {
			b.add(task.With(n))
		}
		var mu sync.Mutex
		running, most, runs := [2]int{}, [2]int{}, 0
		for range 3 {
			w := spool.NewWorker(b.Client, spool.WorkerConfig{})
			task.Handle(w, func(_ context.Context, n int) error {
				mu.Lock()
				running[n%2]++
				most[n%2] = max(most[n%2], running[n%2])
				mu.Unlock()
				<-time.After(time.Second)
				mu.Lock()
				defer mu.Unlock()
				running[n%2]--
				runs++
				return nil
			})
			b.start(w)
		}
		b.sleep(5*time.Second + time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		want(b, "most at a time", most, [2]int{2, 2})
		want(b, "runs", runs, 20)
	})
}

func TestAnOrderedGroupRunsOneAtATime(t *testing.T) {
	task := spool.Define[int]("t", spool.Ordered(), spool.GroupBy(func(n int) string { return fmt.Sprint(n % 2) }),
		spool.Backoff(spool.Exponential{First: time.Minute, Jitter: -1}))
	bubble(t, func(b *bench) {
		for n := range 6 {
			b.add(task.With(n))
		}
		var order notes[int]
		var failed atomic.Bool
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		task.Handle(w, func(_ context.Context, n int) error {
			if n == 2 && !failed.Swap(true) {
				return errDisk
			}
			order.add(n)
			return nil
		})
		b.start(w)
		b.sleep(time.Second)
		got := order.all()
		slices.Sort(got) // of two groups
		want(b, "while 2 waits for its retry", fmt.Sprint(got), "[0 1 3 5]")
		b.sleep(time.Minute)
		want(b, "in the end", fmt.Sprint(order.all()[4:]), "[2 4]")
	})
}

// deploy starts a version of a program, as its name declares it.
func (b *bench) deploy(handle func(w *spool.Worker), schedules ...spool.Schedule) (stop func() error) {
	b.Helper()
	w := spool.NewWorker(b.Client, spool.WorkerConfig{Name: "app", Schedules: schedules})
	handle(w)
	stop = b.start(w)
	synctest.Wait()
	return stop
}

func TestTwoVersionsDeployedOverEachOtherEndWithTheRightDeclarations(t *testing.T) {
	nothing := func(context.Context, int) error { return nil }
	tidy := spool.Define[int]("tidy", spool.Queue("night"))
	old := func(b *bench) (stop func() error) {
		return b.deploy(func(w *spool.Worker) {
			spool.Define[int]("mail", spool.RateLimit("10/s")).Handle(w, nothing)
			spool.Define[int]("gone", spool.Queue("old"), spool.RunningLimit(1)).Handle(w, nothing)
		}, spool.Schedule{Spec: "@daily", Job: tidy.With(1)}, spool.Schedule{Name: "weekly", Spec: "@weekly", Job: tidy.With(1)})
	}
	fresh := func(b *bench) (stop func() error) {
		return b.deploy(func(w *spool.Worker) {
			spool.Define[int]("mail", spool.RateLimit("20/s")).Handle(w, nothing)
		}, spool.Schedule{Spec: "@daily", Job: tidy.With(2)}, spool.Schedule{Name: "hourly", Spec: "@hourly", Job: tidy.With(1)})
	}
	settings := func(b *bench) string {
		b.Helper()
		lines := b.limitsOf("")
		all, err := b.Schedules(b.ctx, "")
		b.must(err)
		for _, s := range all {
			lines = append(lines, line(s.Queue, s.Name, s.Schedule.Spec, string(s.Schedule.Job.Payload), "by", s.Owner))
		}
		return strings.Join(lines, "\n")
	}
	wantOld := strings.Join([]string{
		"default mail.rate [mail] 10 1s 0 0 per  by app", "old gone.running [gone] 0 0s 0 1 per  by app",
		"night tidy @daily 1 by app", "night weekly @weekly 1 by app",
	}, "\n")
	wantFresh := strings.Join([]string{
		"default mail.rate [mail] 20 1s 0 0 per  by app", "night hourly @hourly 1 by app", "night tidy @daily 2 by app",
	}, "\n")
	bubble(t, func(b *bench) {
		first := b.Client
		var stops []func() error
		version := func(start func(b *bench) func() error) { // each in a process of its own
			process := *b
			process.Client = spool.New(b.broker.another(), quietConfig)
			stops = append(stops, start(&process))
		}
		version(old)
		want(b, "the old one", settings(b), wantOld)
		all, err := b.Schedules(b.ctx, "night")
		b.must(err)
		due := all[0].Schedule.Due
		want(b, "the cursor is set", due.IsZero(), false)

		version(fresh) // beside it
		want(b, "the new one beside the old one", settings(b), wantFresh)
		b.must(stops[0]())
		want(b, "the new one alone", settings(b), wantFresh)
		version(old)
		version(old)
		b.must(stops[1]())
		want(b, "rolled back", settings(b), wantOld)
		version(fresh)
		want(b, "and forward", settings(b), wantFresh)
		all, err = b.Schedules(b.ctx, "night")
		b.must(err)
		want(b, "the cursor of an unchanged schedule", all[1].Schedule.Due, due)

		// An operator's setting wins until it is cleared.
		byHand := broker.Setting{Kind: broker.LimitSetting, Name: "mail.rate", Limit: &broker.Limit{Tasks: []string{"mail"}, Count: 1, Every: time.Hour}}
		b.must(b.Configure(b.ctx, "default", broker.Change{Set: []broker.Setting{byHand}}))
		version(old)
		want(b, "by hand", b.limitsOf("default")[0], "default mail.rate [mail] 1 1h0m0s 0 0 per  by ")
		// The last version has nothing to say.
		process := *b
		process.Client = spool.New(b.broker.another(), quietConfig)
		w := spool.NewWorker(process.Client, spool.WorkerConfig{Name: "app"})
		greet.Handle(w, func(context.Context, string) error { return nil })
		process.start(w)
		synctest.Wait()
		b.must(b.Configure(b.ctx, "default", broker.Change{Clear: []broker.SettingName{{Kind: broker.LimitSetting, Name: "mail.rate"}}}))
		want(b, "nothing is declared any more", settings(b), "")
		for _, stop := range stops {
			b.must(stop())
		}
		b.Client = first
	})
}

func TestWorkersOfOneNameInOneProgramDeclareTogether(t *testing.T) {
	nothing := func(context.Context, int) error { return nil }
	bubble(t, func(b *bench) {
		for _, name := range []string{"a", "b"} {
			b.deploy(func(w *spool.Worker) {
				spool.Define[int](name, spool.RunningLimit(1), spool.RateLimit("1/s", spool.Bucket("api"))).Handle(w, nothing)
			})
		}
		want(b, "limits", strings.Join(b.limitsOf(""), "\n"), strings.Join([]string{
			"default a.running [a] 0 0s 0 1 per  by app", "default api [a b] 1 1s 0 0 per  by app", "default b.running [b] 0 0s 0 1 per  by app",
		}, "\n"))
		b.must(b.stopAll()) // what does not run any more has nothing to say
		b.deploy(func(w *spool.Worker) { spool.Define[int]("c", spool.RunningLimit(1)).Handle(w, nothing) })
		want(b, "limits", strings.Join(b.limitsOf(""), "\n"), "default c.running [c] 0 0s 0 1 per  by app")
	})
}

func TestAWorkerThatTakesOverTheSettingOfAnotherNameSaysSo(t *testing.T) {
	bubble(t, func(b *bench) {
		start := func(owner, task string) (stop func() error) {
			declared := spool.Define[int](task, spool.RateLimit("1/s", spool.Bucket("api")), spool.RunningLimit(1))
			w := spool.NewWorker(b.Client, spool.WorkerConfig{Name: owner, Schedules: []spool.Schedule{{Name: "s", Spec: "@daily", Job: declared.With(1)}}})
			declared.Handle(w, func(context.Context, int) error { return nil })
			stop = b.start(w)
			synctest.Wait()
			return stop
		}
		const warning = "is taken over"
		b.must(start("shop", "sell")())
		b.must(start("shop", "sell")())
		want(b, "warnings while one program declares", b.log.count(warning), 0)
		b.must(start("press", "print")())
		want(b, "of the limit", b.log.count(`setting="limit api" queue=default worker=press of=shop`), 1)
		want(b, "of the schedule", b.log.count(`setting="schedule s" queue=default worker=press of=shop`), 1)
		want(b, "warnings", b.log.count(warning), 2)
		// Under an operator's setting, too, since that may be cleared.
		byHand := broker.Setting{Kind: broker.LimitSetting, Name: "api", Limit: &broker.Limit{Tasks: []string{"sell"}, Running: 1}}
		b.must(b.Configure(b.ctx, "default", broker.Change{Set: []broker.Setting{byHand}}))
		b.must(start("shop", "sell")())
		want(b, "of the limit under an operator's", b.log.count(`setting="limit api" queue=default worker=shop of=press`), 1)
	})
}

func TestADeclarationThatFailsIsRepeatedAndStopsNobody(t *testing.T) {
	task := spool.Define[int]("t", spool.RunningLimit(1))
	bubble(t, func(b *bench) {
		b.broker.set(func() { b.broker.change = func(broker.Change) error { return errDisk } })
		b.add(task.With(1))
		var ran notes[int]
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		task.Handle(w, func(_ context.Context, n int) error { ran.add(n); return nil })
		b.start(w)
		b.sleep(time.Minute)
		want(b, "runs", len(ran.all()), 1)
		want(b, "limits", len(b.limitsOf("")), 0)
		want(b, "logged", b.log.count("op=declare"), 1)
		b.broker.set(func() { b.broker.change = nil })
		b.sleep(5 * time.Second)
		want(b, "limits", len(b.limitsOf("")), 1)
		want(b, "logged", b.log.count("op=declare"), 2)
	})
}

// TestALateDeclarationOfAnOlderStartIsNotMade: that of the old version fails, the
// new one starts and declares, and then the old one's is tried again.
func TestALateDeclarationOfAnOlderStartIsNotMade(t *testing.T) {
	nothing := func(context.Context, int) error { return nil }
	for _, c := range []struct {
		name  string
		fresh spool.TaskOption
		want  string
	}{
		{"over another limit", spool.RunningLimit(5), "default t.running [t] 0 0s 0 5 per  by app"},
		{"where the new version has none", spool.MaxAttempts(3), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				b.broker.set(func() { b.broker.change = func(broker.Change) error { return errDisk } })
				b.deploy(func(w *spool.Worker) { spool.Define[int]("t", spool.RunningLimit(1)).Handle(w, nothing) })
				b.sleep(time.Minute)
				process := *b
				process.Client = spool.New(b.broker.another(), quietConfig)
				process.deploy(func(w *spool.Worker) { spool.Define[int]("t", c.fresh).Handle(w, nothing) })
				b.sleep(time.Second)
				b.broker.set(func() { b.broker.change = nil })
				b.sleep(time.Hour)
				want(b, "limits", strings.Join(b.limitsOf(""), "\n"), c.want)
				want(b, "logged", b.log.count("a later start of this worker's name"), 1)
			})
		})
	}
}

func TestNothingIsClaimedBeforeTheLimitsAreDeclared(t *testing.T) {
	task := spool.Define[int]("t", spool.RunningLimit(1))
	bubble(t, func(b *bench) {
		b.broker.set(func() {
			b.broker.change = func(broker.Change) error { <-time.After(time.Second); return nil }
		})
		b.add(task.With(1))
		start := time.Now()
		var after notes[time.Duration]
		w := spool.NewWorker(b.Client, spool.WorkerConfig{})
		task.Handle(w, func(context.Context, int) error { after.add(time.Since(start)); return nil })
		b.start(w)
		b.sleep(time.Minute)
		want(b, "started", line(after.all()), "[1s]")
	})
}
