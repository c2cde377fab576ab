package push

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// bench is a store with a target.
type bench struct {
	*testing.T
	c   *spool.Client
	url string
}

func newBench(t *testing.T, handle http.HandlerFunc) *bench {
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(func() { c.Close() })
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return &bench{t, c, s.URL}
}

// run delivers until the job is as wanted, or for too long.
func (b *bench) run(target Target, id spool.ID, done func(j spool.Job) bool) spool.Job {
	b.Helper()
	target.Queue, target.URL = "hooks", b.url+target.URL
	w, err := NewWorker(b.c, target)
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	events, err := b.c.Watch(b.Context(), spool.Filter{Queue: "hooks"})
	if err != nil {
		b.Fatal(err)
	}
	timeout := time.After(20 * time.Second)
	for {
		j, err := b.c.Get(b.Context(), id)
		if err == nil && done(j) {
			cancel()
			if err := <-ended; err != nil {
				b.Error(err)
			}
			return j
		}
		select {
		case <-events:
		case <-timeout:
			b.Fatalf("the job is %+v, %v", j, err)
		}
	}
}

func (b *bench) enqueue(payload string, opts ...spool.JobOption) spool.ID {
	b.Helper()
	opts = append(opts, spool.Queue("hooks"), spool.Retain(time.Hour))
	got, err := b.c.Enqueue(b.Context(), spool.Raw("order.paid", []byte(payload), opts...))
	if err != nil {
		b.Fatal(err)
	}
	return got[0].ID
}

func TestADeliveryIsSignedAndByteForByte(t *testing.T) {
	for _, c := range []struct{ name, payload, media string }{
		{"JSON as it was enqueued", `{"b": 1,  "a":12345678901234567890, "x":"<&>"}`, "application/json"},
		{"any bytes", "\xff\x00text", "application/octet-stream"},
		{"nothing", "", "application/octet-stream"},
	} {
		t.Run(c.name, func(t *testing.T) {
			verify, err := webhooks.NewWebhook(secret)
			if err != nil {
				t.Fatal(err)
			}
			var wrong atomic.Pointer[string]
			b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err == nil {
					err = verify.Verify(body, r.Header)
				}
				if got := fmt.Sprintf("%v|%s|%s|%s|%s|%s|%s|%s", err, body, r.Method, r.Header.Get("Content-Type"), r.Header.Get("Spool-Task"), r.Header.Get("Spool-Attempt"), r.Header.Get("Traceparent"), r.Header.Get("Tracestate")); got != "<nil>|"+c.payload+"|POST|"+c.media+"|order.paid|1|00-ab-cd-01|" {
					wrong.Store(&got)
				}
			})
			id := b.enqueue(c.payload, spool.Header("traceparent", "00-ab-cd-01"), spool.Header("tracestate", "a\r\nX-Evil: 1"))
			b.run(Target{Secret: secret, AllowPrivate: true}, id, func(j spool.Job) bool { return j.State == spool.Done })
			if got := wrong.Load(); got != nil {
				t.Errorf("got %q", *got)
			}
		})
	}
}

func TestTheAnswerSettlesTheJob(t *testing.T) {
	for _, c := range []struct {
		name   string
		code   int
		after  string
		policy Policy
		state  spool.State
		reason string
		count  int // of the attempt afterwards
		says   string
	}{
		{"204 is done", 204, "", "", spool.Done, broker.ReasonAcked, 1, ""},
		{"500 is tried again", 500, "", "", spool.Scheduled, broker.ReasonRetry, 1, "answered 500"},
		{"302 is tried again, and not followed", 302, "", "", spool.Scheduled, broker.ReasonRetry, 1, "answered 302"},
		{"429 is left alone, and no attempt", 429, "", "", spool.Scheduled, broker.ReasonSnoozed, 0, ""},
		{"429 says for how long", 429, "7200", "", spool.Scheduled, broker.ReasonSnoozed, 0, ""},
		{"429 that says no time is not asked at once", 429, "0", "", spool.Scheduled, broker.ReasonSnoozed, 0, ""},
		{"503 that says for how long", 503, "7200", "", spool.Scheduled, broker.ReasonSnoozed, 0, ""},
		{"503 alone is tried again", 503, "", "", spool.Scheduled, broker.ReasonRetry, 1, "answered 503"},
		{"404 is a dead letter", 404, "", "", spool.Dead, broker.ReasonBuried, 1, "answered 404"},
		{"404 is tried again by policy", 404, "", Retry, spool.Scheduled, broker.ReasonRetry, 1, "answered 404"},
		{"408 is tried again", 408, "", "", spool.Scheduled, broker.ReasonRetry, 1, "answered 408"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t, func(w http.ResponseWriter, r *http.Request) {
				if c.after != "" {
					w.Header().Set("Retry-After", c.after)
				}
				w.Header().Set("Location", "/elsewhere")
				w.WriteHeader(c.code)
				_, _ = io.WriteString(w, "secret of the target")
			})
			id := b.enqueue("{}")
			j := b.run(Target{AllowPrivate: true, ClientError: c.policy}, id, func(j spool.Job) bool { return j.State != spool.Ready && j.State != spool.Leased })
			if j.State != c.state || j.Reason != c.reason || j.Attempt != c.count || !strings.Contains(j.Error, c.says) || strings.Contains(j.Error, "secret") {
				t.Errorf("the job is %v (%s), attempt %d, %q", j.State, j.Reason, j.Attempt, j.Error)
			}
			if left := time.Until(j.RunAt); c.after == "7200" && (left < 119*time.Minute || left > 2*time.Hour) {
				t.Errorf("it is due in %v", left)
			}
		})
	}
}

