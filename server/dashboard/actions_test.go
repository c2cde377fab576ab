package dashboard

import (
	"bytes"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// inPath fills in the names of a route's path.
func inPath(path string, id broker.ID) string {
	return strings.NewReplacer("{queue}", "emails", "{id}", id.String(), "{name}", "digest", "{$}", "").Replace(path)
}

// TestOnlyPostsOfItsOwnPagesChangeAnything walks the table of routes.
func TestOnlyPostsOfItsOwnPagesChangeAnything(t *testing.T) {
	b, c := countedOn(t)
	realistic(t, c)
	d := dashboardOf(t, c, Config{})
	id := jobsIn(t, c, "emails", broker.Dead)[0]
	b.frozen.Store(true)
	defer b.frozen.Store(false)
	posts := 0
	for _, rt := range d.table() {
		place := inPath(rt.path, id)
		if rt.method == http.MethodGet {
			if w := post(t, d, place, nil); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodGet {
				t.Errorf("POST %s: status %d", place, w.Code)
			}
			continue
		}
		posts++
		for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete} {
			w := httptest.NewRecorder()
			d.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, place, nil))
			if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != http.MethodPost {
				t.Errorf("%s %s: status %d", method, place, w.Code)
			}
		}
		for name, header := range map[string][2]string{
			"another site":         {"Sec-Fetch-Site", "cross-site"},
			"another host of ours": {"Sec-Fetch-Site", "same-site"},
			"an old browser":       {"Origin", "https://evil.example"},
			"a page of no origin":  {"Origin", "null"},
		} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, place, strings.NewReader("query=state%3Ddead&action=delete&scope=all"))
			r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
			r.Header.Set(header[0], header[1])
			w := httptest.NewRecorder()
			d.ServeHTTP(w, r)
			if w.Code != http.StatusForbidden {
				t.Errorf("POST %s from %s: status %d", place, name, w.Code)
			}
		}
	}
	if posts < 8 {
		t.Errorf("the table has %d routes that change something", posts)
	}
}

func TestAReadOnlyDashboardTakesNoAction(t *testing.T) {
	b, c := countedOn(t)
	realistic(t, c)
	d := dashboardOf(t, c, Config{ReadOnly: true, PageSize: 5})
	b.frozen.Store(true)
	defer b.frozen.Store(false)
	for _, rt := range d.table() {
		if rt.method == http.MethodPost {
			if w := post(t, d, inPath(rt.path, jobsIn(t, c, "emails", broker.Dead)[0]), nil); w.Code != http.StatusForbidden {
				t.Errorf("POST %s: status %d", rt.path, w.Code)
			}
		}
	}
	crawl(t, d, "/", 60, func(at string, w *httptest.ResponseRecorder) {
		well(t, at, w)
		if strings.Contains(w.Body.String(), `method="post"`) {
			t.Errorf("%s shows an action", at)
		}
	})
}

// hiddenField finds a field that a form carries along.
func hiddenField(page, name string) string {
	m := regexp.MustCompile(`name="` + name + `" value="([^"]*)"`).FindStringSubmatch(page)
	if m == nil {
		return ""
	}
	return html.UnescapeString(m[1])
}

