package dashboard

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http/httptest"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

var largeJobs = flag.Int("jobs", 20_000, "how many jobs TestPagesOfALargeStore makes")

// TestPagesOfALargeStore prints how long each page takes, and holds that what it
// reads of the store does not grow with it:
// go test -run TestPagesOfALargeStore -v ./server/dashboard -jobs 1000000
func TestPagesOfALargeStore(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	file, err := filebroker.Open(t.TempDir(), filebroker.Config{Sync: filebroker.SyncNever, AllowUnsafeFS: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	b := &counted{Broker: file, t: t}
	c := spool.New(b, spool.Config{Logger: log})
	defer func() { _ = c.Close() }()
	f := newFixture(t, c)
	begun := time.Now()
	fillLarge(f, *largeJobs)
	t.Logf("%d jobs in %v", *largeJobs, time.Since(begun).Round(time.Millisecond))

	d := dashboardOf(t, c, Config{})
	d.lookTime = lookTime
	middle := middleOf(f, "big", broker.Ready, *largeJobs/4)
	some := jobsInPage(f, "big", broker.Dead)
	form := func(q url.Values) url.Values {
		return url.Values{"query": {q.Encode()}, "action": {"delete"}, "scope": {"all"}}
	}
	rare := url.Values{"state": {"ready"}, "tenant": {"nobody"}}
	words := url.Values{"state": {"dead"}, "error": {"no such text"}}
	for _, p := range []struct {
		name string
		ask  func() *httptest.ResponseRecorder
	}{
		{"overview", func() *httptest.ResponseRecorder { return get(t, d, "/") }},
		{"series", func() *httptest.ResponseRecorder { return get(t, d, "/series.json") }},
		{"queues", func() *httptest.ResponseRecorder { return get(t, d, "/queues") }},
		{"jobs, first page", func() *httptest.ResponseRecorder { return get(t, d, "/queues/big/jobs?state=ready") }},
		{"jobs, in the middle", func() *httptest.ResponseRecorder { return get(t, d, "/queues/big/jobs?state=ready&cursor="+middle) }},
		{"jobs of one task", func() *httptest.ResponseRecorder { return get(t, d, "/queues/big/jobs?state=ready&task=t3") }},
		{"jobs of a tenant that has none", func() *httptest.ResponseRecorder { return get(t, d, "/queues/big/jobs?"+rare.Encode()) }},
		{"jobs by a text that no error has", func() *httptest.ResponseRecorder { return get(t, d, "/queues/big/jobs?"+words.Encode()) }},
		{"a job", func() *httptest.ResponseRecorder { return get(t, d, "/queues/big/jobs/"+some.String()) }},
		{"dead letters by cause", func() *httptest.ResponseRecorder { return get(t, d, "/dead") }},
		{"schedules", func() *httptest.ResponseRecorder { return get(t, d, "/schedules") }},
		{"workers", func() *httptest.ResponseRecorder { return get(t, d, "/workers") }},
		{"limits", func() *httptest.ResponseRecorder { return get(t, d, "/limits") }},
		{"find", func() *httptest.ResponseRecorder { return get(t, d, "/find?q="+some.String()) }},
		{"preview of all", func() *httptest.ResponseRecorder {
			return post(t, d, "/queues/big/preview", form(url.Values{"state": {"dead"}}))
		}},
		{"preview of a filter, a step", func() *httptest.ResponseRecorder { return post(t, d, "/queues/big/preview", form(words)) }},
	} {
		timesOf(t, b, d, p.name, p.ask)
	}
}

// timesOf asks for a page often, and prints how long it took.
func timesOf(t *testing.T, b *counted, d *Dashboard, name string, ask func() *httptest.ResponseRecorder) {
	t.Helper()
	const often = 40
	var took []time.Duration
	var most int64
	size := 0
	for range often {
		d.snap.forget()
		before, jobs, begun := b.lists.Load(), b.jobs.Load(), time.Now()
		w := ask()
		took = append(took, time.Since(begun))
		if w.Code >= 400 {
			t.Fatalf("%s: status %d: %s", name, w.Code, w.Body)
		}
		most, size = max(most, b.lists.Load()-before), w.Body.Len()
		if n := b.jobs.Load() - jobs; n > lookCalls*lookStep {
			t.Errorf("%s: %d jobs were read", name, n)
		}
	}
	if most > lookCalls+5 {
		t.Errorf("%s: the store was asked for %d lists", name, most)
	}
	slices.Sort(took)
	us := time.Microsecond
	t.Logf("%-34s p50 %9v  p95 %9v  most %9v  %3d lists  %4d KiB", name, took[often/2].Round(us), took[often*95/100].Round(us), took[often-1].Round(us), most, size>>10)
}

// fillLarge makes n jobs: one in five dead, one in ten done, one in ten scheduled.
func fillLarge(f *fixture, n int) {
	f.Helper()
	f.configure("big", broker.Change{Set: []broker.Setting{{Kind: broker.RetentionSetting, Retention: &broker.Retention{Done: time.Hour}}}})
	job := func(i int) broker.NewJob {
		return broker.NewJob{Tenant: tenants[i%5], Payload: fmt.Appendf(nil, `{"to":"%s@example.com","order":%d}`, people[i%10], i)}
	}
	f.many("big", "failing", n/5, job)
	f.bury("big", "failing", n/5, func(i int) string { return fmt.Sprintf("upstream %d: timeout after %dms", i%7, i) })
	f.many("big", "working", n/10, job)
	for left := n / 10; left > 0; {
		leases := f.claim("w", "big", "working", min(left, 1000))
		f.settle(leases, func(int) broker.Settlement { return broker.Settlement{Kind: broker.Ack} })
		left -= len(leases)
	}
	f.many("big", "later", n/10, func(i int) broker.NewJob {
		j := job(i)
		j.Delay = time.Hour + time.Duration(i)*time.Second
		return j
	})
	for i := range 4 {
		f.many("big", fmt.Sprintf("t%d", i), (n-n/5-2*(n/10))/4, job)
	}
}

// middleOf is the cursor after n jobs.
func middleOf(f *fixture, queue string, s broker.State, n int) (cursor string) {
	f.Helper()
	for n > 0 {
		page, err := f.b.List(f.ctx, broker.Filter{Queue: queue, States: []broker.State{s}}, cursor, min(n, broker.MaxPageJobs))
		f.must(err)
		cursor, n = page.Cursor, n-len(page.Jobs)
	}
	return cursor
}

func jobsInPage(f *fixture, queue string, s broker.State) broker.ID {
	f.Helper()
	page, err := f.b.List(f.ctx, broker.Filter{Queue: queue, States: []broker.State{s}}, "", 1)
	f.must(err)
	return page.Jobs[0].ID
}
