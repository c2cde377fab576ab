package brokertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
)

func TestModelWaitsOnPackageTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewModel(nil)
		ctx := context.Background()
		_, err := m.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t", Delay: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		got, err := m.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 2, Wait: 2 * time.Hour})
		if err != nil || len(got.Leases) != 1 {
			t.Fatalf("claim: %v, %d leases", err, len(got.Leases))
		}
		if waited := time.Since(start); waited != time.Hour {
			t.Errorf("waited %v, want 1h", waited)
		}
	})
}
