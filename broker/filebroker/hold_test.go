package filebroker

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

func TestALeaseOutlivesItsDeadlineAndItsHandleWhileItsLockIsHeld(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	fill(t, a, 1)
	c, err := a.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w", TTL: 100 * time.Millisecond})
	if err != nil || len(c.Leases) != 1 {
		t.Fatal(c, err)
	}
	l := c.Leases[0]
	if _, _, err := a.Hold(ctx, l.Job.Ref(), l.Token+1); !errors.Is(err, broker.ErrLeaseLost) {
		t.Errorf("hold with another token: %v", err)
	}
	file, release, err := a.Hold(ctx, l.Job.Ref(), l.Token)
	if err != nil {
		t.Fatal(err)
	}
	must(t, b.cur.Load().want(ctx))
	if err := b.cur.Load().settleDead([]string{a.cur.Load().member.name}); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); {
		if _, err := b.Maintain(ctx); err != nil {
			t.Fatal(err)
		}
		if got := take(t, b, 1); len(got) > 0 {
			t.Fatal("the job was claimed while the lock of its lease was held")
		}
	}
	if err := errors.Join(file.Close(), release()); err != nil {
		t.Fatal(err)
	}
	if got := take(t, b, 1); len(got) != 1 || got[0].Token <= l.Token {
		t.Errorf("after the lock was released: %v", got)
	}
}

func TestReleasingAHeldLeaseThatWasNotSettledGivesItsJobBack(t *testing.T) {
	ctx := context.Background()
	b := open(t, t.TempDir())
	fill(t, b, 2)
	for i, l := range take(t, b, 2) {
		file, release, err := b.Hold(ctx, l.Job.Ref(), l.Token)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			settle(t, b, broker.Ack, l)
		}
		if err := errors.Join(file.Close(), release()); err != nil {
			t.Fatal(err)
		}
	}
	if c := counts(t, b); c.Ready != 1 || c.Leased != 0 || c.Totals.Acked != 1 {
		t.Errorf("%+v", c)
	}
}
