package jobstate

import (
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// What a claim looks at does not grow with the tenants that wait.
func TestAgeingCostsLittleMoreWithManyTenants(t *testing.T) {
	least := func(tenants int) time.Duration {
		h := newHistory(t, 1)
		h.commit(func() {
			if err := h.s.Configure(&h.w, "q", &broker.Change{Set: []broker.Setting{{Kind: broker.AgeingSetting, Ageing: time.Second}}}); err != nil {
				t.Fatal(err)
			}
		})
		for i := range 20_000 {
			h.put(broker.NewJob{Task: "t", Tenant: fmt.Sprint(i % tenants), Priority: int32(i % 3)})
		}
		took := time.Hour
		for range 20 {
			began := time.Now()
			h.run()
			took = min(took, time.Since(began))
		}
		if n := len(h.leases); n != 200 {
			t.Fatalf("%d leases", n)
		}
		return took
	}
	if few, many := least(10), least(20_000); many > 50*few {
		t.Errorf("a claim takes %v among 10 tenants, %v among 20,000", few, many)
	}
}
