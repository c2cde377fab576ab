//go:build linux

package proctest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

// runContender enqueues one job after the other, each synced, from the order "go"
// on for as long as that says; with a pause before each, as the order's N says in
// milliseconds. Then it tells how many there were, and how long they took.
func runContender(t *teller, p plan) error {
	c, err := openStore(p)
	if err != nil {
		return err
	}
	if _, err := note.Enqueue(context.Background(), c, args{}); err != nil {
		return err
	}
	t.tell(event{What: "up"})
	for o := range orders() {
		var waits []time.Duration
		for begun := now(); now()-begun < o.For; {
			if o.N > 0 {
				<-time.After(time.Duration(o.N) * time.Millisecond)
			}
			before := now()
			if _, err := note.Enqueue(context.Background(), c, args{}); err != nil {
				return err
			}
			waits = append(waits, now()-before)
		}
		slices.Sort(waits)
		n := len(waits)
		t.tell(event{What: "contended", Number: int64(n), Waits: []time.Duration{waits[n/2], waits[n*99/100], waits[n-1]}})
	}
	return c.Close()
}

// contenders starts processes, and lets them begin together once all have the store
// open. It returns what each of them tells.
func contenders(t *testing.T, dir string, orders []order) (told []event) {
	t.Helper()
	all := make([]*process, len(orders))
	for i := range all {
		all[i] = start(t, plan{Role: asContender, Store: dir, Name: fmt.Sprint("contender-", i)})
	}
	for _, p := range all {
		p.await("up", 1)
	}
	for i, p := range all {
		p.order(orders[i])
	}
	for i, p := range all {
		e := p.await("contended", 1)[0]
		t.Logf("process %d: %d jobs; a call took %v (p50), %v (p99), at most %v", i, e.Number, e.Waits[0], e.Waits[1], e.Waits[2])
		told = append(told, e)
		p.finish()
	}
	return told
}

// TestProofThatSixteenProcessesShareTheDisk has them do nothing but enqueue and
// wait for the disk. What is stated of it is the share of each; how long a call took
// is shown.
func TestProofThatSixteenProcessesShareTheDisk(t *testing.T) {
	const n = 16
	dir := newStore(t)
	told := contenders(t, dir, slices.Repeat([]order{{Do: "go", For: size(time.Second, 10*time.Second)}}, n))
	total, least := int64(0), told[0].Number
	for _, e := range told {
		total += e.Number
		least = min(least, e.Number)
	}
	share := float64(least) * n / float64(total)
	t.Logf("%d jobs; the least had %.2f of the fair share", total, share)
	if share < size(0.1, 0.6) { // a busy machine's scheduler is in it
		t.Errorf("a process had %.2f of its fair share", share)
	}
	with(t, dir, func(c *spool.Client) {
		if got := ready64(t, c)[note.Name()]; got != total+n {
			t.Errorf("there are %d jobs, acknowledged were %d", got, total+n)
		}
	})
}

// TestProofThatAPoliteProcessIsNotKeptWaiting has one process pause for ten
// milliseconds before each call, beside three that do not.
func TestProofThatAPoliteProcessIsNotKeptWaiting(t *testing.T) {
	span := size(time.Second, 10*time.Second)
	hog, polite := order{Do: "go", For: span}, order{Do: "go", For: span, N: 10}
	told := contenders(t, newStore(t), []order{polite, hog, hog, hog})
	if most := int64(span / (10 * time.Millisecond)); told[0].Number < most*size[int64](10, 60)/100 {
		t.Errorf("it came to %d calls of at most %d", told[0].Number, most)
	}
}
