package dashboard

import (
	"context"
	"fmt"
	"html"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// linked finds what a page leads to by GET.
var linked = regexp.MustCompile(`(?:href|src)="([^"]*)"`)

// crawl follows all links of a dashboard as a browser does, up to a number of
// pages, and hands each answer on.
func crawl(t testing.TB, h http.Handler, start string, most int, each func(at string, w *httptest.ResponseRecorder)) (seen []string) {
	t.Helper()
	known, todo := map[string]bool{start: true}, []string{start}
	for len(todo) > 0 && len(seen) < most {
		at := todo[0]
		todo = todo[1:]
		seen = append(seen, at)
		w := get(t, h, at)
		each(at, w)
		base, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		var refs []string
		if to := w.Header().Get("Location"); to != "" {
			refs = append(refs, to)
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
			for _, m := range linked.FindAllStringSubmatch(w.Body.String(), -1) {
				refs = append(refs, html.UnescapeString(m[1]))
			}
		}
		for _, ref := range refs {
			to, err := base.Parse(ref)
			if err != nil {
				t.Errorf("%s: the link %q is none: %v", at, ref, err)
				continue
			}
			if to.Host != "" || to.Scheme != "" {
				t.Errorf("%s leads away, to %s", at, ref)
			}
			to.Fragment = ""
			if s := to.String(); !known[s] {
				known[s] = true
				todo = append(todo, s)
			}
		}
	}
	return seen
}

// well fails the test when an answer is not as every answer has to be.
func well(t testing.TB, at string, w *httptest.ResponseRecorder) {
	t.Helper()
	if w.Code >= 400 {
		t.Errorf("%s: status %d: %.300s", at, w.Code, w.Body)
	}
	h := w.Header()
	for name, want := range map[string]string{"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer"} {
		if h.Get(name) != want {
			t.Errorf("%s: %s is %q", at, name, h.Get(name))
		}
	}
	if !strings.HasPrefix(h.Get("Content-Type"), "text/html") {
		return
	}
	body := w.Body.String()
	if !utf8.ValidString(body) {
		t.Errorf("%s is no UTF-8", at)
	}
	if w.Body.Len() > 1<<20 {
		t.Errorf("%s has %d bytes", at, w.Body.Len())
	}
	if i := strings.IndexFunc(body, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f || r == 0x2028 || r == 0x202e }); i >= 0 {
		t.Errorf("%s has the raw character %q", at, body[i:i+3])
	}
	if m := inline.FindString(body); m != "" {
		t.Errorf("%s has inline style or script: %s", at, m)
	}
}

// inline is what the policy does not allow in a page.
var inline = regexp.MustCompile(`<[^>]* (?:style|on[a-z]+)="[^"]*"|<style|<script>|<script [^>]*>[^<]`)

// stores are what pages have to get along with.
var stores = []struct {
	name string
	fill func(testing.TB, *spool.Client)
}{
	{"fresh", func(testing.TB, *spool.Client) {}},
	{"with one job", func(t testing.TB, c *spool.Client) {
		newFixture(t, c).enqueue("one", broker.NewJob{Task: "only"})
	}},
	{"with a queue whose jobs are gone", func(t testing.TB, c *spool.Client) {
		f := newFixture(t, c)
		f.enqueue("gone", broker.NewJob{Task: "only"})
		_, err := c.Delete(f.ctx, spool.Filter{})
		f.must(err)
	}},
	{"in the middle of a day", realistic},
	{"full of hostile texts", poison},
}

func TestEveryLinkLeadsToAPage(t *testing.T) {
	for _, store := range stores {
		t.Run("in a store "+store.name, func(t *testing.T) {
			b, c := countedOn(t)
			store.fill(t, c)
			d := dashboardOf(t, c, Config{PageSize: 10})
			b.frozen.Store(true) // no GET changes anything
			n := crawl(t, d, "/", 250, func(at string, w *httptest.ResponseRecorder) { well(t, at, w) })
			b.frozen.Store(false)
			if len(n) < 9 {
				t.Errorf("only %d pages were found", len(n))
			}
		})
	}
}

