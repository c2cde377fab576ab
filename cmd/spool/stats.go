package main

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

type statsCmd struct {
	Queue name `short:"q" placeholder:"NAME" help:"Of this queue."`
}

// statsView is what stats prints with --json.
type statsView struct {
	Health broker.Health `json:"health"`
	// Durability is what an acknowledged call survives, in words for people.
	Durability string `json:"durability"`

	Counts  []broker.Count  `json:"counts"`
	Workers []broker.Worker `json:"workers"`

	Capacities []settingView `json:"capacities"` // sorted by queue, a queue's own before that of its tenants
}

// Run shows the numbers.
func (c *statsCmd) Run(a *app) error {
	return a.with(reading, func(ctx context.Context, client *spool.Client) error {
		v, err := c.read(ctx, client)
		switch {
		case err != nil:
			return err
		case a.json:
			return a.object(v)
		}
		return a.stats(v)
	})
}

func (c *statsCmd) read(ctx context.Context, client *spool.Client) (*statsView, error) {
	v := &statsView{Durability: client.Broker().Caps().Durability, Counts: []broker.Count{}, Workers: []broker.Worker{}, Capacities: []settingView{}}
	var err error
	if v.Health, err = client.Health(ctx); err != nil {
		return nil, err
	}
	counts, err := client.Counts(ctx, string(c.Queue))
	if err != nil {
		return nil, err
	}
	workers, err := client.Workers(ctx, string(c.Queue))
	if err != nil {
		return nil, err
	}
	v.Counts, v.Workers = append(v.Counts, counts...), append(v.Workers, workers...)
	settings, err := client.Settings(ctx, string(c.Queue))
	if errors.Is(err, spool.ErrUnsupported) {
		return v, nil // a broker without settings has no capacities
	}
	if err != nil {
		return nil, err
	}
	for i := range settings {
		if s := &settings[i]; s.Kind == broker.CapacitySetting {
			v.Capacities = append(v.Capacities, newSettingView(s.Queue, &s.Setting))
		}
	}
	return v, nil
}

func (a *app) stats(v *statsView) error {
	health := string(v.Health.Status)
	if v.Health.Text != "" {
		health += ": " + text.Safe(v.Health.Text)
	}
	if err := a.printf("store %s is %s", a.place(), health); err != nil {
		return err
	}
	if v.Health.Detail != "" {
		if err := a.printf("%s", text.Safe(v.Health.Detail)); err != nil {
			return err
		}
	}
	if err := a.printf("durability: %s", text.Safe(v.Durability)); err != nil {
		return err
	}
	if len(v.Counts) > 0 {
		w := a.table("\nQUEUE", "TASK", "SCHEDULED", "READY", "LEASED", "DONE", "DEAD", "CANCELLED", "| EVER ENQUEUED", "ACKED", "FAILED", "EXPIRED", "DEAD LETTERS")
		for _, n := range v.Counts {
			queue := n.Queue
			if n.Paused {
				queue += " (paused)"
			}
			if n.Moving != "" {
				queue += " (" + text.Safe(n.Moving) + ")"
			}
			cells := []string{queue, n.Task}
			for _, s := range broker.States {
				cells = append(cells, text.Count(n.Of(s)))
			}
			t := n.Totals
			row(w, append(cells, "| "+text.Count(t.Enqueued), text.Count(t.Acked), text.Count(t.Failed), text.Count(t.Expired), text.Count(t.Died))...)
		}
		if err := w.Flush(); err != nil {
			return err
		}
		if err := a.depths(v); err != nil {
			return err
		}
	}
	if len(v.Workers) == 0 {
		return a.printf("\nno live workers")
	}
	w := a.table("\nWORKER", "HOST", "PID", "QUEUES", "TASKS", "RUNNING", "STARTED")
	for _, k := range v.Workers {
		row(w, text.Safe(k.Name), text.Safe(k.Host), strconv.Itoa(k.PID), names(k.Queues, "every queue"), names(k.Tasks, "any task"),
			strconv.Itoa(k.Leases)+"/"+strconv.Itoa(k.Concurrency), text.Ago(k.StartedAt, a.now()))
	}
	return w.Flush()
}

// depths prints how full each queue is: what waits and runs, the most that it
// ever was, and what may be.
func (a *app) depths(v *statsView) error {
	w := a.table("\nQUEUE", "DEPTH", "HIGH WATER", "BYTES", "CAPACITY")
	for i := range v.Counts {
		n := &v.Counts[i]
		if i > 0 && v.Counts[i-1].Queue == n.Queue {
			continue // each count of a queue says the same
		}
		row(w, n.Queue, text.Count(n.Depth), text.Count(n.HighWater), text.Bytes(n.Bytes), v.capacity(n.Queue))
	}
	return w.Flush()
}

// capacity says what may be in a queue.
func (v *statsView) capacity(queue string) string {
	var all []string
	for _, s := range v.Capacities {
		switch {
		case s.Queue != queue:
		case s.Name == broker.TenantCapacity:
			all = append(all, "each tenant "+capacityGist(s.Capacity))
		default:
			all = append(all, capacityGist(s.Capacity))
		}
	}
	if len(all) == 0 {
		return "-"
	}
	return strings.Join(all, "; ")
}

// names joins names for a table, and cuts a long list.
func names(list []string, none string) string {
	const most = 4
	s := none
	for i, n := range list {
		switch {
		case i == 0:
			s = n
		case i == most:
			return s + " and " + strconv.Itoa(len(list)-most) + " more"
		default:
			s += "," + n
		}
	}
	return s
}
