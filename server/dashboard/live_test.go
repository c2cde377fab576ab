package dashboard

import (
	"context"
	"errors"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// run works jobs until the test ends.
func run(t *testing.T, w *spool.Worker) {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestAJobsLifeInABrowser: what happens is seen without a reload, and the buttons
// do what they say.
func TestAJobsLifeInABrowser(t *testing.T) {
	c := quiet(t)
	b := browse(t, dashboardOf(t, c, Config{}))
	b.open("")
	b.sees("No job yet")
	b.sees("spool enqueue hello")
	greet := spool.Define[string]("greet", spool.MaxAttempts(1), spool.Retain(time.Hour))
	first, err := greet.Enqueue(t.Context(), c, "ada")
	if err != nil {
		t.Fatal(err)
	}
	b.holds("document.querySelector('.tile.ready .value').textContent === '1' && !document.body.innerText.includes('No job yet')", "one ready job")
	b.holds("document.querySelectorAll('#charts svg path.plot').length === 10", "the charts")

	place := "queues/default/jobs/" + first.ID.String()
	b.open(place)
	b.sees("No live worker listens to queue default")
	outcome := make(chan error)
	w := spool.NewWorker(c, spool.WorkerConfig{Name: "greeter", Concurrency: 1, LeaseTTL: 6 * time.Second}) // a machine may stand still for a while
	greet.Handle(w, func(ctx context.Context, name string) error {
		l := spool.LeaseFrom(ctx)
		l.Progress(40, "half way to "+name)
		l.Log("saying hello")
		select {
		case err := <-outcome:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	run(t, w)
	b.holds("document.querySelector('h1 + .state').textContent === 'leased'", "that it runs")
	b.sees("40 % half way to ada")
	b.sees("saying hello")
	b.open("workers")
	b.sees("greeter")
	b.sees("half way to ada")
	b.open(place)
	outcome <- errors.New("no voice\nat line 7")
	b.holds("document.querySelector('h1 + .state').textContent === 'dead'", "that it failed")
	b.press("form[action$='/requeue'] button")
	b.sees("Requeued 1 job.")
	outcome <- nil
	b.holds("document.querySelector('h1 + .state').textContent === 'done'", "that it is done")

	later, err := greet.Enqueue(t.Context(), c, "bob", spool.Delay(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	b.open("queues/default/jobs/" + later.ID.String())
	b.sees("It is scheduled for")
	b.press("form[action$='/cancel'] button")
	b.sees("Cancelled 1 job.")
	b.open("queues")
	b.press("form[action$='/default/pause'] button")
	b.sees("The queue is paused")
	b.press("form[action$='/default/resume'] button")
	b.sees("The queue goes on.")
	b.content()
}

// slow is a broker whose commands take their time.
type slow struct{ broker.Broker }

func (b slow) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	select {
	case <-time.After(120 * time.Millisecond):
	case <-ctx.Done():
		return broker.Step{}, ctx.Err()
	}
	return b.Broker.Apply(ctx, c, cmd)
}

// TestListsInABrowser: filter, tick, preview, a run of many steps, the keyboard.
func TestListsInABrowser(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	f.many("q", "t", 6000, func(i int) broker.NewJob {
		return broker.NewJob{Tenant: []string{"acme", "globex"}[i%2], Payload: asJSON(map[string]int{"n": i})}
	})
	d := dashboardOf(t, c, Config{PageSize: 20})
	d.broker = slow{d.broker}
	b := browse(t, d)

	b.open("queues/q/jobs?state=ready")
	b.do(chromedp.Click(".filter summary"), chromedp.SendKeys(".filter input[name=tenant]", "globex"))
	b.press(".filter button")
	b.holds("[...document.querySelectorAll('td.tags')].length === 20 && [...document.querySelectorAll('td.tags')].every(e => e.innerText.includes('globex'))", "jobs of the tenant alone")
	b.press("#next")
	b.sees(`{"n":41}`)

	b.open("queues/q/jobs?state=ready")
	b.do(chromedp.Click("tbody tr:nth-child(2) .pick input"), chromedp.Click("tbody tr:nth-child(4) .pick input"))
	b.sees("2 ticked")
	b.press(".bulk button[value=cancel]")
	b.sees("Cancel 2 jobs?")
	b.press(".ask form[action$='/run'] button")
	b.sees("Cancelled 2 jobs.")

	b.open("queues/q/jobs?state=ready&tenant=globex")
	b.do(chromedp.Click("input[name=scope][value=all]"))
	b.press(".bulk button[value=delete]")
	b.sees("Delete 2,998 jobs?")
	b.sees("cannot be brought back")
	b.press(".ask form[action$='/run'] button")
	b.sees("of 2,998 so far")
	b.sees("Deleted 2,998 jobs.")
	if n := len(jobsIn(t, c, "q", broker.Ready)); n != 3000 {
		t.Errorf("%d jobs are left", n)
	}

	b.open("queues/q/jobs?state=ready")
	b.do(chromedp.KeyEvent("jjk"))
	b.holds("document.querySelector('tbody tr:first-child').classList.contains('at')", "the first row is chosen")
	b.do(chromedp.KeyEvent("x"))
	b.sees("1 ticked")
	b.do(chromedp.KeyEvent("?"))
	b.holds("document.getElementById('help').open", "the help")
	b.do(chromedp.KeyEvent("\x1b"))
	b.holds("!document.getElementById('help').open", "that the help is gone")
	b.do(chromedp.KeyEvent("/"))
	b.holds("document.activeElement.id === 'find'", "the search field")
	b.do(chromedp.KeyEvent("\x1b"), chromedp.Evaluate[chromedp.Void]("document.body.dataset.old = 1"), chromedp.KeyEvent("\r"))
	b.holds("document.readyState === 'complete' && !document.body.dataset.old && location.pathname.includes('/jobs/')", "the job of the row")
	b.do(chromedp.KeyEvent("gd"))
	b.sees("No dead letter")

	b.do(chromedp.Click("#theme"))
	theme := value[string](b, "document.documentElement.dataset.theme")
	b.open("queues")
	if kept := value[string](b, "document.documentElement.dataset.theme"); kept != theme || theme == "" {
		t.Errorf("the theme %q became %q", theme, kept)
	}
	b.content()
}

// TestABrowserWithoutScript: pages, filters, previews and steps are links and forms.
func TestABrowserWithoutScript(t *testing.T) {
	c := quiet(t)
	f := newFixture(t, c)
	f.many("q", "t", 4000, func(i int) broker.NewJob { return broker.NewJob{Tenant: []string{"acme", "globex"}[i%2]} })
	d := dashboardOf(t, c, Config{PageSize: 20})
	d.broker = slow{d.broker}
	b := browse(t, d)
	send(b, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true})
	b.open("")
	b.sees("The charts need the page's script")
	b.open("queues/q/jobs?state=ready&tenant=globex")
	b.do(chromedp.Click("input[name=scope][value=all]"))
	b.press(".bulk button[value=cancel]")
	b.sees("Cancel 2,000 jobs?")
	b.press(".ask form[action$='/run'] button")
	for range 20 {
		if !value[bool](b, "document.querySelector('[data-go-on]') !== null") {
			break
		}
		b.sees("of 2,000 so far")
		b.press("[data-go-on] button")
	}
	b.sees("Cancelled 2,000 jobs.")
	b.content()
}

// TestHostileTextsInABrowser: every page of a store that is full of them, with no
// script run and nothing that the policy has to stop.
func TestHostileTextsInABrowser(t *testing.T) {
	c := quiet(t)
	poison(t, c)
	d := dashboardOf(t, c, Config{PageSize: 100})
	b := browse(t, d)
	places := []string{"", "queues", "dead", "schedules", "workers", "limits", "find?q=%3Cscript%3Ealert(1)%3C/script%3E"}
	for _, s := range broker.States {
		places = append(places, "queues/poison/jobs?state="+s.String())
	}
	for _, s := range []broker.State{broker.Dead, broker.Leased, broker.Done} {
		for _, id := range jobsIn(t, c, "poison", s) {
			places = append(places, "queues/poison/jobs/"+id.String())
		}
	}
	for _, h := range hostile {
		places = append(places, "queues/poison/jobs?"+url.Values{"state": {"dead"}, "error": {h}}.Encode())
	}
	elements := "document.querySelectorAll('img, iframe, object, embed, form:not([action]):not([method=dialog]), [onerror], [onload], [onmouseover], a[href^=\"javascript\"], h1 ~ h1, base').length"
	for _, place := range places {
		b.open(place)
		if n := value[int](b, elements); n > 0 {
			t.Errorf("%s has %d elements that no page has", place, n)
		}
	}
	b.open("workers")
	b.do(chromedp.KeyEvent("j")) // what a screen reader is told
	b.mu.Lock()
	var kept []string
	for _, x := range b.complaints {
		if !strings.Contains(x, "404 (Not Found)") { // the search that finds nothing
			kept = append(kept, x)
		}
	}
	b.complaints = kept
	b.mu.Unlock()
	b.content()
}
