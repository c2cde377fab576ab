package spoolprom_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
	"github.com/spoolq/spool/spoolprom"
)

func TestAQueueThatIsGoneIsZeroOnceAndThenAbsent(t *testing.T) {
	gone := false
	b := &screened{Broker: membroker.New(membroker.Config{})}
	b.counts = func(counts []broker.Count) ([]broker.Count, error) {
		if gone {
			counts = counts[1:]
		}
		return counts, nil
	}
	c := quiet(b)
	defer c.Close()
	m := spoolprom.NewCollector(c, fresh)
	enqueue(t, c, "a", "mail", 100)
	enqueue(t, c, "b", "mail", 1)
	const ready, cancelled = `spool_jobs{queue="a",state="ready",task="mail"}`, `spool_jobs{queue="a",state="cancelled",task="mail"}`
	for range 3 {
		v := gather(t, m)
		v.want(t, ready, 100)
		v.want(t, `spool_queue_depth{queue="a"}`, 100)
	}
	if _, err := c.Cancel(t.Context(), spool.Filter{Queue: "a"}); err != nil {
		t.Fatal(err)
	}
	v := gather(t, m)
	v.want(t, ready, 0)
	v.want(t, cancelled, 100)
	v.want(t, `spool_queue_depth{queue="a"}`, 0)
	if _, err := c.Delete(t.Context(), spool.Filter{Queue: "a"}); err != nil {
		t.Fatal(err)
	}
	gather(t, m).want(t, cancelled, 0)
	gone = true
	v = gather(t, m)
	for _, name := range []string{ready, cancelled, `spool_queue_depth{queue="a"}`, `spool_queue_bytes{queue="a"}`, `spool_queue_depth_high_water{queue="a"}`, `spool_queue_paused{queue="a"}`, `spool_oldest_ready_age_seconds{queue="a"}`} {
		v.want(t, name, 0)
	}
	v.want(t, `spool_jobs{queue="b",state="ready",task="mail"}`, 1)
	for name := range gather(t, m) {
		if strings.Contains(name, `queue="a"`) {
			t.Errorf("%s is still there", name)
		}
	}
}

func TestTheFirstScrapeOfARestartedProcessIsNoJump(t *testing.T) {
	dir := t.TempDir()
	open := func() (*spool.Client, *filebroker.Broker) {
		b, err := filebroker.Open(dir, filebroker.Config{AllowUnsafeFS: true})
		if err != nil {
			t.Fatal(err)
		}
		return quiet(b), b
	}
	c, b := open()
	enqueue(t, c, "q", "mail", 1000)
	for n := 0; n < 1000; {
		got, err := c.Claim(t.Context(), broker.ClaimRequest{Max: 100})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range got {
			if err := l.Ack(t.Context(), nil); err != nil {
				t.Fatal(err)
			}
		}
		n += len(got)
	}
	totals := func(c *spool.Client) values { return gather(t, spoolprom.NewCollector(c, fresh)).part(ofCounts...) }
	before := totals(c)
	before.want(t, `spool_jobs_acked_total{queue="q",task="mail"}`, 1000)
	if _, err := b.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	gather(t, spoolprom.NewCollector(c, fresh)).want(t, `spool_file_compactions_total{}`, 1)
	c.Close()
	c, _ = open()
	defer c.Close()
	m := spoolprom.NewCollector(c, fresh)
	for i := range 2 {
		if d := difference(gather(t, m).part(ofCounts...), before); d != "" {
			t.Errorf("scrape %d after the restart:\n%s", i+1, d)
		}
	}
}