func TestATargetThatAsksForItIsLeftAloneByOtherJobsToo(t *testing.T) {
	var asked atomic.Int64
	b := newBench(t, func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		w.Header().Set("Retry-After", "7200")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	var last spool.ID
	for range 20 {
		last = b.enqueue("{}")
	}
	j := b.run(Target{AllowPrivate: true, Concurrency: 1}, last, func(j spool.Job) bool { return j.State == spool.Scheduled })
	if n := asked.Load(); n != 1 || j.Attempt != 0 {
		t.Errorf("%d requests, attempt %d", n, j.Attempt)
	}
}

func TestHowLongATargetIsLeftAlone(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0": time.Second, "7": 7 * time.Second, "86401": maxPause, "99999999999999999999": maxPause, "Thu, 01 Jan 1970 00:00:00 GMT": time.Second,
		"": 0, "-5": 0, "1.5": 0, "soon": 0,
	} {
		if got, ok := retryAfter(text); got != want || ok != (want > 0) {
			t.Errorf("%q is %v, %v", text, got, ok)
		}
	}
}

func TestASlowTargetIsGivenUp(t *testing.T) {
	release := make(chan struct{})
	b := newBench(t, func(http.ResponseWriter, *http.Request) { <-release })
	defer close(release)
	id := b.enqueue("{}")
	j := b.run(Target{AllowPrivate: true, Timeout: 50 * time.Millisecond}, id, func(j spool.Job) bool { return j.State == spool.Scheduled })
	if !strings.Contains(j.Error, "deadline") && !strings.Contains(j.Error, "timeout") {
		t.Errorf("the error is %q", j.Error)
	}
}

func TestATargetLeadsToTheInternetUnlessItIsAllowed(t *testing.T) {
	b := newBench(t, func(http.ResponseWriter, *http.Request) { t.Error("the request got through") })
	if _, err := NewWorker(b.c, Target{Queue: "hooks", URL: b.url}); err == nil || !strings.Contains(err.Error(), "allow_private lets it") {
		t.Errorf("an address that can be seen to lead here is taken: %v", err)
	}
	// A name may lead here, and nobody knows before it is dialled.
	d := &delivery{target: Target{URL: b.url, Timeout: DefaultTimeout}, client: &http.Client{Transport: transport(&Target{Concurrency: 1})}}
	err := d.deliver(t.Context(), &spool.Lease{Job: spool.Job{ID: broker.NewID()}})
	if err == nil || !strings.Contains(err.Error(), "not of the public Internet") {
		t.Errorf("the error is %v", err)
	}
	for host, here := range map[string]bool{
		"localhost": true, "LOCALHOST.": true, "a.localhost": true, "10.0.0.1": true, "::1": true, "fe80::1%eth0": true,
		"example.com": false, "notlocalhost": false, "8.8.8.8": false, "10.example.com": false,
	} {
		if private(host) != here {
			t.Errorf("%s is private: %v", host, !here)
		}
	}
	for _, address := range []string{
		"127.0.0.1:80", "[::1]:80", "10.1.2.3:80", "172.16.0.1:80", "192.168.1.1:443", "169.254.169.254:80", "100.64.0.1:80", "0.0.0.0:80", "224.0.0.1:80",
		"[::ffff:127.0.0.1]:80", "[::ffff:10.0.0.1]:80", "[fc00::1]:80", "[fd12::1]:80", "[fe80::1%eth0]:80", "[ff02::1]:80", "[::]:80", "[64:ff9b::7f00:1]:80",
		"[::127.0.0.1]:80", "[::ffff:0:127.0.0.1]:80", "255.255.255.255:80", "198.18.0.1:80", "[2002:7f00:1::]:80", "nonsense",
	} {
		if public(address) == nil {
			t.Errorf("%s is let through", address)
		}
	}
	for _, address := range []string{"93.184.216.34:443", "[2606:2800:220:1:248:1893:25c8:1946]:443", "8.8.8.8:80", "172.32.0.1:80"} {
		if err := public(address); err != nil {
			t.Errorf("%s: %v", address, err)
		}
	}
}

func TestATargetThatCannotBe(t *testing.T) {
	ok := Target{Queue: "q", URL: "https://example.com/hook"}
	if err := ok.Check(); err != nil {
		t.Error(err)
	}
	for says, change := range map[string]func(t *Target){
		"queue is missing":    func(t *Target) { t.Queue = "" },
		"queue ":              func(t *Target) { t.Queue = "a b" },
		"url is not":          func(t *Target) { t.URL = "ftp://example.com" },
		"http:// or https":    func(t *Target) { t.URL = "https://" },
		"user in it":          func(t *Target) { t.URL = "https://a:b@example.com" },
		"timeout -1ns is neg": func(t *Target) { t.Timeout = -1 },
		"concurrency -1 is":   func(t *Target) { t.Concurrency = -1 },
		"client_error":        func(t *Target) { t.ClientError = "ignore" },
		"rate needs tasks":    func(t *Target) { t.Rate = "1/s" },
		"task ":               func(t *Target) { t.Tasks = []string{""} },
		"secret is not base":  func(t *Target) { t.Secret = "whsec_%%" },
	} {
		bad := ok
		change(&bad)
		if err := bad.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
	bad := ok
	bad.Rate, bad.Tasks = "often", []string{"t"}
	if _, err := NewWorker(nil, bad); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("a rate that cannot be read: %v", err)
	}
}