// TestItServesUnderAPrefix: whether what is in front strips the prefix or keeps it.
func TestItServesUnderAPrefix(t *testing.T) {
	c := quiet(t)
	realistic(t, c)
	kept := dashboardOf(t, c, Config{Prefix: "/ops/q", PageSize: 5})
	plain := dashboardOf(t, c, Config{PageSize: 5})
	mux := http.NewServeMux()
	mux.Handle("/ops/q/", kept)
	stripped := http.NewServeMux()
	stripped.Handle("/ops/q/", http.StripPrefix("/ops/q", plain))
	for _, x := range []struct {
		name string
		h    http.Handler
	}{
		{"that it is told of", mux},
		{"that is stripped", stripped},
		{"that it is told of and that is stripped, too", http.StripPrefix("/ops/q", kept)},
		{"that is stripped without the slash", http.StripPrefix("/ops/q/", slashed(plain))},
	} {
		t.Run(x.name, func(t *testing.T) {
			for _, at := range crawl(t, x.h, "/ops/q/", 100, func(at string, w *httptest.ResponseRecorder) { well(t, at, w) }) {
				if !strings.HasPrefix(at, "/ops/q/") {
					t.Errorf("a link leads out, to %s", at)
				}
			}
			w := post(t, x.h, "/ops/q/queues/emails/pause", nil)
			if to, err := url.Parse("/ops/q/queues/emails/pause"); err != nil || w.Code != http.StatusSeeOther {
				t.Errorf("status %d, %v", w.Code, err)
			} else if to, err = to.Parse(w.Header().Get("Location")); err != nil || to.Path != "/ops/q/queues" {
				t.Errorf("after an action it leads to %v, %v", to, err)
			}
		})
	}
	for name, h := range map[string]http.Handler{"kept": kept, "stripped": http.StripPrefix("/ops/q", plain)} {
		w := get(t, h, "/ops/q")
		to, err := url.Parse("/ops/q")
		if err == nil {
			to, err = to.Parse(w.Header().Get("Location"))
		}
		if err != nil || to.Path != "/ops/q/" {
			t.Errorf("%s: without the slash it leads to %v, %v (status %d)", name, to, err, w.Code)
		}
	}
}

// slashed puts the slash back that a careless StripPrefix takes.
func slashed(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.Path = "/" + r.URL.Path
		h.ServeHTTP(w, r)
	})
}

// tagsOf lists the elements of a page and the names of their attributes.
func tagsOf(t testing.TB, page string) (tags []string) {
	t.Helper()
	for rest := page; ; {
		i := strings.IndexByte(rest, '<')
		if i < 0 {
			return tags
		}
		rest = rest[i+1:]
		n := strings.IndexAny(rest, " >")
		if n < 0 {
			t.Fatalf("a tag does not end: %.60q", rest)
		}
		tag := rest[:n]
		for rest = rest[n:]; rest[0] != '>'; {
			rest = strings.TrimLeft(rest, " ")
			n := strings.IndexAny(rest, "= >")
			if n < 0 {
				t.Fatalf("an attribute does not end: %.60q", rest)
			}
			tag += " " + rest[:n]
			if rest = rest[n:]; rest[0] == '=' {
				_, after, ok := strings.Cut(rest[2:], rest[1:2])
				if !ok || rest[1] != '"' {
					t.Fatalf("a value has no quotes: %.60q", rest)
				}
				rest = after
			}
		}
		tags = append(tags, tag)
	}
}

