package dashboard

import (
	"context"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// nextPage finds the way on from a list.
func nextPage(page string) string {
	m := regexp.MustCompile(`id="next"[^>]* href="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		return ""
	}
	return "/" + strings.TrimLeft(html.UnescapeString(m[1]), "./")
}

// TestPagesShowEveryJobOnce: by cursor, with the number that the tab says.
func TestPagesShowEveryJobOnce(t *testing.T) {
	b, c := countedOn(t)
	f := newFixture(t, c)
	f.many("q", "t", 3210, func(i int) broker.NewJob { return broker.NewJob{Tenant: fmt.Sprintf("t%d", i%4)} })
	d := dashboardOf(t, c, Config{PageSize: 200})
	for _, x := range []struct {
		query, heading string
		want           int
	}{{"state=ready", `<span class="n">3,210</span>`, 3210}, {"state=ready&tenant=t2", `<span class="n">3,210</span>`, 802}} {
		seen := map[string]bool{}
		for at := "/queues/q/jobs?" + x.query; at != ""; {
			before := b.jobs.Load()
			page := f.page(d, at)
			if !strings.Contains(page, x.heading) {
				t.Errorf("%s: the tab does not say %s", at, x.heading)
			}
			if n := b.jobs.Load() - before; n > 200 {
				t.Errorf("%s: %d jobs were read for a page of 200", at, n)
			}
			for _, m := range regexp.MustCompile(`<span class="id">([^<]*)</span>`).FindAllStringSubmatch(page, -1) {
				if seen[m[1]] {
					t.Errorf("%s shows job %s again", at, m[1])
				}
				seen[m[1]] = true
			}
			at = nextPage(page)
		}
		if len(seen) != x.want {
			t.Errorf("%s: %d jobs were seen, want %d", x.query, len(seen), x.want)
		}
	}
}

// TestASelectiveFilterSaysHowFarItGot: it stops, and goes on where it stopped.
func TestASelectiveFilterSaysHowFarItGot(t *testing.T) {
	b, c := countedOn(t)
	f := newFixture(t, c)
	f.many("q", "t", 22_000, func(i int) broker.NewJob { return broker.NewJob{} })
	f.bury("q", "t", 22_000, func(i int) string { return "boom" })
	f.many("q", "t", 1, func(i int) broker.NewJob { return broker.NewJob{} })
	f.bury("q", "t", 1, func(i int) string { return "the needle" })
	d := dashboardOf(t, c, Config{})
	pages, at := 0, "/queues/q/jobs?state=dead&error=needle"
	for ; at != ""; pages++ {
		before := b.lists.Load()
		page := f.page(d, at)
		if n := b.lists.Load() - before; n > lookCalls {
			t.Errorf("%s: the store was asked %d times", at, n)
		}
		at = nextPage(page)
		if at != "" && !regexp.MustCompile(`Looked at [1-9][0-9,]* of 22,001\.`).MatchString(page) {
			t.Errorf("it does not say how far it got: %s", page)
		}
		if at == "" && !strings.Contains(page, "the needle") {
			t.Errorf("it is not found: %s", page)
		}
	}
	if pages < 2 {
		t.Errorf("%d pages", pages)
	}
	before := b.lists.Load()
	page := f.page(d, "/queues/q/jobs?state=dead&tenant=nobody")
	if n := b.lists.Load() - before; n > lookSkips || !strings.Contains(page, "No dead job matches.") {
		t.Errorf("by tenant: the store was asked %d times: %s", n, page)
	}
}

// large is a broker whose lists are of jobs of 1 MiB.
type large struct {
	broker.Broker
	bytes int64
}

func (b *large) List(_ context.Context, f broker.Filter, cursor string, n int) (p broker.Page, err error) {
	at := 0
	if cursor != "" {
		_, err = fmt.Sscan(cursor, &at)
	}
	for ; len(p.Jobs) < n && at < 1000; at++ {
		b.bytes += 1 << 20
		p.Jobs = append(p.Jobs, broker.Job{Queue: f.Queue, ID: broker.NewID(), Task: "t", State: f.States[0], Payload: make([]byte, 1<<20), Error: strings.Repeat("e", broker.MaxErrorBytes)})
	}
	if at < 1000 {
		p.Cursor = fmt.Sprint(at)
	}
	return p, err
}

// TestListsOfLargeJobsAreSmall: 1,000 jobs of 1 MiB.
func TestListsOfLargeJobsAreSmall(t *testing.T) {
	c := quiet(t)
	b := &large{Broker: c.Broker()}
	d := dashboardOf(t, c, Config{PageSize: 200})
	d.broker = b
	f := newFixture(t, c)
	f.enqueue("q", broker.NewJob{Task: "t"})
	for _, place := range []string{"/queues/q/jobs?state=ready", "/queues/q/jobs?state=dead&error=e", "/queues/q/jobs?state=dead&cause=none", "/dead?queue=q"} {
		b.bytes = 0
		page := f.page(d, place)
		if len(page) > 1<<20 {
			t.Errorf("%s: a page of %d bytes", place, len(page))
		}
		if b.bytes > 3*lookBytes {
			t.Errorf("%s: %d bytes of payloads were read", place, b.bytes)
		}
	}
}

// TestOneLargeJobIsShownInPart: and downloaded as it is.
func TestOneLargeJobIsShownInPart(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	for name, payload := range map[string][]byte{
		"text":           []byte(strings.Repeat("é", 1<<19)),
		"JSON of a line": append(append([]byte(`{"a":"`), strings.Repeat("b", 5<<20)...), `"}`...),
		"lines of JSON":  []byte("[" + strings.Repeat("0,\n", 5000) + "0]"),
		"deep JSON":      []byte(strings.Repeat("[", 30_000) + strings.Repeat("]", 30_000)),
		"bytes":          []byte(strings.Repeat("\xcb)\n\x00", 1<<20)),
		"controls":       []byte(strings.Repeat("\x01\x02 line\n", 3000)),
	} {
		t.Run(name, func(t *testing.T) {
			id := f.enqueue("q", broker.NewJob{Task: "t", Payload: payload})[0]
			d := dashboardOf(t, c, Config{})
			w := get(t, d, "/queues/q/jobs/"+id.String())
			well(t, name, w)
			w = get(t, d, "/queues/q/jobs/"+id.String()+"/payload")
			if w.Body.String() != string(payload) {
				t.Error("the download has other bytes")
			}
			if h := w.Header(); h.Get("Content-Type") != "application/octet-stream" || !strings.HasPrefix(h.Get("Content-Disposition"), "attachment") {
				t.Errorf("it is served as %q, %q", h.Get("Content-Type"), h.Get("Content-Disposition"))
			}
		})
	}
}

// TestDeadLettersAreGroupedByCause: in steps, each on once.
func TestDeadLettersAreGroupedByCause(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	const n = 24_000
	f.many("q", "t", n, func(i int) broker.NewJob { return broker.NewJob{} })
	f.bury("q", "t", n, func(i int) string {
		return fmt.Sprintf("line %d: %s", i, []string{"no such host", "timeout", "timeout"}[i%3])
	})
	d := dashboardOf(t, c, Config{})
	steps := 0
	page := ""
	for at := "/dead"; at != ""; at = nextPage(page) {
		page = f.page(d, at)
		if steps++; steps > 100 {
			t.Fatal("it does not end")
		}
		if again := f.page(d, at); steps > 1 && nextPage(again) != nextPage(page) {
			t.Error("a page that is loaded again counts twice")
		}
	}
	for _, want := range []string{"All 24,000 dead letters of q", ">line #: timeout<", ">16,000<", ">line #: no such host<", ">8,000<"} {
		if !strings.Contains(page, want) {
			t.Errorf("after %d steps the page lacks %q: %s", steps, want, page)
		}
	}
	list := f.page(d, "/queues/q/jobs?"+url.Values{"state": {"dead"}, "task": {"t"}, "cause": {"line #: timeout"}}.Encode())
	if strings.Contains(list, "no such host") || !strings.Contains(list, ": timeout") {
		t.Error("the list of a cause shows others")
	}
	if w := get(t, d, "/dead?queue=q&scan=unknown&step=7"); w.Code != http.StatusOK {
		t.Errorf("a scan that is forgotten: status %d", w.Code)
	}
}

func TestFindLeadsToWhatIsNamed(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	id := f.enqueue("q", broker.NewJob{Task: "some_task", Delay: time.Hour})[0]
	d := dashboardOf(t, c, Config{})
	for text, want := range map[string]string{
		id.String():                      "./queues/q/jobs/" + id.String(),
		" " + id.String() + " ":          "./queues/q/jobs/" + id.String(),
		strings.ToUpper(id.String()):     "./queues/q/jobs/" + id.String(),
		"q":                              "./queues/q/jobs?",
		"some_task":                      "./queues/q/jobs?task=some_task",
		broker.NewID().String():          "",
		"nothing":                        "",
		"":                               "",
		"'; DROP TABLE jobs; --\x00\xff": "",
	} {
		w := get(t, d, "/find?q="+url.QueryEscape(text))
		if got := w.Header().Get("Location"); got != want || want == "" && w.Code != http.StatusNotFound {
			t.Errorf("%q leads to %q, status %d; want %q", text, got, w.Code, want)
		}
	}
}
