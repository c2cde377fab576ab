package filebroker

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// diskUse is what the files of a directory take on the disk.
func diskUse(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err == nil && info.Mode().IsRegular() {
			bytes += info.Size()
		}
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	return bytes
}

// TestDiskUseStaysBoundedWhileJobsPass lets jobs pass through a queue that stays
// short; nobody calls Compact. At SPOOL_SCALE=30 they are 9,000,000, at 34 over
// 10,000,000.
func TestDiskUseStaysBoundedWhileJobsPass(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	b, err := Open(dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	ctx := context.Background()
	stop, watched := make(chan struct{}), make(chan struct{})
	var peak atomic.Int64
	go func() {
		defer close(watched)
		for {
			peak.Store(max(peak.Load(), diskUse(t, dir)))
			select {
			case <-time.After(10 * time.Millisecond):
			case <-stop:
				return
			}
		}
	}()
	const batch = 500
	jobs, start, done := make([]broker.NewJob, batch), time.Now(), 0
	checkpoint := func() uint64 { return b.cur.Load().log.Current().Checkpoint }
	for ; done < scale(300_000) || checkpoint() == 0 && done < scale(3_000_000); done += batch {
		for i := range jobs {
			jobs[i] = broker.NewJob{ID: broker.NewID(), Task: "t", Payload: payload100}
		}
		_, err := b.Enqueue(ctx, broker.NewCall(), "q", jobs)
		must(t, err)
		if n, err := workOff(t, b, "q", batch); n != batch {
			t.Fatalf("%d of %d jobs came through: %v", n, batch, err)
		}
	}
	took := time.Since(start)
	close(stop)
	<-watched
	last := checkpoint()
	must(t, b.Close())
	t.Logf("%d jobs in %v: peak %d MiB, at the end %d MiB, last checkpoint %d",
		done, took.Round(time.Millisecond), peak.Load()>>20, diskUse(t, dir)>>20, last)
	if peak.Load() >= 256<<20 {
		t.Errorf("the store took %d bytes", peak.Load())
	}
	if last == 0 {
		t.Error("nothing was compacted: this test proves nothing")
	}
}

// TestCompactionsByHandKeepASmallStoreSmall compacts a store with a handful of
// jobs again and again.
func TestCompactionsByHandKeepASmallStoreSmall(t *testing.T) {
	dir := t.TempDir()
	b, err := Open(dir, Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer b.Close()
	for round := range 8 {
		_, err := b.Compact(context.Background())
		must(t, err)
		fillQueue(t, b, "q", 3, 3)
		if use := diskUse(t, dir); use > 6<<20 {
			t.Errorf("after round %d the store takes %d bytes", round, use)
		}
	}
}

// TestDiskPerJob enqueues jobs of 100 bytes, in batches and one by one, and
// wants what a compaction leaves of the log to be little more than the payloads.
func TestDiskPerJob(t *testing.T) {
	for name, batch := range map[string]int{"batches of 1000": 1000, "one by one": 1} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			b, err := Open(dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler)})
			must(t, err)
			defer b.Close()
			n := scale(33_000)
			fillQueue(t, b, "q", n, batch)
			c, err := b.Compact(context.Background())
			must(t, err)
			h := b.cur.Load()
			index := h.log.CheckpointBytes(h.log.Current().Checkpoint)
			per := func(bytes int64) float64 { return float64(bytes) / float64(n) }
			t.Logf("%d jobs: %.1f bytes each beyond the payload, %.1f of them in the checkpoint; before %.1f; %d MiB are kept ready",
				n, per(c.UsedAfter)-100, per(index), per(c.UsedBefore)-100, (c.BytesAfter-c.UsedAfter)>>20)
			if log := per(c.UsedAfter-index) - 100; log > 8 {
				t.Errorf("the log takes %.1f bytes for a job beside its payload", log)
			}
			if got, err := workOff(t, b, "q", 1000); got != n || err != nil {
				t.Errorf("%d of %d jobs can be worked off: %v", got, n, err)
			}
		})
	}
}

// TestASmallDiskWorksOnAfterCompactions uses a disk of 24 MB, and compacts by
// hand: it is never full for long.
func TestASmallDiskWorksOnAfterCompactions(t *testing.T) {
	dir := smallDisk(t, 24_000_000)
	b, err := Open(filepath.Join(dir, "jobs"), Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer b.Close()
	for round := range 12 {
		if round%3 == 2 { // a few MB pass through
			fillQueue(t, b, "q", 10_000, 500)
			_, err := workOff(t, b, "q", 500)
			must(t, err)
		}
		_, err := b.Compact(context.Background())
		must(t, err)
		_, err = b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
	}
	t.Logf("%d KiB are used", diskUse(t, dir)>>10)
}

// TestWhoOnlyReadsCompactsFirst lets one handle write until a compaction is
// worth its while for another that has nothing to do, and not yet for itself.
func TestWhoOnlyReadsCompactsFirst(t *testing.T) {
	slow(t)
	dir := t.TempDir()
	writer, err := Open(dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer writer.Close()
	var told told
	reader, err := Open(dir, Config{Sync: SyncNever, Logger: slog.New(slog.NewTextHandler(&told, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	must(t, err)
	defer reader.Close()
	must(t, reader.cur.Load().want(context.Background())) // as who looks at jobs, or waits for some
	h := writer.cur.Load()
	due := func(patience float64) bool {
		t.Helper()
		due, err := h.due(patience)
		must(t, err)
		return due
	}
	for !due(1) {
		fillQueue(t, writer, "q", 2000, 1000)
		_, err := workOff(t, writer, "q", 1000)
		must(t, err)
	}
	if due(1.5) || h.log.Current().Checkpoint != 0 {
		t.Fatalf("the writer does not wait for somebody else; last checkpoint %d", h.log.Current().Checkpoint)
	}
	must(t, reader.cur.Load().look(t.Context(), func(jobstate.Now) {})) // up to the end of the log
	reader.cur.Load().keeper.poke(false)
	if !told.within(30*time.Second, "compacted the store") {
		t.Error("the one that only reads did not compact")
	}
}

// told is what a logger was told.
type told struct {
	mu   sync.Mutex
	text strings.Builder
	more chan struct{}
}

func (l *told) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.more != nil {
		close(l.more)
		l.more = nil
	}
	return l.text.Write(p)
}

// within waits until a text was told.
func (l *told) within(d time.Duration, text string) bool {
	for over := time.After(d); ; {
		l.mu.Lock()
		if strings.Contains(l.text.String(), text) {
			l.mu.Unlock()
			return true
		}
		if l.more == nil {
			l.more = make(chan struct{})
		}
		more := l.more
		l.mu.Unlock()
		select {
		case <-more:
		case <-over:
			return false
		}
	}
}

// TestLargeCallsTakeLittleMoreThanTheirBytes makes calls that are over a MiB, each
// of which has a segment to itself, in a store that is large enough for large
// segments.
func TestLargeCallsTakeLittleMoreThanTheirBytes(t *testing.T) {
	dir := t.TempDir()
	b, err := Open(dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	defer b.Close()
	const calls, payload = 100, 1<<20 + 100<<10
	for range calls {
		jobs := []broker.NewJob{{Task: "t", Payload: make([]byte, payload)}}
		_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
		must(t, err)
	}
	_, used, err := b.cur.Load().size()
	must(t, err)
	if used > calls*payload*5/4 {
		t.Errorf("%d bytes take %d of the disk", calls*payload, used)
	}
}