// TestTextsMakeNoMarkup: pages of hostile texts have the very elements and
// attributes that pages of harmless ones have.
func TestTextsMakeNoMarkup(t *testing.T) {
	plain := make([]string, len(hostile))
	for i := range plain {
		plain[i] = "plain " + string(rune('a'+i))
	}
	bad, good := quiet(t), quiet(t)
	poison(t, bad)
	poisonWith(t, good, plain)
	hurt, fine := dashboardOf(t, bad, Config{Title: hostile[0], PageSize: 100}), dashboardOf(t, good, Config{Title: "plain", PageSize: 100})
	same := func(name, a, b string) {
		t.Helper()
		want, got := tagsOf(t, get(t, fine, a).Body.String()), tagsOf(t, get(t, hurt, b).Body.String())
		if !slices.Equal(want, got) {
			t.Errorf("%s: %s", name, firstDifference(want, got))
		}
	}
	for _, place := range []string{"/", "/queues", "/dead", "/schedules", "/workers", "/limits"} {
		same(place, place, place)
	}
	for _, s := range broker.States {
		same(s.String(), "/queues/poison/jobs?state="+s.String(), "/queues/poison/jobs?state="+s.String())
		a, b := jobsIn(t, good, "poison", s), jobsIn(t, bad, "poison", s)
		if len(a) != len(b) || len(a) == 0 {
			t.Fatalf("%d and %d jobs are %s", len(a), len(b), s)
		}
		for i := range a {
			same(fmt.Sprintf("the job of %q, %s", hostile[i%len(hostile)], s), "/queues/poison/jobs/"+a[i].String(), "/queues/poison/jobs/"+b[i].String())
		}
	}
	hurt, fine = dashboardOf(t, bad, Config{PageSize: 1}), dashboardOf(t, good, Config{PageSize: 1})
	for i, h := range hostile {
		for place, fields := range map[string][]string{
			"/queues/poison/jobs?state=ready&": {"task", "tenant", "group", "key", "error", "cause", "id", "older", "newer", "cursor"},
			"/dead?":                           {"queue", "scan", "step", "state"},
			"/limits?":                         {"did", "n", "state"},
		} {
			for _, field := range fields {
				same(fmt.Sprintf("%s with %s=%q", place, field, h), place+url.Values{field: {plain[i]}}.Encode(), place+url.Values{field: {h}}.Encode())
			}
		}
		for _, place := range []string{"/queues/%s/jobs", "/queues/poison/jobs/%s", "/%s", "/find?q=%s"} {
			same(fmt.Sprintf("%s of %q", place, h), fmt.Sprintf(place, url.PathEscape("x!"+plain[i])), fmt.Sprintf(place, url.PathEscape("x!"+h)))
		}
	}
}

// renamed is a broker that tells other names of queues, tasks and settings than
// the store has, as no broker should.
type renamed struct {
	broker.Broker
	name string
}

func (b renamed) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	all, err := b.Broker.Counts(ctx, queue)
	for i := range all {
		all[i].Queue, all[i].Task, all[i].Moving = b.name, b.name, b.name
	}
	return all, err
}

func (b renamed) List(ctx context.Context, f broker.Filter, cursor string, n int) (broker.Page, error) {
	f.Queue = "poison"
	p, err := b.Broker.List(ctx, f, cursor, n)
	for i := range p.Jobs {
		p.Jobs[i].Queue, p.Jobs[i].Task, p.Jobs[i].Reason = b.name, b.name, b.name
	}
	return p, err
}

func (b renamed) Get(ctx context.Context, refs []broker.Ref) ([]broker.Job, error) {
	jobs, err := b.Broker.Get(ctx, refs)
	for i := range jobs {
		jobs[i].Queue, jobs[i].Task, jobs[i].Reason, jobs[i].Worker = b.name, b.name, b.name, b.name
	}
	return jobs, err
}

func (b renamed) Explain(ctx context.Context, r broker.Ref) (broker.Explanation, error) {
	return broker.Explanation{Reason: b.name, Text: b.name, Worker: b.name, Limit: b.name, Holders: []broker.Ref{{Queue: b.name, ID: r.ID}}}, nil
}

func (b renamed) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	all, err := b.Broker.Settings(ctx, queue)
	for i := range all {
		all[i].Queue, all[i].Name, all[i].Owner = b.name, b.name, b.name
	}
	return all, err
}

func (b renamed) Health(context.Context) (broker.Health, error) {
	return broker.Health{Status: broker.HealthStatus(b.name), Text: b.name, Detail: b.name}, nil
}

func (b renamed) Caps() broker.Caps {
	return broker.Caps{Broker: b.name, Durability: b.name}
}

