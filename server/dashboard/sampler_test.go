package dashboard

import (
	"context"
	"encoding/json"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// UnmarshalJSON reads what MarshalJSON writes.
func (n *num) UnmarshalJSON(b []byte) error {
	if string(b) == "null" {
		*n = num(math.NaN())
		return nil
	}
	return json.Unmarshal(b, (*float64)(n))
}

func chartOf(t *testing.T, d *Dashboard, query string) (c chart) {
	t.Helper()
	w := get(t, d, "/series.json"+query)
	if w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("status %d, %s", w.Code, w.Header().Get("Content-Type"))
	}
	if err := json.Unmarshal(w.Body.Bytes(), &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// TestChartsShowWhatHappened: 3 jobs a second come, each runs for half a second,
// one in three fails.
func TestChartsShowWhatHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quiet(t)
		f := newFixture(t, c)
		d := dashboardOf(t, c, Config{})
		if got := chartOf(t, d, ""); len(got.T) != 1 || !math.IsNaN(float64(got.Enqueued[0])) {
			t.Errorf("at first there is %v", got)
		}
		for range 60 {
			f.many("q", "t", 3, func(int) broker.NewJob { return broker.NewJob{} })
			leases := f.claim("w", "q", "t", 3)
			time.Sleep(500 * time.Millisecond)
			f.settle(leases, func(i int) broker.Settlement {
				if i == 0 {
					return broker.Settlement{Kind: broker.Bury, Error: "boom"}
				}
				return broker.Settlement{Kind: broker.Ack}
			})
			time.Sleep(500 * time.Millisecond)
		}
		f.enqueue("q", broker.NewJob{Task: "other"})
		time.Sleep(7 * time.Second)
		got := chartOf(t, d, "")
		if got.Every != 2000 || len(got.T) != 34 {
			t.Fatalf("%d samples, one each %d ms", len(got.T), got.Every)
		}
		for i := 5; i < 28; i++ {
			if math.Abs(float64(got.Enqueued[i])-3) > 1.6 || math.Abs(float64(got.Acked[i])-2) > 1.1 || math.Abs(float64(got.Failed[i])-1) > .6 {
				t.Errorf("sample %d: %v enqueued, %v acked, %v failed a second", i, got.Enqueued[i], got.Acked[i], got.Failed[i])
			}
		}
		last := len(got.T) - 1
		if got.Ready[last] != 1 || got.Dead[last] != 60 || got.Wait[last] < 5 || got.Wait[last] > 7 {
			t.Errorf("at last %d are ready, %d dead, one waits for %v s", got.Ready[last], got.Dead[last], got.Wait[last])
		}
		if more := chartOf(t, d, "?since="+jsonText(got.T[last-1])); len(more.T) != 1 || more.T[0] != got.T[last] || more.Enqueued[0] != got.Enqueued[last] {
			t.Errorf("what came since is %v", more.T)
		}
		if page := f.page(d, "/"); !strings.Contains(page, `<span class="bad">60</span> of 180<span class="sub">in 1m7s</span>`) {
			t.Errorf("the overview does not name the failing task: %s", page)
		}
	})
}

func jsonText(v any) string { return string(asJSON(v)) }

// TestTheRingsAreBounded: a quarter of an hour and a day are kept, no more.
func TestTheRingsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := dashboardOf(t, quiet(t), Config{})
		chartOf(t, d, "")
		time.Sleep(26 * time.Hour)
		recent, day := chartOf(t, d, ""), chartOf(t, d, "?window=day")
		if len(recent.T) != recentKept || recent.Now-recent.T[0] > 15*60*1000 {
			t.Errorf("%d close samples, the first %d ms ago", len(recent.T), recent.Now-recent.T[0])
		}
		if len(day.T) != minutesKept || day.Every != 60_000 || day.Now-day.T[0] > 24*3600*1000 {
			t.Errorf("%d samples of minutes, the first %d ms ago", len(day.T), day.Now-day.T[0])
		}
		if n := len(d.series.recent.kept); n > 2*recentKept {
			t.Errorf("%d samples are held", n)
		}
		if n := len(d.series.marks); n > marksKept+1 {
			t.Errorf("%d marks are held", n)
		}
	})
}

// TestViewersShareOneSampler: the store is asked as often for 200 as for one.
func TestViewersShareOneSampler(t *testing.T) {
	reads := func(viewers int) (n int64) {
		synctest.Test(t, func(t *testing.T) {
			b, c := countedOn(t)
			f := newFixture(t, c)
			f.enqueue("q", broker.NewJob{Task: "t"})
			d := dashboardOf(t, c, Config{})
			f.page(d, "/")
			time.Sleep(500 * time.Millisecond) // between the ticks of the sampler
			for range 10 {
				for range viewers {
					f.page(d, "/")
					chartOf(t, d, "")
				}
				time.Sleep(2 * time.Second)
			}
			n = b.reads.Load()
		})
		return n
	}
	one, many := reads(1), reads(200)
	if one == 0 || many != one {
		t.Errorf("%d reads for one viewer, %d for 200", one, many)
	}
}

