package filebroker

import (
	"context"
	"testing"

	"github.com/spoolq/spool/broker"
)

// open opens a handle on a real directory, closed at the end of the test.
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

// fill enqueues n jobs with their number as payload, one call each.
func fill(t testing.TB, b *Broker, n int) (ids []broker.ID) {
	t.Helper()
	for i := range n {
		got, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: []byte{byte(i)}, MaxAttempts: 2}})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, got[0].ID)
	}
	return ids
}

// take claims up to n jobs.
func take(t testing.TB, b *Broker, n int) []broker.Lease {
	t.Helper()
	c, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Max: n, Worker: "w"})
	if err != nil {
		t.Fatal(err)
	}
	return c.Leases
}

// settle ends leases in the same way.
func settle(t testing.TB, b *Broker, kind broker.SettleKind, leases ...broker.Lease) {
	t.Helper()
	var list []broker.Settlement
	for _, l := range leases {
		list = append(list, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: kind, Error: "text"})
	}
	answers, err := b.Settle(context.Background(), broker.NewCall(), list)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range answers {
		if a.Err != nil {
			t.Fatal(a.Err)
		}
	}
}

func counts(t testing.TB, b *Broker) broker.Count {
	t.Helper()
	all, err := b.Counts(context.Background(), "q")
	if err != nil || len(all) != 1 {
		t.Fatalf("counts: %v %v", all, err)
	}
	return all[0]
}

func TestClosingAHandleGivesItsLeasesToOthers(t *testing.T) {
	dir := t.TempDir()
	a, b := open(t, dir), open(t, dir)
	fill(t, a, 3)
	first := take(t, a, 3)
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	second := take(t, b, 3)
	if len(first) != 3 || len(second) != 3 {
		t.Fatalf("%d leases, then %d", len(first), len(second))
	}
	for i := range second {
		if second[i].Token <= first[i].Token || second[i].Job.Attempt != 2 {
			t.Errorf("second lease has token %v, attempt %d; the first had %v", second[i].Token, second[i].Job.Attempt, first[i].Token)
		}
	}
}

func TestTokensGrowWhenAllProcessesWereGone(t *testing.T) {
	dir := t.TempDir()
	var last broker.Token
	for range 4 {
		b := open(t, dir)
		if last == 0 {
			fill(t, b, 1)
		}
		l := take(t, b, 1)
		if len(l) != 1 || l[0].Token <= last {
			t.Fatalf("leases %v after token %v", l, last)
		}
		last = l[0].Token
		settle(t, b, broker.Release, l...)
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCompactionKeepsWhatIsLiveAndFreesTheRest(t *testing.T) {
	dir := t.TempDir()
	a, err := Open(dir, Config{segment: 32 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	other := open(t, dir)
	fill(t, a, 400)
	settle(t, a, broker.Ack, take(t, a, 390)...)
	dead := take(t, a, 1)
	settle(t, a, broker.Bury, dead...)
	before := counts(t, other)
	c, err := a.Compact(context.Background())
	if err != nil || c.Checkpoint == 0 || c.Jobs != 10 || c.Removed == 0 || c.Moved == 0 {
		t.Fatalf("%+v %v", c, err)
	}
	late := open(t, dir)
	for name, b := range map[string]*Broker{"the compacting handle": a, "one past the checkpoint": other, "one opened after it": late} {
		if got := counts(t, b); got != before {
			t.Errorf("%s counts %+v, want %+v", name, got, before)
		}
		jobs, err := b.Get(context.Background(), []broker.Ref{dead[0].Job.Ref()})
		if err != nil || string(jobs[0].Payload) != string(dead[0].Job.Payload) || jobs[0].Error != "text" {
			t.Errorf("%s reads the dead job as %+v, %v", name, jobs, err)
		}
	}
	for i, l := range take(t, other, 10) {
		if want := byte(391 + i%256); len(l.Job.Payload) != 1 || l.Job.Payload[0] != want {
			t.Errorf("job %d has payload %v, want %v", i, l.Job.Payload, want)
		}
	}
	if v, err := Verify(dir); err != nil || !v.OK {
		t.Errorf("%+v %v", v, err)
	}
}
