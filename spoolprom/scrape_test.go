package spoolprom_test

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/spoolprom"
)

// values are the samples of one scrape, by name and labels.
type values map[string]float64

// gather scrapes a collector: what cannot be gathered fails the test.
func gather(t testing.TB, c prometheus.Collector) values {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(c)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	return samples(families)
}

func samples(families []*dto.MetricFamily) values {
	v := values{}
	for _, f := range families {
		for _, m := range f.Metric {
			var labels []string
			for _, l := range m.Label {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			v[f.GetName()+"{"+strings.Join(labels, ",")+"}"] = m.GetGauge().GetValue() + m.GetCounter().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return v
}

// part are the samples whose name begins with one of the prefixes.
func (v values) part(prefixes ...string) values {
	p := values{}
	for name, value := range v {
		if slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) }) {
			p[name] = value
		}
	}
	return p
}

// want fails the test unless v has the sample with that value.
func (v values) want(t testing.TB, name string, value float64) {
	t.Helper()
	if got, ok := v[name]; !ok || got != value {
		t.Errorf("%s is %v (there: %v), want %v", name, got, ok, value)
	}
}

func (v values) wantNone(t testing.TB, prefix string) {
	t.Helper()
	for name := range v.part(prefix) {
		t.Errorf("%s is there", name)
	}
}

// difference lists how two scrapes differ, for people.
func difference(got, want values) string {
	var lines []string
	for name, v := range want {
		if w, ok := got[name]; !ok || w != v {
			lines = append(lines, fmt.Sprintf("%s: got %v (there: %v), want %v", name, w, ok, v))
		}
	}
	for name, v := range got {
		if _, ok := want[name]; !ok {
			lines = append(lines, fmt.Sprintf("%s: got %v, want none", name, v))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// expected is what a scrape has to say of counts.
func expected(counts []broker.Count) values {
	v := values{}
	for _, c := range counts {
		if c.Task != "" { // else it is a paused queue in which no job ever was
			v.expect(&c)
		}
		queue := fmt.Sprintf("{queue=%q}", c.Queue)
		v["spool_queue_depth"+queue] = float64(c.Depth)
		v["spool_queue_depth_high_water"+queue] = float64(c.HighWater)
		v["spool_queue_bytes"+queue] = float64(c.Bytes)
		v["spool_queue_paused"+queue] = 0
		if c.Paused {
			v["spool_queue_paused"+queue] = 1
		}
	}
	return v
}

// expect adds what a scrape has to say of a task.
func (v values) expect(c *broker.Count) {
	labels := fmt.Sprintf("{queue=%q,task=%q}", c.Queue, c.Task)
	for state, n := range map[string]int64{
		"scheduled": c.Scheduled, "ready": c.Ready, "leased": c.Leased, "done": c.Done, "dead": c.Dead, "cancelled": c.Cancelled,
	} {
		v[fmt.Sprintf("spool_jobs{queue=%q,state=%q,task=%q}", c.Queue, state, c.Task)] = float64(n)
	}
	for name, n := range map[string]int64{
		"enqueued": c.Totals.Enqueued, "claimed": c.Totals.Claimed, "acked": c.Totals.Acked, "failed": c.Totals.Failed,
		"expired": c.Totals.Expired, "died": c.Totals.Died, "cancelled": c.Totals.Cancelled, "deleted": c.Totals.Deleted,
	} {
		v["spool_jobs_"+name+"_total"+labels] = float64(n)
	}
}

// ofCounts are the prefixes of what expected knows.
var ofCounts = []string{"spool_jobs", "spool_queue_depth", "spool_queue_bytes", "spool_queue_paused"}

// fresh is a configuration with which each scrape reads.
var fresh = spoolprom.Config{MaxAge: -1}

// quiet is a client that logs nothing.
func quiet(b broker.Broker) *spool.Client {
	return spool.New(b, spool.Config{Logger: slog.New(slog.DiscardHandler)})
}

// enqueue adds n jobs of a task to a queue.
func enqueue(t testing.TB, c *spool.Client, queue, task string, n int, opts ...spool.JobOption) {
	t.Helper()
	specs := make([]spool.Spec, n)
	for i := range specs {
		specs[i] = spool.Raw(task, []byte("{}"), append(opts, spool.Queue(queue))...)
	}
	if _, err := c.Enqueue(context.Background(), specs...); err != nil {
		t.Fatal(err)
	}
}

// screened is a broker some of whose answers a test changes.
type screened struct {
	broker.Broker
	counts func([]broker.Count) ([]broker.Count, error)
	health func() (broker.Health, error)
}

func (b *screened) Counts(ctx context.Context, queue string) ([]broker.Count, error) {
	got, err := b.Broker.Counts(ctx, queue)
	if err == nil && b.counts != nil {
		return b.counts(got)
	}
	return got, err
}

func (b *screened) Health(ctx context.Context) (broker.Health, error) {
	if b.health != nil {
		return b.health()
	}
	return b.Broker.Health(ctx)
}

// labelNames are the labels of each metric, and whether it is a histogram.
func labelNames(families []*dto.MetricFamily) map[string]map[string]bool {
	names := map[string]map[string]bool{}
	for _, f := range families {
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels[l.GetName()] = true
			}
		}
		if f.GetType() != dto.MetricType_HISTOGRAM {
			names[f.GetName()] = labels
			continue
		}
		names[f.GetName()], names[f.GetName()+"_sum"], names[f.GetName()+"_count"] = labels, labels, labels
		le := maps.Clone(labels)
		le["le"] = true
		names[f.GetName()+"_bucket"] = le
	}
	return names
}