func TestManyTasksAreCountedTogether(t *testing.T) {
	b := &screened{Broker: membroker.New(membroker.Config{})}
	without := map[string]bool{}
	b.counts = func(counts []broker.Count) (kept []broker.Count, err error) {
		for _, c := range counts {
			if !without[c.Task] {
				kept = append(kept, c)
			}
		}
		return kept, nil
	}
	c := quiet(b)
	defer c.Close()
	m := spoolprom.NewCollector(c, spoolprom.Config{MaxAge: -1, MaxTasks: 4})
	enqueue(t, c, "b", "one", 1)
	enqueue(t, c, "b", "two", 2)
	enqueue(t, c, "b", spoolprom.Other, 5) // somebody's own task of that name
	gather(t, m).want(t, `spool_series_folded{kind="tasks"}`, 0)
	for i := range 50 {
		enqueue(t, c, "a", fmt.Sprintf("t%02d", i), 1)
		enqueue(t, c, fmt.Sprintf("many%02d", i), "x", 2)
	}
	v := gather(t, m)
	enqueued := v.part("spool_jobs_enqueued_total")
	if len(enqueued) != 7 { // four with a name, the others of a, of b, and of all queues without one
		t.Errorf("%d series: %v", len(enqueued), enqueued)
	}
	v.want(t, `spool_jobs_enqueued_total{queue="b",task="two"}`, 2) // who came first keeps the name
	v.want(t, `spool_jobs_enqueued_total{queue="b",task="_other"}`, 5)
	v.want(t, `spool_jobs_enqueued_total{queue="a",task="_other"}`, 48)
	v.want(t, `spool_jobs_enqueued_total{queue="_other",task="_other"}`, 100)
	v.want(t, `spool_queue_depth{queue="_other"}`, 100)
	v.want(t, `spool_queue_depth{queue="a"}`, 50)
	v.want(t, `spool_series_folded{kind="tasks"}`, 98)
	v.want(t, `spool_series_folded{kind="queues"}`, 50)
	without["t49"] = true // one of those without a name goes: what it counted stays
	v = gather(t, m)
	v.want(t, `spool_jobs_enqueued_total{queue="a",task="_other"}`, 48)
	v.want(t, `spool_jobs{queue="a",state="ready",task="_other"}`, 47)
	without["t00"] = true // one with a name goes: no other changes its name for that
	v = gather(t, m)
	v.want(t, `spool_jobs_enqueued_total{queue="a",task="_other"}`, 48)
	v.wantNone(t, `spool_jobs_enqueued_total{queue="a",task="t00"}`)
}

