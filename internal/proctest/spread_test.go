//go:build linux

package proctest

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/redisbroker"
	"github.com/spoolq/spool/internal/redistest"
	"github.com/spoolq/spool/server"
)

// A client of a server makes the ids of its jobs, and knows nothing of parts.
func TestJobsOfAClientFitASpreadQueueOfTheServers(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b, err := redisbroker.Open(t.Context(), s.URL(), redisbroker.Config{})
	must(t, err)
	for _, queue := range []string{"wide", "also"} {
		must(t, b.SetSpread(t.Context(), queue, 3))
	}
	h, err := server.New(spool.New(b, spool.Config{}), server.Config{})
	must(t, err)
	l := httptest.NewServer(h)
	t.Cleanup(func() { h.Stop(); l.Close(); _ = b.Close() })
	far, err := httpbroker.Open(t.Context(), l.URL, httpbroker.Config{})
	must(t, err)
	c := spool.New(far, spool.Config{})
	t.Cleanup(func() { _ = c.Close() })
	ids := map[spool.ID]bool{}
	for i := range 20 {
		name := fmt.Sprint(i)
		for _, job := range []spool.Spec{
			spool.Raw("keyed", []byte(name), spool.Queue("wide"), spool.Key(name)),
			spool.Raw("ordered", []byte(name), spool.Queue("wide"), spool.Ordered(), spool.Group(name)),
			spool.Raw("plain", []byte(name), spool.Queue("wide")),
		} {
			got, err := c.Enqueue(t.Context(), job)
			if err != nil {
				t.Fatalf("job %d: %v", i, err)
			}
			if ids[got[0].ID] = true; got[0].Existing {
				t.Errorf("job %d was there: %+v", i, got)
			}
		}
		if again, err := c.Enqueue(t.Context(), spool.Raw("keyed", []byte(name), spool.Queue("wide"), spool.Key(name))); err != nil || !again[0].Existing || !ids[again[0].ID] {
			t.Errorf("key %s again: %+v, %v", name, again, err)
		}
	}
	if len(ids) != 60 {
		t.Errorf("%d ids of 60 jobs", len(ids))
	}
	worked := followed(t, c, ids)
	if worked != 60+60 {
		t.Errorf("%d jobs were worked", worked)
	}
}

// followed works all jobs of the first queue, each with a keyed one in the other that
// follows, and these.
func followed(t *testing.T, c *spool.Client, ids map[spool.ID]bool) (worked int) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); worked < 2*len(ids) && time.Now().Before(end); {
		leases, err := c.Claim(t.Context(), broker.ClaimRequest{Queues: []string{"wide", "also"}, Max: 10, TTL: time.Minute, Worker: "w"})
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range leases {
			if l.Job.Queue == "wide" && !ids[l.Job.ID] {
				t.Errorf("claimed %v, which nobody was told of", l.Job.ID)
			}
			followWith(t, l)
			worked++
		}
	}
	return worked
}

func followWith(t *testing.T, l *spool.Lease) {
	t.Helper()
	if l.Job.Queue == "wide" {
		next := spool.Raw("next", nil, spool.Queue("also"), spool.Key(l.Job.ID.String()))
		if _, err := l.Enqueue(context.Background(), next); err != nil {
			t.Error(err)
		}
	}
	if err := l.Ack(context.Background(), nil); err != nil {
		t.Errorf("ack of %v: %v", l.Job.ID, err)
	}
}