func TestActionsOnOneJob(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	id := f.enqueue("q", broker.NewJob{Task: "t"})[0]
	var log bytes.Buffer
	d := dashboardOf(t, c, Config{
		Audit:  slog.New(slog.NewTextHandler(&log, nil)),
		Caller: func(r *http.Request) string { return "ada" },
	})
	place := "/queues/q/jobs/" + id.String()
	w := post(t, d, place+"/cancel", nil)
	if w.Code != http.StatusSeeOther || w.Header().Get("Location") != "../../../../queues/q/jobs/"+id.String()+"?did=cancel&n=1" {
		t.Errorf("status %d, to %s", w.Code, w.Header().Get("Location"))
	}
	if page := f.page(d, place+"?did=cancel&n=1"); !strings.Contains(page, "Cancelled 1 job.") || !strings.Contains(page, "state cancelled") {
		t.Errorf("the page does not show it: %s", page)
	}
	if w := post(t, d, place+"/cancel", nil); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Nothing was changed: the job is cancelled.") {
		t.Errorf("a second time: status %d", w.Code)
	}
	if w := post(t, d, place+"/requeue", nil); w.Code != http.StatusSeeOther {
		t.Errorf("requeue: status %d", w.Code)
	}
	if j, err := c.Get(t.Context(), id); err != nil || j.State != broker.Ready {
		t.Errorf("it is %v, %v", j.State, err)
	}
	for _, want := range []string{"who=ada did=cancel queue=q changed=1 job=" + id.String(), "did=cancel queue=q changed=0", "did=requeue queue=q changed=1"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the audit log lacks %q:\n%s", want, &log)
		}
	}
	f.must(errOf(c.Delete(t.Context(), spool.Filter{Queue: "q"})))
	if w := get(t, d, place); w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "(any more)") {
		t.Errorf("a job that is gone: status %d", w.Code)
	}
	if w := post(t, d, place+"/cancel", nil); w.Code != http.StatusNotFound {
		t.Errorf("an action on a job that is gone: status %d", w.Code)
	}
}

func errOf(_ int, err error) error { return err }

func TestPauseAndSchedules(t *testing.T) {
	c := quiet(t)
	realistic(t, c)
	f := newFixture(t, c)
	d := dashboardOf(t, c, Config{})
	paused := func() bool {
		counts, err := c.Counts(t.Context(), "emails")
		f.must(err)
		return counts[0].Paused
	}
	f.page(d, "/queues") // so that the answer is remembered
	if w := post(t, d, "/queues/emails/pause", nil); w.Code != http.StatusSeeOther || !paused() {
		t.Errorf("pause: status %d", w.Code)
	}
	if page := f.page(d, "/queues"); strings.Count(page, ">Resume<") != 2 {
		t.Error("the page does not show the pause at once")
	}
	if w := post(t, d, "/queues/emails/resume", url.Values{"to": {"jobs"}}); w.Header().Get("Location") != "../../queues/emails/jobs?did=resume&n=0" || paused() {
		t.Errorf("resume leads to %s", w.Header().Get("Location"))
	}
	for _, verb := range []string{"pause", "resume", "trigger"} {
		if w := post(t, d, "/queues/emails/schedules/digest/"+verb, nil); w.Code != http.StatusSeeOther {
			t.Errorf("%s: status %d: %s", verb, w.Code, w.Body)
		}
		page := f.page(d, "/schedules")
		if got := strings.Count(page, `class="mark paused"`); got != map[string]int{"pause": 2, "resume": 1, "trigger": 1}[verb] {
			t.Errorf("after %s %d schedules are marked as paused", verb, got)
		}
	}
	if n := len(jobsIn(t, c, "emails", broker.Ready)); n != 3427 {
		t.Errorf("%d jobs are ready after the trigger", n)
	}
	if w := post(t, d, "/queues/emails/schedules/none/pause", nil); w.Code != http.StatusNotFound {
		t.Errorf("a schedule that is not there: status %d", w.Code)
	}
}

// runAll presses on as the script does, until the run is over.
func runAll(t *testing.T, d *Dashboard, queue, page string) (location string, steps int) {
	t.Helper()
	for steps = 1; steps < 100; steps++ {
		form := url.Values{}
		for _, name := range []string{"query", "action", "scope", "total", "changed", "cursor"} {
			form.Set(name, hiddenField(page, name))
		}
		for _, m := range regexp.MustCompile(`name="job" value="([^"]*)"`).FindAllStringSubmatch(page, -1) {
			form.Add("job", m[1])
		}
		w := post(t, d, "/queues/"+queue+"/run", form)
		if w.Code == http.StatusSeeOther {
			return w.Header().Get("Location"), steps
		}
		if w.Code != http.StatusOK {
			t.Fatalf("status %d: %s", w.Code, w.Body)
		}
		page = w.Body.String()
	}
	t.Fatal("the run does not end")
	return "", 0
}

