package spoolprom_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	dto "github.com/prometheus/client_model/go"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/spoolprom"
)

// populated is a registry with every metric, of a store in which there is
// something of everything.
func populated(t *testing.T) prometheus.Gatherer {
	t.Helper()
	b, err := filebroker.Open(t.TempDir(), filebroker.Config{AllowUnsafeFS: true})
	if err != nil {
		t.Fatal(err)
	}
	c := quiet(b)
	t.Cleanup(func() { c.Close() })
	settle(t, c)
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(spoolprom.NewCollector(c, fresh))
	work(t, c, spoolprom.NewHooks(r, spoolprom.HooksConfig{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/queues", func(http.ResponseWriter, *http.Request) {})
	spoolprom.NewHTTP(r)(mux).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest("GET", "/v1/queues", nil))
	return r
}

// settle makes settings of each sort.
func settle(t *testing.T, c *spool.Client) {
	t.Helper()
	err := c.Configure(t.Context(), "q", broker.Change{Set: []broker.Setting{
		{Kind: broker.LimitSetting, Name: "two", Limit: &broker.Limit{Tasks: []string{"mail"}, Running: 2}},
		{Kind: broker.LimitSetting, Name: "slow", Limit: &broker.Limit{Tasks: []string{"mail"}, Count: 1000, Every: time.Second}},
		{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 100, Bytes: 10_000}},
		{Kind: broker.ScheduleSetting, Name: "nightly", Schedule: &broker.Schedule{Spec: "@daily", Job: broker.NewJob{Task: "mail"}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	tick := broker.Tick{Queue: "q", Schedule: "nightly", Next: time.Now().Add(time.Hour)}
	if won, _, err := c.Broker().Tick(t.Context(), broker.NewCall(), tick); !won || err != nil {
		t.Fatal(won, err)
	}
}

// work runs jobs that end well and badly, and leaves some.
func work(t *testing.T, c *spool.Client, hooks spool.Hooks) {
	t.Helper()
	w := spool.NewWorker(c, spool.WorkerConfig{Hooks: hooks, Drain: true, NoScheduler: true})
	var once sync.Once
	w.HandleAny(func(_ context.Context, l *spool.Lease) error {
		once.Do(func() { hooks.Fault("claim", errors.New("none came")) }) // as a worker says that its broker failed
		if l.Job.Task == "bad" {
			return errors.New("no")
		}
		return nil
	})
	enqueue(t, c, "q", "mail", 3)
	enqueue(t, c, "q", "bad", 1, spool.MaxAttempts(1))
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	enqueue(t, c, "q", "mail", 2)
	enqueue(t, c, "q", "mail", 1, spool.Delay(time.Hour))
}

// families are those of a populated registry.
func families(t *testing.T) []*dto.MetricFamily {
	t.Helper()
	all, err := populated(t).Gather()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestTheMetricsFollowTheConventions(t *testing.T) {
	problems, err := testutil.GatherAndLint(populated(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
