//go:build linux

package proctest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// runHoarder claims a job, allows itself 32 MiB more of memory than it has, and
// enqueues batches, each of which it keeps a copy of, until it has no more.
func runHoarder(t *teller, p plan) error {
	c, err := openStore(p)
	if err != nil {
		return err
	}
	leases, err := c.Claim(context.Background(), broker.ClaimRequest{Max: 1, TTL: time.Hour, Worker: p.Name})
	if err != nil || len(leases) != 1 {
		return fmt.Errorf("claimed %d: %w", len(leases), err)
	}
	if err := allowMemory(32 << 20); err != nil {
		return err
	}
	t.tell(event{What: "up"})
	var hoard [][]spool.Spec
	for done := int64(0); ; {
		payload := bytes.Repeat([]byte("x"), 100_000)
		hoard = append(hoard, slices.Repeat([]spool.Spec{spool.Raw("hoarded", payload)}, 10))
		got, err := c.Enqueue(context.Background(), hoard[len(hoard)-1]...)
		if err != nil {
			return err
		}
		done += int64(len(got))
		t.tell(event{What: "hoarded", Number: done})
	}
}

// allowMemory limits the memory of this process to what it has and so much more.
func allowMemory(more uint64) error {
	text, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	_, rest, _ := strings.Cut(string(text), "VmData:")
	has, err := strconv.ParseUint(strings.Fields(rest + " 0")[0], 10, 64)
	if err != nil {
		return err
	}
	limit := has<<10 + more
	return syscall.Setrlimit(unix.RLIMIT_DATA, &syscall.Rlimit{Cur: limit, Max: limit})
}

// TestAProcessWithoutMemoryTakesNothingWithIt: Go ends a process that gets no more.
func TestAProcessWithoutMemoryTakesNothingWithIt(t *testing.T) {
	dir := newStore(t)
	first := enqueue(t, dir, 1, note)
	witness := opened(t, plan{Store: dir, Name: "witness"})
	hoarder := start(t, plan{Role: asHoarder, Store: dir, Name: "hoarder"})
	hoarder.await("up", 1)
	<-hoarder.ended
	said := strings.Contains(hoarder.log(), "out of memory") || strings.Contains(hoarder.log(), "failed to allocate") // the race detector
	if hoarder.err == nil || !said {
		t.Errorf("it ended with %v: %.200s", hoarder.err, hoarder.log())
	}
	if got := witness.claimAtLast(); got.id() != first[0] {
		t.Errorf("claimed %+v, not the job %v that the process held", got, first)
	}
	told, _ := hoarder.told("hoarded")
	least := int64(0)
	if len(told) > 0 {
		least = told[len(told)-1].Number
	}
	if a := witness.ask(order{Do: "enqueue"}); a.Text != "" {
		t.Errorf("an enqueue afterwards: %s", a.Text)
	}
	witness.finish()
	if v, err := filebroker.Verify(dir); err != nil || !v.OK {
		t.Errorf("the store is %+v, %v", v, err)
	}
	with(t, dir, func(c *spool.Client) {
		if got := ready64(t, c)["hoarded"]; got < least || got > least+10 || got%10 != 0 {
			t.Errorf("there are %d jobs, acknowledged were %d, in tens", got, least)
		}
	})
}