func TestBulkActionsShowTheirNumberFirst(t *testing.T) {
	for _, x := range []struct {
		name   string
		queue  string
		query  url.Values
		action string
		jobs   int // ticked
		ask    string
		left   map[broker.State]int
	}{
		{"all of a state, whose number is kept", "emails", url.Values{"state": {"dead"}}, "delete", 0, "Delete 214 jobs?", map[broker.State]int{broker.Dead: 0}},
		{"all of a task", "emails", url.Values{"state": {"scheduled"}, "task": {"weekly_digest"}}, "cancel", 0, "Cancel 420 jobs?", map[broker.State]int{broker.Scheduled: 60}},
		{"what a filter finds", "emails", url.Values{"state": {"dead"}, "error": {"mailbox"}}, "requeue", 0, "Requeue 60 jobs?", map[broker.State]int{broker.Dead: 154, broker.Ready: 3486}},
		{"what has a cause", "emails", url.Values{"state": {"dead"}, "cause": {causeOf("dial tcp 1.2.3.4:5: i/o timeout after 7ms")}}, "requeue", 0, "Requeue 124 jobs?", map[broker.State]int{broker.Dead: 90}},
		{"what is ticked", "emails", url.Values{"state": {"done"}}, "delete", 7, "Delete 7 jobs?", map[broker.State]int{broker.Done: 893}},
		{"what runs", "images", url.Values{"state": {"leased"}}, "cancel", 0, "Cancel 4 jobs?", map[broker.State]int{broker.Leased: 4}},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := quiet(t)
			realistic(t, c)
			f := newFixture(t, c)
			d := dashboardOf(t, c, Config{})
			state, err := broker.ParseState(x.query.Get("state"))
			f.must(err)
			form := url.Values{"query": {x.query.Encode()}, "action": {x.action}, "scope": {"all"}}
			if x.jobs > 0 {
				form.Set("scope", "ticked")
				for _, id := range jobsIn(t, c, x.queue, state)[:x.jobs] {
					form.Add("job", id.String())
				}
			}
			w := post(t, d, "/queues/"+x.queue+"/preview", form)
			if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), x.ask) {
				t.Fatalf("status %d, it does not ask %q: %s", w.Code, x.ask, w.Body)
			}
			location, _ := runAll(t, d, x.queue, w.Body.String())
			var n int
			_, err = fmt.Sscanf(x.ask[strings.Index(x.ask, " ")+1:], "%d", &n)
			f.must(err)
			to, err := url.Parse(location)
			f.must(err)
			if to.Query().Get("did") != x.action || to.Query().Get("n") != fmt.Sprint(n) {
				t.Errorf("at the end it leads to %s", location)
			}
			for s, want := range x.left {
				if got := len(jobsIn(t, c, x.queue, s)); got != want {
					t.Errorf("%d jobs are %s, want %d", got, s, want)
				}
			}
		})
	}
}

// TestALongFilterIsCountedInSteps: what is counted so far is shown, and goes on.
func TestALongFilterIsCountedInSteps(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	f.many("q", "t", 25_000, func(i int) broker.NewJob { return broker.NewJob{Payload: []byte("x")} })
	f.bury("q", "t", 25_000, func(i int) string { return fmt.Sprintf("error %d", i%5) })
	d := dashboardOf(t, c, Config{})
	form := url.Values{"query": {"state=dead&error=" + url.QueryEscape("error 3")}, "action": {"delete"}, "scope": {"all"}}
	steps, page := 0, ""
	for {
		w := post(t, d, "/queues/q/preview", form)
		page = w.Body.String()
		steps++
		if w.Code != http.StatusOK || steps > 100 {
			t.Fatalf("status %d after %d steps", w.Code, steps)
		}
		if !strings.Contains(page, "counted so far") {
			break
		}
		for _, name := range []string{"total", "looked", "cursor"} {
			form.Set(name, hiddenField(page[strings.Index(page, "data-go-on"):], name))
		}
		if form.Get("looked") == "0" || form.Get("cursor") == "" {
			t.Fatalf("it does not say how far it is: %v", form)
		}
	}
	if steps < 2 || !strings.Contains(page, "Delete 5,000 jobs?") {
		t.Errorf("after %d steps it does not ask to delete 5,000 jobs: %s", steps, page)
	}
}

