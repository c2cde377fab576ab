//go:build linux && (amd64 || arm64)

package disktest

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// TestAFullDiskIsDrainedWhileItStaysFull lets another file take all room of a real
// file system in which 10,000 jobs wait: they are worked off, by a client that was
// there and one that comes, and jobs are taken again without a restart once there is
// room.
func TestAFullDiskIsDrainedWhileItStaysFull(t *testing.T) {
	canMount(t, "mkfs.ext4")
	const jobs = 10_000
	batch := 100
	if *full {
		batch = 1
	}
	at := tmpfs(t, 24<<20)
	p := plan{Store: filepath.Join(at, "jobs")}
	b, err := open(p)
	must(t, err)
	defer b.Close()
	for range jobs / 1000 {
		must(t, add(b, 1000, 100))
	}
	other := filepath.Join(at, "other")
	takeRest(t, other)
	for err = nil; err == nil; { // in what the store has prepared
		err = add(b, 1, 100_000)
	}
	if !errors.Is(err, broker.ErrFull) {
		t.Fatalf("with no room left: %v", err)
	}
	takeRest(t, filepath.Join(at, "rest"))
	late, err := open(p)
	must(t, err)
	defer late.Close()
	done := 0
	for _, who := range []*filebroker.Broker{b, late} {
		for n := -1; n != 0 && (who == late || done < jobs/2); done += n {
			n = workOff(t, who, batch)
		}
	}
	if done < jobs {
		t.Errorf("%d of %d jobs were worked off", done, jobs)
	}
	must(t, os.Remove(other))
	begun := time.Now()
	for _, who := range []*filebroker.Broker{b, late} {
		again := time.NewTicker(10 * time.Millisecond)
		defer again.Stop()
		for err := add(who, 1, 100); err != nil; err = add(who, 1, 100) {
			if <-again.C; !errors.Is(err, broker.ErrFull) || time.Since(begun) > mending {
				t.Fatalf("with room again, after %v: %v", time.Since(begun), err)
			}
		}
	}
	t.Logf("%d jobs were worked off; with room again jobs were taken after %v", done, time.Since(begun))
}

func add(b *filebroker.Broker, n, size int) error {
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, size)}
	}
	_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
	return err
}

// workOff claims and acks up to n jobs.
func workOff(t *testing.T, b *filebroker.Broker, n int) int {
	t.Helper()
	got, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: n, TTL: time.Hour, Worker: "w"})
	must(t, err)
	var list []broker.Settlement
	for _, l := range got.Leases {
		list = append(list, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack})
	}
	if len(list) == 0 {
		return 0
	}
	settled, err := b.Settle(context.Background(), broker.NewCall(), list)
	must(t, err)
	for _, s := range settled {
		must(t, s.Err)
	}
	return len(list)
}

// takeRest writes a file until there is no room left.
func takeRest(t testing.TB, name string) {
	t.Helper()
	f, err := os.Create(name)
	must(t, err)
	defer f.Close()
	for err == nil {
		_, err = f.Write(make([]byte, 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
}
