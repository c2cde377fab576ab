package dashboard

import (
	"context"
	"flag"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// traffic works jobs of a store until ctx ends, with a failure now and then.
func traffic(ctx context.Context, c *spool.Client) (wait func()) {
	var all sync.WaitGroup
	task := spool.Define[map[string]any]("import_row", spool.MaxAttempts(2), spool.Retain(10*time.Minute), spool.Queue("imports"))
	w := spool.NewWorker(c, spool.WorkerConfig{Name: "importer", Concurrency: 12, Queues: []spool.QueueConfig{{Name: "imports"}}})
	n := 0
	var mu sync.Mutex
	task.Handle(w, func(ctx context.Context, _ map[string]any) error {
		mu.Lock()
		n++
		i := n
		mu.Unlock()
		select {
		case <-time.After(time.Duration(20+i*37%160) * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
		if i%23 == 0 {
			return fmt.Errorf("row %d: column %q: not a number", i, "price")
		}
		return nil
	})
	all.Go(func() { _ = w.Run(ctx) })
	all.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			burst := 9 + (i/40%3)*4
			for k := range burst {
				_, _ = task.Enqueue(ctx, c, map[string]any{"file": "prices.csv", "row": i*20 + k, "sku": fmt.Sprintf("A-%04d", i%9999), "price": 12.5})
			}
			select {
			case <-time.After(150 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	})
	return all.Wait
}

var (
	shotsDir  = flag.String("shots", "", "write screenshots of every page into this directory")
	shotsWarm = flag.Duration("warm", time.Second, "how long jobs are worked before, for the charts")
)

// TestPagesFitTheWindow: of a desktop and of a phone, light and dark, in a store
// that is at work. It draws the pictures of docs/dashboard.md:
// go test -run TestPagesFitTheWindow ./server/dashboard -shots DIR -warm 10m
func TestPagesFitTheWindow(t *testing.T) {
	c := quiet(t)
	realistic(t, c)
	d := dashboardOf(t, c, Config{Title: "Shop jobs"})
	ctx, stop := context.WithCancel(t.Context())
	wait := traffic(ctx, c)
	defer wait()
	defer stop()
	b := browse(t, d)
	b.open("")
	select {
	case <-time.After(*shotsWarm):
	case <-t.Context().Done():
	}
	job := func(queue string, s broker.State) string {
		page, err := c.Broker().List(t.Context(), broker.Filter{Queue: queue, States: []broker.State{s}}, "", 1)
		if err != nil || len(page.Jobs) == 0 {
			t.Fatalf("no job is %s: %v", s, err)
		}
		return "queues/" + queue + "/jobs/" + page.Jobs[0].ID.String()
	}
	places := map[string]string{
		"overview": "", "queues": "queues", "jobs": "queues/emails/jobs?state=ready", "jobs-dead": "queues/emails/jobs?state=dead&error=timeout",
		"jobs-done": "queues/emails/jobs?state=done", "job-dead": job("emails", broker.Dead), "job-leased": job("images", broker.Leased),
		"job-done": job("emails", broker.Done), "dead": "dead?queue=emails", "schedules": "schedules", "workers": "workers", "limits": "limits",
	}
	sizes := []struct {
		name       string
		wide, high int64
		mobile     bool
	}{{"", 1280, 800, false}, {"-phone", 390, 844, true}}
	for _, theme := range []string{"light", "dark"} {
		for _, size := range sizes {
			send(b, emulation.SetDeviceMetricsOverride, emulation.SetDeviceMetricsOverrideParams{Width: size.wide, Height: size.high, DeviceScaleFactor: 1, Mobile: size.mobile})
			send(b, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
			for name, place := range places {
				b.open(place)
				if name == "overview" {
					b.holds("document.querySelectorAll('svg path.plot').length === 10", "the charts")
				}
				b.shoot(name + "-" + theme + size.name)
			}
			b.open("queues/emails/jobs?" + url.Values{"state": {"dead"}, "error": {"timeout"}}.Encode())
			b.do(chromedp.Click("input[name=scope][value=all]"))
			b.press(".bulk button[value=delete]")
			b.shoot("preview-" + theme + size.name)
		}
	}
	b.content()
}

// shoot fails the test when a page is wider than the window, something in it
// wider than its place, or without a name for a screen reader. It writes what is
// seen to a file when that is asked for.
func (b *browser) shoot(name string) {
	b.Helper()
	if wide := value[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth"); wide > 0 {
		b.Errorf("%s is %d pixels wider than the window", name, wide)
	}
	const outside = `[...document.querySelectorAll('.card, .tile, main > div, .tabs, .list td, .top')].filter(e => e.scrollWidth > e.clientWidth + 1 && !e.querySelector('code')).map(e => e.id + ' ' + e.className + ': ' + e.innerText.slice(0, 40)).join('; ')`
	if what := value[string](b, outside); what != "" {
		b.Errorf("%s: more stands in it than fits: %s", name, what)
	}
	const unnamed = `[...document.querySelectorAll('input:not([type=hidden]), button, a, th, meter, progress, nav, svg[role=img]')].filter(e => !(e.textContent.trim() || e.getAttribute('aria-label') || e.labels?.length)).map(e => e.outerHTML.slice(0, 80)).join('; ')`
	if what := value[string](b, unnamed); what != "" {
		b.Errorf("%s: a screen reader has no name for %s", name, what)
	}
	png := send(b, cdpage.CaptureScreenshot, cdpage.CaptureScreenshotParams{Format: cdpage.CaptureScreenshotFormatPng}).Data
	if *shotsDir == "" {
		return
	}
	if err := os.WriteFile(filepath.Join(*shotsDir, name+".png"), png, 0o644); err != nil {
		b.Fatal(err)
	}
}
