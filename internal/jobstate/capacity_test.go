package jobstate

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

func TestAFullQueueSaysWhatIsBounded(t *testing.T) {
	l := load{jobs: 7, bytes: 700, ready: 3, readyBytes: 300}
	tenant := "acme"
	for _, c := range []struct {
		name   string
		bound  broker.Capacity
		tenant *string
		need   need
		want   string
	}{
		{"jobs alone", broker.Capacity{Jobs: 7}, nil, need{1, 50}, "queue q has 7 jobs, its capacity is 7, and this would add 1"},
		{"bytes alone", broker.Capacity{Bytes: 720}, nil, need{1, 50}, "queue q has 700 bytes, its capacity is 720, and this would add 50"},
		{"both", broker.Capacity{Jobs: 9, Bytes: 720}, nil, need{1, 50},
			"queue q has 7 jobs, its capacity is 9, and this would add 1; has 700 bytes, its capacity is 720, and this would add 50"},
		{"a tenant's", broker.Capacity{Jobs: 7}, &tenant, need{2, 50}, `tenant "acme" of queue q has 7 jobs, its capacity is 7, and this would add 2`},
		{"more than dropping makes room for", broker.Capacity{Jobs: 7, DropOldest: true}, nil, need{4, 50}, "queue q has 7 jobs, its capacity is 7, and this would add 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var full *broker.FullError
			if err := (&capacity{c.bound}).check("q", c.tenant, l, c.need); !errors.As(err, &full) || full.Text != c.want {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}

// full makes a history with a queue that is full of jobs of so many tenants, and
// returns how long it takes, at best, to add n of them once more.
func full(t *testing.T, name string, tenants int) (add func(n int) time.Duration) {
	t.Helper()
	c := &broker.Capacity{Jobs: int64(tenants), DropOldest: true}
	if name == broker.TenantCapacity {
		c.Jobs = 1
	}
	h := newHistory(t, 1)
	h.commit(func() {
		if err := h.s.Configure(&h.w, "q", &broker.Change{Set: []broker.Setting{{Kind: broker.CapacitySetting, Name: name, Capacity: c}}}); err != nil {
			t.Fatal(err)
		}
	})
	jobs := make([]broker.NewJob, tenants)
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Tenant: fmt.Sprint(i)}
	}
	h.put(jobs...)
	return func(n int) time.Duration {
		took := time.Hour
		for range 10 {
			began := time.Now()
			h.put(jobs[:n]...)
			took = min(took, time.Since(began))
		}
		return took
	}
}

// One drop looks at every tenant; those of one call are to share that.
func TestMakingRoomForManyCostsLittleMoreThanForOne(t *testing.T) {
	add := full(t, "", 10_000)
	if one, all := add(1), add(1000); all > 200*one {
		t.Errorf("one job takes %v, 1000 take %v", one, all)
	}
}

func TestMakingRoomForATenantLooksAtNoOther(t *testing.T) {
	few, many := full(t, broker.TenantCapacity, 100)(1), full(t, broker.TenantCapacity, 10_000)(1)
	if many > 20*few {
		t.Errorf("one job takes %v among 100 tenants, %v among 10,000", few, many)
	}
}
