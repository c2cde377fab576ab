package spoolprom_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/spoolprom"
)

// scrapeOf gathers a whole registry.
func scrapeOf(t testing.TB, g prometheus.Gatherer) values {
	t.Helper()
	families, err := g.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return samples(families)
}

func TestARunIsObserved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := quiet(membroker.New(membroker.Config{}))
		defer c.Close()
		r := prometheus.NewPedanticRegistry()
		finished := 0
		hooks := spoolprom.NewHooks(r, spoolprom.HooksConfig{Next: spool.Hooks{Finished: func(*spool.Lease, spool.Outcome) { finished++ }}})
		w := spool.NewWorker(c, spool.WorkerConfig{Concurrency: 2, Hooks: hooks})
		w.HandleAny(func(ctx context.Context, l *spool.Lease) error {
			time.Sleep(20 * time.Second)
			if l.Job.Task == "bad" {
				return errors.New("no")
			}
			return nil
		})
		enqueue(t, c, "q", "mail", 3)
		enqueue(t, c, "q", "bad", 1, spool.MaxAttempts(1))
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		done := make(chan error)
		go func() { done <- w.Run(ctx) }()
		time.Sleep(10 * time.Second)
		v := scrapeOf(t, r)
		v.want(t, `spool_worker_active{task="mail"}`, 2)
		v.want(t, `spool_worker_wait_seconds{task="mail"}`, 2)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		v = scrapeOf(t, r)
		for name, n := range (values{
			`spool_worker_active{task="mail"}`:                    0,
			`spool_worker_active{task="bad"}`:                     0,
			`spool_worker_runs_total{outcome="ack",task="mail"}`:  3,
			`spool_worker_runs_total{outcome="nack",task="bad"}`:  1,
			`spool_worker_run_seconds{outcome="ack",task="mail"}`: 3,
			`spool_worker_attempts{task="mail"}`:                  3,
			`spool_worker_attempts{task="bad"}`:                   1,
			`spool_worker_wait_seconds{task="mail"}`:              3,
		}) {
			v.want(t, name, n)
		}
		if finished != 4 {
			t.Errorf("the hook behind was called %d times", finished)
		}
		families, _ := r.Gather()
		for _, f := range families {
			if h := f.Metric[0].GetHistogram(); h != nil && (h.Schema == nil || len(h.Bucket) == 0) {
				t.Errorf("%s is not both a native and a classic histogram", f.GetName())
			} else if f.GetName() == "spool_worker_run_seconds" {
				if sum := f.Metric[0].GetHistogram().GetSampleSum(); sum != 20 && sum != 60 {
					t.Errorf("the runs took %v s", sum)
				}
			}
		}
	})
}

func TestWorkersShareTheirMetricsAndTasksAreBounded(t *testing.T) {
	c := quiet(membroker.New(membroker.Config{}))
	defer c.Close()
	r := prometheus.NewPedanticRegistry()
	for i := range 2 {
		hooks := spoolprom.NewHooks(r, spoolprom.HooksConfig{MaxTasks: 3})
		w := spool.NewWorker(c, spool.WorkerConfig{Hooks: hooks, Drain: true})
		w.HandleAny(func(context.Context, *spool.Lease) error { return nil })
		for n := range 10 {
			enqueue(t, c, "q", fmt.Sprintf("t%d", n), 1)
		}
		enqueue(t, c, "q", spoolprom.Other, 1)
		if err := w.Run(t.Context()); err != nil {
			t.Fatal(i, err)
		}
	}
	runs := scrapeOf(t, r).part("spool_worker_runs_total")
	sum := 0.0
	for _, n := range runs {
		sum += n
	}
	if len(runs) != 4 || sum != 22 {
		t.Errorf("%d series of %v runs: %v", len(runs), sum, runs)
	}
	defer func() {
		if recover() == nil {
			t.Error("metrics of somebody else under these names are taken for ours")
		}
	}()
	r = prometheus.NewPedanticRegistry()
	r.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{Name: "spool_worker_runs_total", Help: "mine"}))
	spoolprom.NewHooks(r, spoolprom.HooksConfig{})
}

func TestARouteIsAPatternNeverAPath(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /jobs/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "none" {
			w.WriteHeader(http.StatusNotFound)
		}
		if err := http.NewResponseController(w).Flush(); err != nil {
			t.Errorf("a stream cannot be flushed: %v", err)
		}
	})
	h := spoolprom.NewHTTP(r)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Host == "evil" {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	spoolprom.NewHTTP(r) // a second time is the same
	for i := range 100 {
		h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", fmt.Sprintf("/jobs/%d", i), nil))
	}
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/jobs/none", nil))
	h.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("PROPFIND", "http://evil/x", nil))
	want := values{
		`spool_http_request_duration_seconds{code="200",route="GET /jobs/{id}"}`: 100,
		`spool_http_request_duration_seconds{code="404",route="GET /jobs/{id}"}`: 1,
		`spool_http_request_duration_seconds{code="403",route="_none"}`:          1,
	}
	if d := difference(scrapeOf(t, r), want); d != "" {
		t.Error(d)
	}
}