// TestCloseEndsTheSampler: the bubble ends only when it has.
func TestCloseEndsTheSampler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, c := countedOn(t)
		d := dashboardOf(t, c, Config{})
		time.Sleep(time.Minute)
		if n := b.reads.Load(); n != 0 {
			t.Errorf("%d reads before anybody looks", n)
		}
		get(t, d, "/")
		if err := d.Close(); err != nil {
			t.Error(err)
		}
		before := b.reads.Load()
		time.Sleep(time.Minute)
		if n := b.reads.Load(); n != before {
			t.Errorf("%d reads after Close", n-before)
		}
		if w := get(t, d, "/"); w.Code != 200 {
			t.Errorf("a page after Close: status %d", w.Code)
		}
	})
}

// TestAStoreThatIsClosedIsSaidSo: pages answer, with what is wrong.
func TestAStoreThatIsClosedIsSaidSo(t *testing.T) {
	c := quiet(t)
	d := dashboardOf(t, c, Config{})
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	for _, place := range []string{"/", "/queues", "/queues/q/jobs", "/queues/q/jobs/" + broker.NewID().String(), "/dead", "/workers", "/schedules", "/limits"} {
		w := get(t, d, place)
		if w.Code != 503 || !strings.Contains(w.Body.String(), "closed") {
			t.Errorf("%s: status %d", place, w.Code)
		}
	}
}

// sick is a broker whose disk has failed: it answers, and says so.
type sick struct{ broker.Broker }

func (sick) Health(context.Context) (broker.Health, error) {
	return broker.Health{Status: broker.Poisoned, Text: "write of 00000001.log failed: <input/output> error"}, nil
}

// TestEveryPageSaysThatTheStoreIsSick: whatever page an operator has open.
func TestEveryPageSaysThatTheStoreIsSick(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	id := f.enqueue("q", broker.NewJob{Task: "t"})[0].String()
	ill := spool.New(sick{c.Broker()}, spool.Config{})
	for _, place := range []string{"/", "/queues", "/queues/q/jobs", "/queues/q/jobs/" + id, "/dead", "/workers", "/schedules", "/limits"} {
		page := f.page(dashboardOf(t, ill, Config{}), place)
		if !strings.Contains(page, `role="alert"`) || !strings.Contains(page, "The store is poisoned.") || !strings.Contains(page, "&lt;input/output&gt;") {
			t.Errorf("%s does not say it", place)
		}
	}
}

// TestWorkersThatAreGone: a worker with three jobs is killed.
func TestWorkersThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quiet(t)
		f := newFixture(t, c)
		f.many("q", "t", 3, func(int) broker.NewJob { return broker.NewJob{} })
		w := broker.Worker{ID: "w1", Name: "painter", Host: "studio", PID: 7, Tasks: []string{"t"}, Concurrency: 4}
		_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Worker: w, TTL: 30 * time.Second})
		f.must(err)
		_, err = f.b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 3, TTL: 30 * time.Second, Worker: "w1", Remote: true})
		f.must(err)
		d := dashboardOf(t, c, Config{})
		page := f.page(d, "/workers")
		for _, want := range []string{">painter<", "studio, process 7", "3 of 4 slots", "in 30s"} {
			if !strings.Contains(page, want) {
				t.Errorf("while it runs the page lacks %q", want)
			}
		}
		if n := strings.Count(page, `class="open"`); n != 3 || strings.Contains(page, "no heartbeat") {
			t.Errorf("while it runs it has %d jobs", n)
		}
		_, err = f.b.Extend(f.ctx, broker.ExtendRequest{Worker: w, Leaving: true})
		f.must(err)
		time.Sleep(20 * time.Second)
		page = f.page(d, "/workers")
		if !strings.Contains(page, "no heartbeat") || strings.Count(page, "in 10s") != 3 || !strings.Contains(page, "No worker is registered") {
			t.Errorf("after its death the page does not mark its jobs: %s", page)
		}
		time.Sleep(15 * time.Second)
		_, err = f.b.Maintain(f.ctx)
		f.must(err)
		if page = f.page(d, "/workers"); strings.Contains(page, "no heartbeat") || strings.Contains(page, `class="open"`) {
			t.Errorf("after the lease it is still there: %s", page)
		}
	})
}

// TestALeaseThatEndedIsMarked: by a store that has not swept it yet.
func TestALeaseThatEndedIsMarked(t *testing.T) {
	job := broker.Job{Queue: "q", ID: broker.NewID(), Task: "t", State: broker.Leased, Worker: "w1", ClaimedAt: now().Add(-time.Minute), LeaseExpiresAt: now().Add(-5 * time.Second)}
	var b workersBody
	b.share([]broker.Job{job, {Queue: "q", ID: broker.NewID(), Task: "t", State: broker.Leased}}, map[string]int{})
	if len(b.Gone) != 2 || !b.Gone[0].Runs[0].Over || b.Gone[1].Name != "(no name)" {
		t.Errorf("got %+v", b.Gone)
	}
	life := lifeOf(&job, "w1", now())
	if last := life[len(life)-1]; last.Name != "lease ended" || !last.Bad {
		t.Errorf("the timeline ends with %+v", last)
	}
}
