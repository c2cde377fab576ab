package filebroker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

func open(t testing.TB, dir string) *Broker {
	t.Helper()
	b, err := Open(dir, Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func TestAJobLivesThroughTwoHandlesAndAReopen(t *testing.T) {
	ctx := context.Background()
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	got, err := a.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: []byte("one")}, {Task: "t", Payload: []byte("two")}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w"})
	if err != nil || len(c.Leases) != 1 || string(c.Leases[0].Job.Payload) != "one" || c.Leases[0].Job.ID != got[0].ID {
		t.Fatalf("%+v %v", c, err)
	}
	l := c.Leases[0]
	st, err := a.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack, Result: []byte("r")}})
	if err != nil || st[0].Err != nil {
		t.Fatal(st, err)
	}
	c, err = b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 10, Worker: "w"})
	if err != nil || len(c.Leases) != 1 {
		t.Fatalf("%+v %v", c, err)
	}
	b.Close()
	counts, err := a.Counts(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	fmt.Printf("%+v\n", counts)
	a.Close()
	d := open(t, dir)
	counts, err = d.Counts(ctx, "q")
	fmt.Printf("%+v %v\n", counts, err)
	start := time.Now()
	done := make(chan struct{})
	e := open(t, dir)
	go func() {
		c, err := e.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"z"}, Max: 10, Worker: "w", Wait: 10 * time.Second})
		fmt.Println(len(c.Leases), err, time.Since(start))
		close(done)
	}()
	time.Sleep(50 * time.Millisecond)
	start = time.Now()
	if _, err := d.Enqueue(ctx, broker.NewCall(), "z", []broker.NewJob{{Task: "t"}}); err != nil {
		t.Fatal(err)
	}
	<-done
	cc, err := d.Compact(ctx)
	fmt.Printf("%+v %v\n", cc, err)
	f := open(t, dir)
	counts, err = f.Counts(ctx, "")
	fmt.Printf("%+v %v\n", counts, err)
}