// TestNamesMakeNoMarkup: those that a broker checks are no different from others.
func TestNamesMakeNoMarkup(t *testing.T) {
	c := quiet(t)
	poison(t, c)
	dead := jobsIn(t, c, "poison", broker.Dead)[0].String()
	pages := func(name string) map[string][]string {
		tags := map[string][]string{}
		other := spool.New(renamed{c.Broker(), name}, spool.Config{})
		d := dashboardOf(t, other, Config{PageSize: 20})
		for _, place := range []string{"/", "/queues", "/schedules", "/workers", "/limits", "/queues/poison/jobs?state=dead", "/queues/poison/jobs?state=ready", "/queues/poison/jobs/" + dead} {
			w := get(t, d, place)
			well(t, place, w)
			tags[place] = tagsOf(t, w.Body.String())
		}
		return tags
	}
	want := pages("plain")
	for _, h := range hostile {
		for place, got := range pages(h) {
			if !slices.Equal(got, want[place]) {
				t.Errorf("%s with %q: %s", place, h, firstDifference(want[place], got))
			}
		}
	}
}

// TestRandomStores: whatever was done to a store, every page of it is there.
func TestRandomStores(t *testing.T) {
	for seed := range uint64(4) {
		t.Run(fmt.Sprintf("of seed %d", seed), func(t *testing.T) {
			c := quiet(t)
			f := newFixture(t, c)
			f.rnd = rand.New(rand.NewPCG(seed, 7))
			for range 150 {
				f.something(c)
			}
			d := dashboardOf(t, c, Config{PageSize: 3})
			crawl(t, d, "/", 100, func(at string, w *httptest.ResponseRecorder) { well(t, at, w) })
		})
	}
}

// something does one thing to the store.
func (f *fixture) something(c *spool.Client) {
	f.Helper()
	queue, task := fmt.Sprintf("q%d", f.rnd.IntN(3)), fmt.Sprintf("t%d", f.rnd.IntN(3))
	text := hostile[f.rnd.IntN(len(hostile))]
	switch f.rnd.IntN(10) {
	case 0, 1, 2:
		job := broker.NewJob{Task: task, Tenant: text, Payload: []byte(text), Delay: time.Duration(f.rnd.IntN(2)) * time.Hour, Retain: time.Hour, MaxAttempts: 1 + f.rnd.IntN(3)}
		f.enqueue(queue, job)
	case 3:
		whole := broker.NewID()
		f.enqueue(queue, broker.NewJob{ID: whole, Task: task, BatchSize: 2}, broker.NewJob{Task: task, Batch: whole}, broker.NewJob{Task: task, Batch: whole, BatchOrdinal: 1})
	case 4, 5, 6:
		kind := []broker.SettleKind{broker.Ack, broker.Nack, broker.Snooze, broker.Release, broker.Bury, broker.Cancel}[f.rnd.IntN(6)]
		f.settle(f.claim(text, queue, task, 2), func(int) broker.Settlement { return broker.Settlement{Kind: kind, Error: text} })
	case 7:
		f.claim(text, queue, task, 1)
	case 8:
		f.must(errOf(c.Cancel(f.ctx, spool.Filter{Queue: queue, Task: task})))
	case 9:
		if f.rnd.IntN(2) == 0 {
			f.must(c.Pause(f.ctx, queue))
		} else {
			f.must(errOf(c.Delete(f.ctx, spool.Filter{Queue: queue, States: []broker.State{broker.Dead}})))
		}
	}
}

func firstDifference(a, b []string) string {
	for i := range min(len(a), len(b)) {
		if a[i] != b[i] {
			return fmt.Sprintf("element %d is <%s>, want <%s>", i, b[i], a[i])
		}
	}
	return fmt.Sprintf("%d elements, want %d", len(b), len(a))
}

func jobsIn(t testing.TB, c *spool.Client, queue string, s broker.State) (ids []broker.ID) {
	t.Helper()
	for j, err := range c.List(t.Context(), spool.Filter{Queue: queue, States: []broker.State{s}}) {
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, j.ID)
	}
	return ids
}