func TestManyLimitsAndSchedulesAreCut(t *testing.T) {
	c := quiet(membroker.New(membroker.Config{}))
	defer c.Close()
	for i := range 9 {
		name := fmt.Sprintf("s%d", i)
		err := c.Configure(t.Context(), "q", broker.Change{Set: []broker.Setting{
			{Kind: broker.LimitSetting, Name: name, Limit: &broker.Limit{Tasks: []string{name}, Running: 1}},
			{Kind: broker.ScheduleSetting, Name: name, Schedule: &broker.Schedule{Spec: "@hourly", Job: broker.NewJob{Task: "t"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
	}
	v := gather(t, spoolprom.NewCollector(c, spoolprom.Config{MaxTasks: 4}))
	if n, m := len(v.part("spool_limit_running{")), len(v.part("spool_schedule_paused{")); n != 4 || m != 4 {
		t.Errorf("%d limits and %d schedules", n, m)
	}
	v.want(t, `spool_series_folded{kind="limits"}`, 5)
	v.want(t, `spool_series_folded{kind="schedules"}`, 5)
}

func TestHostileNamesAreLabelsLikeAnyOther(t *testing.T) {
	names := []string{"a\"} 1\nspool_jobs{queue=\"x", "\xff\xfe", "\xff\xff", "{}", `\`, "naïve", "a b", "\x00", spoolprom.Other}
	b := &screened{Broker: membroker.New(membroker.Config{})}
	b.counts = func([]broker.Count) (counts []broker.Count, err error) {
		for _, name := range names {
			counts = append(counts, broker.Count{Queue: name, Task: name, Dead: 1})
		}
		return counts, nil
	}
	c := quiet(b)
	defer c.Close()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(spoolprom.NewCollector(c, fresh))
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			t.Fatal(err)
		}
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	read, err := parser.TextToMetricFamilies(&text)
	if err != nil {
		t.Fatal(err)
	}
	dead := 0.0
	for _, m := range read["spool_jobs"].Metric {
		dead += m.GetGauge().GetValue()
	}
	if dead != float64(len(names)) {
		t.Errorf("%v of %d jobs are there after the text was read", dead, len(names))
	}
}

func TestAStoreThatCannotBeReadIsAMetric(t *testing.T) {
	broken := errors.New("no")
	var fail bool
	b := &screened{Broker: membroker.New(membroker.Config{})}
	b.counts = func(counts []broker.Count) ([]broker.Count, error) {
		if fail {
			return nil, broken
		}
		return counts, nil
	}
	c := quiet(b)
	enqueue(t, c, "q", "mail", 3)
	m := spoolprom.NewCollector(c, fresh)
	const ready = `spool_jobs{queue="q",state="ready",task="mail"}`
	gather(t, m).want(t, ready, 3)
	fail = true
	v := gather(t, m)
	v.want(t, `spool_scrape_success{part="counts"}`, 0)
	v.want(t, `spool_scrape_success{part="health"}`, 1)
	v.wantNone(t, "spool_jobs{") // no false dip
	fail = false
	gather(t, m).want(t, ready, 3)
	c.Close()
	v = gather(t, m)
	for _, part := range []string{"counts", "health", "settings", "workers"} {
		v.want(t, fmt.Sprintf("spool_scrape_success{part=%q}", part), 0)
	}
	v.wantNone(t, "spool_jobs{")
	v.wantNone(t, "spool_store_health{")
}

func TestAPoisonedStoreIsStillScraped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		var fail atomic.Bool
		m.Inject(func(op crashfs.Op) error {
			if fail.Load() && op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") {
				return syscall.EIO
			}
			return nil
		})
		b, err := filebroker.Open("/jobs", filebroker.Config{Logger: slog.New(slog.DiscardHandler)}.On(m.Process()))
		if err != nil {
			t.Fatal(err)
		}
		c := quiet(b)
		defer c.Close()
		enqueue(t, c, "q", "mail", 3)
		collector := spoolprom.NewCollector(c, fresh)
		gather(t, collector).want(t, `spool_store_health{status="healthy"}`, 1)
		fail.Store(true)
		if _, err := c.Enqueue(t.Context(), spool.Raw("mail", nil, spool.Queue("q"))); !errors.Is(err, broker.ErrPoisoned) {
			t.Fatalf("the enqueue whose sync failed: %v", err)
		}
		v := gather(t, collector)
		v.want(t, `spool_store_health{status="poisoned"}`, 1)
		v.want(t, `spool_store_health{status="healthy"}`, 0)
		if ready := v[`spool_jobs{queue="q",state="ready",task="mail"}`]; ready < 3 {
			t.Errorf("%v jobs are ready", ready)
		}
		fail.Store(false)
	})
}

func TestManyScrapersReadOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reads atomic.Int64
		b := &screened{Broker: membroker.New(membroker.Config{})}
		b.counts = func(c []broker.Count) ([]broker.Count, error) {
			reads.Add(1)
			return c, nil
		}
		c := quiet(b)
		defer c.Close()
		m := spoolprom.NewCollector(c, spoolprom.Config{})
		r := prometheus.NewRegistry()
		r.MustRegister(m)
		scrapeAll := func() {
			var all sync.WaitGroup
			for range 50 {
				all.Go(func() {
					if _, err := r.Gather(); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
		}
		scrapeAll()
		if n := reads.Load(); n != 1 {
			t.Errorf("50 scrapes read the counts %d times", n)
		}
		time.Sleep(spoolprom.DefaultMaxAge)
		scrapeAll()
		if n := reads.Load(); n != 2 {
			t.Errorf("50 scrapes, a second later, read the counts %d times in all", n)
		}
	})
}

func TestWhatHoldsJobsBackIsScraped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quiet(membroker.New(membroker.Config{}))
		defer c.Close()
		ctx := t.Context()
		next := time.Now().Add(time.Hour).Truncate(time.Second)
		err := c.Configure(ctx, "q", broker.Change{Set: []broker.Setting{
			{Kind: broker.LimitSetting, Name: "two", Limit: &broker.Limit{Tasks: []string{"mail", "sms"}, Running: 2}},
			{Kind: broker.LimitSetting, Name: "each", Limit: &broker.Limit{Tasks: []string{"mail"}, Running: 3, Per: broker.PerTenant}},
			{Kind: broker.LimitSetting, Name: "slow", Limit: &broker.Limit{Tasks: []string{"slow"}, Count: 30, Every: time.Minute}},
			{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 7, Bytes: 1000}},
			{Kind: broker.ScheduleSetting, Name: "nightly", Schedule: &broker.Schedule{Spec: "@hourly", Job: broker.NewJob{Task: "t"}}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		gather(t, spoolprom.NewCollector(c, fresh)).wantNone(t, "spool_schedule_next")
		if won, _, err := c.Broker().Tick(ctx, broker.NewCall(), broker.Tick{Queue: "q", Schedule: "nightly", Next: next}); !won || err != nil {
			t.Fatal(won, err)
		}
		enqueue(t, c, "q", "mail", 4)
		if got, err := c.Claim(ctx, broker.ClaimRequest{Max: 4}); err != nil || len(got) != 2 {
			t.Fatalf("%d claimed: %v", len(got), err)
		}
		worker := broker.Worker{ID: "w", Name: "w", Queues: []string{"q"}, Tasks: []string{"mail"}, Concurrency: 5}
		anyJob := broker.Worker{ID: "x", Name: "x", Concurrency: 2}
		for _, w := range []broker.Worker{worker, anyJob} {
			if _, err := c.Broker().Extend(ctx, broker.ExtendRequest{Worker: w, TTL: time.Hour}); err != nil {
				t.Fatal(err)
			}
		}
		enqueue(t, c, "q", "sms", 1)
		time.Sleep(90 * time.Second)
		if err := c.PauseSchedule(ctx, "q", "nightly"); err != nil {
			t.Fatal(err)
		}
		v := gather(t, spoolprom.NewCollector(c, fresh))
		for name, want := range (values{
			`spool_limit_running{limit="two",per="queue",queue="q"}`:              2,
			`spool_limit_running_used{limit="two",queue="q"}`:                     0, // their leases are over
			`spool_limit_running{limit="each",per="tenant",queue="q"}`:            3,
			`spool_limit_rate_per_second{limit="slow",per="queue",queue="q"}`:     0.5,
			`spool_limit_burst{limit="slow",per="queue",queue="q"}`:               30,
			`spool_queue_capacity_jobs{queue="q"}`:                                7,
			`spool_queue_capacity_bytes{queue="q"}`:                               1000,
			`spool_schedule_paused{queue="q",schedule="nightly"}`:                 1,
			`spool_schedule_next_timestamp_seconds{queue="q",schedule="nightly"}`: float64(next.Unix()),
			`spool_workers{}`:                           2,
			`spool_worker_slots{}`:                      7,
			`spool_queue_workers{queue="q"}`:            2,
			`spool_task_workers{queue="q",task="mail"}`: 2,
			`spool_task_workers{queue="q",task="sms"}`:  1,
			`spool_oldest_ready_age_seconds{queue="q"}`: 90,
			`spool_store_info{broker="memory"}`:         1,
		}) {
			v.want(t, name, want)
		}
		v.wantNone(t, `spool_limit_running_used{limit="each"`)
	})
}

// TestNoLabelNamesAPerson: tenants, groups, keys and ids stay out.
func TestNoLabelNamesAPerson(t *testing.T) {
	c := quiet(membroker.New(membroker.Config{}))
	defer c.Close()
	enqueue(t, c, "q", "mail", 1, spool.Tenant("secret"), spool.Group("secret"), spool.Key("secret"))
	v := gather(t, spoolprom.NewCollector(c, fresh))
	if reflect.DeepEqual(v.part("spool_jobs"), values{}) {
		t.Error("nothing was scraped")
	}
	for name := range v {
		if strings.Contains(name, "secret") {
			t.Errorf("%s", name)
		}
	}
}
