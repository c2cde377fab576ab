package filebroker

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// The tests here take stores of their own size from SPOOL_SCALE (default 1):
// at 30 they are those of the figures that docs/performance.md is about.
func scale(n int) int {
	if k, err := strconv.Atoi(os.Getenv("SPOOL_SCALE")); err == nil && k > 0 {
		return n * k
	}
	return n
}

// pauses are how long enqueues, claims and acks took. Claims wait for no sync.
type pauses [3][]time.Duration

func (p pauses) String() string {
	text := figures("all", slices.Concat(p[:]...))
	for i, name := range []string{"enqueues", "claims", "acks"} {
		text += "\n\t\t" + figures(name, p[i])
	}
	return text
}

func figures(name string, d []time.Duration) string {
	slices.Sort(d)
	at := func(q float64) time.Duration { return d[min(len(d)-1, int(q*float64(len(d))))].Round(time.Microsecond) }
	return fmt.Sprintf("%-8s %6d calls: p50 %v, p99 %v, p99.9 %v, max %v", name, len(d), at(.5), at(.99), at(.999), at(1))
}

// cycle enqueues, claims and acks one job at a time until ctx ends, and returns
// how long each call took.
func cycle(ctx context.Context, b *Broker, queue string) (all pauses, err error) {
	timed := func(kind int, call func() error) error {
		start := time.Now()
		err := call()
		all[kind] = append(all[kind], time.Since(start))
		return err
	}
	for bg := context.Background(); ctx.Err() == nil; {
		err := timed(0, func() error {
			_, err := b.Enqueue(bg, broker.NewCall(), queue, []broker.NewJob{{Task: "t", Payload: payload100}})
			return err
		})
		var got broker.Claimed
		if err == nil {
			err = timed(1, func() (err error) {
				got, err = b.Claim(bg, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 1, Worker: "w"})
				return err
			})
		}
		if err == nil && len(got.Leases) != 1 {
			err = fmt.Errorf("claimed %d jobs", len(got.Leases))
		}
		if err == nil {
			err = timed(2, func() error {
				settled, err := b.Settle(bg, broker.NewCall(), []broker.Settlement{{Ref: got.Leases[0].Job.Ref(), Token: got.Leases[0].Token, Kind: broker.Ack}})
				return errors.Join(err, errOf(settled))
			})
		}
		if err != nil {
			return all, err
		}
	}
	return all, nil
}

// TestCycleInAProcess is the second process of TestCompactionPausesNobody. It is
// told by a line on its input when to stop, and prints what it measured.
func TestCycleInAProcess(t *testing.T) {
	dir := os.Getenv("SPOOL_CYCLE_DIR")
	if dir == "" {
		return // only as a child
	}
	b, err := Open(dir, Config{})
	must(t, err)
	defer b.Close()
	ctx, cancel := context.WithCancel(context.Background())
	fmt.Println("ready")
	go func() {
		bufio.NewReader(os.Stdin).ReadString('\n')
		cancel()
	}()
	all, err := cycle(ctx, b, "other")
	must(t, err)
	must(t, json.NewEncoder(os.Stdout).Encode(all))
}

// otherProcess runs a cycle in another process, and returns what ends it.
func otherProcess(t *testing.T, dir string) (stop func() pauses) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCycleInAProcess$")
	cmd.Env = append(os.Environ(), "SPOOL_CYCLE_DIR="+dir)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill() }) // it has ended, unless the test failed
	lines := bufio.NewReader(out)
	if line, err := lines.ReadString('\n'); line != "ready\n" {
		t.Fatalf("the other process says %q, %v", line, err)
	}
	return func() (all pauses) {
		t.Helper()
		_, err := fmt.Fprintln(in, "stop")
		must(t, err)
		must(t, json.NewDecoder(lines).Decode(&all))
		must(t, cmd.Wait())
		return all
	}
}

// fillQueue enqueues n jobs with payloads of 100 bytes, batch at a time.
func fillQueue(t testing.TB, b *Broker, queue string, n, batch int) {
	t.Helper()
	jobs := make([]broker.NewJob, batch)
	for done := 0; done < n; done += batch {
		for i := range jobs {
			jobs[i] = broker.NewJob{ID: broker.NewID(), Task: "t", Payload: payload100}
		}
		_, err := b.Enqueue(context.Background(), broker.NewCall(), queue, jobs)
		must(t, err)
	}
}

// TestCompactionPausesNobody compacts a store of live jobs while the same
// process and another one enqueue, claim and ack, and holds the longest of
// their calls against those without a compaction. At SPOOL_SCALE=30 there are
// 1,000,000 live jobs.
func TestCompactionPausesNobody(t *testing.T) {
	dir := t.TempDir()
	quiet := slog.New(slog.DiscardHandler)
	loader, err := Open(dir, Config{Sync: SyncNever, Logger: quiet})
	must(t, err)
	fillQueue(t, loader, "live", scale(33_400)/1000*1000, 1000)
	must(t, loader.Close())
	b, err := Open(dir, Config{Logger: quiet})
	must(t, err)
	defer b.Close()
	measure := func(during func()) (own, other pauses) {
		stop := otherProcess(t, dir)
		ctx, cancel := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		wg.Go(func() {
			var err error
			if own, err = cycle(ctx, b, "own"); err != nil {
				t.Error(err)
			}
		})
		during()
		cancel()
		wg.Wait()
		return own, stop()
	}
	own, other := measure(func() { <-time.After(2 * time.Second) })
	t.Logf("without a compaction, this process:  %v", own)
	t.Logf("without a compaction, the other one: %v", other)
	var c Compacted
	start := time.Now()
	own, other = measure(func() {
		start = time.Now()
		for c.Checkpoint == 0 { // one that began by itself may be under way, on a fast disk
			c, err = b.Compact(context.Background())
			must(t, err)
		}
	})
	t.Logf("%d jobs compacted in %v: %+v", c.Jobs, time.Since(start).Round(time.Millisecond), c)
	t.Logf("meanwhile, this process:  %v", own)
	t.Logf("meanwhile, the other one: %v", other)
	if len(b.cur.Load().log.Current().Payload) == 0 {
		t.Errorf("nothing was moved: %+v", c)
	}
}