func TestBadBulkFormsAreRefused(t *testing.T) {
	b, c := countedOn(t)
	realistic(t, c)
	d := dashboardOf(t, c, Config{})
	b.frozen.Store(true)
	defer b.frozen.Store(false)
	for _, x := range []struct {
		name string
		form url.Values
		want string
	}{
		{"nothing", url.Values{}, "which jobs are meant"},
		{"no state", url.Values{"query": {"task=x"}, "action": {"delete"}, "scope": {"all"}}, "which jobs are meant"},
		{"nothing ticked", url.Values{"query": {"state=dead"}, "action": {"delete"}}, "No job is ticked"},
		{"an id that is none", url.Values{"query": {"state=dead"}, "action": {"delete"}, "job": {"7"}}, "A ticked job is none"},
		{"an action that the state does not have", url.Values{"query": {"state=leased"}, "action": {"delete"}, "scope": {"all"}}, "cannot be done to jobs that are leased"},
		{"an unknown action", url.Values{"query": {"state=dead"}, "action": {"explode"}, "scope": {"all"}}, "cannot be done"},
		{"a state that is none", url.Values{"query": {"state=lost"}, "action": {"delete"}, "scope": {"all"}}, "no such state"},
		{"an age that is none", url.Values{"query": {"state=dead&older=soon"}, "action": {"delete"}, "scope": {"all"}}, "is no age"},
		{"a form that is too large", url.Values{"query": {"state=dead&key=" + strings.Repeat("x", maxForm)}}, "too large"},
	} {
		for _, place := range []string{"/queues/emails/preview", "/queues/emails/run"} {
			t.Run(x.name+place, func(t *testing.T) {
				w := post(t, d, place, x.form)
				if w.Code != http.StatusBadRequest || !strings.Contains(html.UnescapeString(w.Body.String()), x.want) {
					t.Errorf("status %d, want 400 with %q: %s", w.Code, x.want, w.Body)
				}
			})
		}
	}
}

// TestATickedJobThatMovedOnIsLeft: the action is on the state that the page showed.
func TestATickedJobThatMovedOnIsLeft(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	ids := f.enqueue("q", broker.NewJob{Task: "t", MaxAttempts: 1}, broker.NewJob{Task: "t"})
	d := dashboardOf(t, c, Config{})
	form := url.Values{"query": {"state=ready"}, "action": {"delete"}, "job": {ids[0].String(), ids[1].String()}}
	f.settle(f.claim("w", "q", "t", 1), func(int) broker.Settlement {
		return broker.Settlement{Kind: broker.Nack, Delay: time.Minute, Error: "no"}
	})
	w := post(t, d, "/queues/q/preview", form)
	if !strings.Contains(w.Body.String(), "Delete 1 job?") {
		t.Errorf("the preview counts what moved on: %s", w.Body)
	}
	if location, _ := runAll(t, d, "q", w.Body.String()); !strings.Contains(location, "n=1") {
		t.Errorf("it leads to %s", location)
	}
	if n := len(jobsIn(t, c, "q", broker.Dead)); n != 1 {
		t.Errorf("%d dead letters are left", n)
	}
}

func TestWhoMayChangeNothingSeesNoActions(t *testing.T) {
	_, c := countedOn(t)
	d := dashboardOf(t, c, Config{MayChange: func(r *http.Request) bool { return r.Header.Get("X-User") == "operator" }})
	if _, err := c.Enqueue(t.Context(), spool.Raw("t", nil)); err != nil {
		t.Fatal(err)
	}
	for user, want := range map[string]int{"operator": http.StatusSeeOther, "reader": http.StatusForbidden} {
		page := httptest.NewRequest(http.MethodGet, "/queues", nil)
		page.Header.Set("X-User", user)
		w := httptest.NewRecorder()
		d.ServeHTTP(w, page)
		if shown := strings.Contains(w.Body.String(), "Pause"); shown != (user == "operator") {
			t.Errorf("%s sees the action: %v", user, shown)
		}
		act := httptest.NewRequest(http.MethodPost, "/queues/default/pause", nil)
		act.Header.Set("X-User", user)
		w = httptest.NewRecorder()
		d.ServeHTTP(w, act)
		if w.Code != want {
			t.Errorf("%s is answered %d", user, w.Code)
		}
	}
}
