package dashboard

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/audits"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/log"
	cdpage "github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// browser is a headless Chromium with one page, which notes whatever it
// complains about.
type browser struct {
	testing.TB
	ctx  context.Context
	base string

	mu         sync.Mutex
	complaints []string
}

// chromium finds the browser. Where there is none the test is left out, unless
// SPOOL_BROWSER=required says that there has to be one.
func chromium(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("browsers are left to the long run of the tests")
	}
	for _, name := range []string{os.Getenv("SPOOL_CHROMIUM"), "chromium", "chromium-browser", "google-chrome"} {
		if name == "" {
			continue
		}
		if found, err := exec.LookPath(name); err == nil {
			return found
		}
	}
	const missing = "there is no Chromium: make browser installs it (Debian), or SPOOL_CHROMIUM names it"
	if os.Getenv("SPOOL_BROWSER") == "required" {
		t.Fatal(missing)
	}
	t.Skip(missing)
	return ""
}

// browse opens a browser on a dashboard that is mounted under a prefix.
func browse(t testing.TB, h http.Handler) *browser {
	t.Helper()
	exe := chromium(t)
	mux := http.NewServeMux()
	mux.Handle("/ops/q/", http.StripPrefix("/ops/q", h))
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	dir, err := os.MkdirTemp("", "spool-browser")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(exe), chromedp.UserDataDir(dir), chromedp.NoSandbox, chromedp.DisableGPU, chromedp.NoFirstRun,
		chromedp.Flag("disable-quic", true), chromedp.Flag("disable-background-networking", true), chromedp.Flag("disable-component-update", true),
		chromedp.Flag("disable-sync", true), chromedp.Flag("disable-dev-shm-usage", true))
	ctx, stop := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(stop)
	ctx, stopPage := chromedp.NewContext(ctx)
	t.Cleanup(stopPage)
	b := &browser{TB: t, ctx: ctx, base: srv.URL + "/ops/q/"}
	if err := chromedp.Listen(ctx, b.note); err != nil {
		t.Fatalf("the browser does not start: %v", err)
	}
	send(b, log.Enable, cdp.Empty{})
	send(b, audits.Enable, cdp.Empty{})
	b.do(chromedp.EmulateViewport(1280, 800))
	return b
}

// note keeps errors of the console, exceptions, breaches of the policy, and
// dialogs, which it closes.
func (b *browser) note(event any) {
	text := ""
	switch e := event.(type) {
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning {
			text = fmt.Sprintf("console: %s %v", e.Type, e.Args)
		}
	case *runtime.EventExceptionThrown:
		text = fmt.Sprintf("exception: %s %s:%d", e.ExceptionDetails.Text, e.ExceptionDetails.URL, e.ExceptionDetails.LineNumber)
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError {
			text = "log: " + e.Entry.Text + " " + e.Entry.URL
		}
	case *audits.EventIssueAdded:
		if e.Issue.Code == audits.InspectorIssueCodeContentSecurityPolicyIssue {
			text = "policy: " + e.Issue.Details.ContentSecurityPolicyIssueDetails.ViolatedDirective
		}
	case *cdpage.EventJavascriptDialogOpening:
		text = "dialog: " + e.Message
		go func() {
			_, _ = chromedp.Call(b.ctx, cdpage.HandleJavaScriptDialog, cdpage.HandleJavaScriptDialogParams{Accept: true})
		}()
	}
	if text != "" {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.complaints = append(b.complaints, text)
	}
}

// patience is how long a step of a browser may take; the machine may be busy.
const patience = time.Minute

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatalf("the browser: %v", err)
	}
}

// send sends a command of the protocol.
func send[P, R any](b *browser, cmd cdp.Command[P, R], params P) R {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	r, err := chromedp.Call(ctx, cmd, params)
	if err != nil {
		b.Fatalf("the browser: %v", err)
	}
	return r
}

// value is what an expression is in the page.
func value[T any](b *browser, expression string) T {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		b.Fatalf("%s: %v", expression, err)
	}
	return v
}

func (b *browser) open(place string) {
	b.Helper()
	b.do(chromedp.Navigate(b.base+place), chromedp.WaitReady("footer"))
}

// sees waits until the page has a text, which may come by itself.
func (b *browser) sees(want string) {
	b.Helper()
	b.holds("document.querySelector('main')?.innerText.includes("+quoted(want)+") ?? false", want)
}

// holds waits until an expression is true in the page. Between two pages there is
// none to ask.
func (b *browser) holds(expression, what string) {
	b.Helper()
	ctx, stop := context.WithTimeout(b.ctx, patience)
	defer stop()
	tick := time.NewTicker(30 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := chromedp.Run(ctx, chromedp.Evaluate[bool]("!!("+expression+")"))
		if ok && err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			b.Fatalf("the page does not show %q (%v):\n%s", what, err, value[string](b, "document.body?.innerText ?? ''"))
		}
	}
}

func quoted(s string) string { return string(asJSON(s)) }

// press clicks what a selector finds and waits for the next page.
func (b *browser) press(selector string) {
	b.Helper()
	b.do(chromedp.Evaluate[chromedp.Void]("document.body.dataset.old = 1"), chromedp.Click(selector))
	b.holds("document.readyState === 'complete' && !document.body.dataset.old", "the page after "+selector)
}

// content fails the test when the browser complained about anything.
func (b *browser) content() {
	b.Helper()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.complaints) > 0 {
		b.Errorf("the browser complains:\n%s", strings.Join(b.complaints, "\n"))
	}
}
