package filebroker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// following is a store that one process writes and compacts, and another one
// follows.
type following struct {
	*testing.T
	m              *crashfs.Machine
	proc           *crashfs.Process // of the follower
	writer, reader *Broker
	loads          atomic.Int32 // checkpoints that the follower opened
	locked         atomic.Int32 // how many of them while it had LOCK
	deaf           atomic.Bool  // no bell rings
	pause          atomic.Bool  // before a checkpoint is written, everybody does what there is to do
}

func newFollowing(t *testing.T) *following {
	f := &following{T: t, m: crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})}
	f.proc = f.m.Process()
	for b, p := range map[**Broker]*crashfs.Process{&f.writer: f.m.Process(), &f.reader: f.proc} {
		var err error
		*b, err = openOn(p)
		must(t, err)
		t.Cleanup(func() { must(t, (*b).Close()) })
	}
	f.m.Inject(func(op crashfs.Op) error {
		if op.Process == f.proc && op.Kind == crashfs.OpOpen && strings.HasSuffix(op.Path, ".idx") {
			f.loads.Add(1)
			if pid, _, ok := f.reader.cur.Load().log.Holder(); ok && pid == f.proc.PID() {
				f.locked.Add(1)
			}
		}
		if op.Process != f.proc && op.Kind == crashfs.OpOpen && strings.HasSuffix(op.Path, ".idx.tmp") && f.pause.Load() {
			synctest.Wait()
		}
		if f.deaf.Load() && op.Kind == crashfs.OpWriteAt && strings.HasSuffix(op.Path, bellSuffix) {
			return errDisk
		}
		return nil
	})
	return f
}

// add enqueues n jobs with payloads of so many bytes, some at a time.
func (f *following) add(first, n, size, batch int) {
	f.Helper()
	var jobs []broker.NewJob
	for i := range n {
		jobs = append(jobs, broker.NewJob{ID: labID(first + i), Task: "t", Payload: bytes.Repeat([]byte{byte(first + i)}, size)})
		if len(jobs) == batch || i == n-1 {
			_, err := f.writer.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
			must(f, err)
			jobs = nil
		}
	}
}

func (f *following) compact() Compacted {
	f.Helper()
	c, err := f.writer.Compact(context.Background())
	must(f, err)
	if c.Checkpoint == 0 {
		f.Fatalf("compacted %+v", c)
	}
	return c
}

// follows wants that the follower has n jobs, with the payloads they were given.
func (f *following) follows(n int) {
	f.Helper()
	counts, err := f.reader.Counts(context.Background(), "q")
	must(f, err)
	if len(counts) != 1 || counts[0].Ready != int64(n) {
		f.Errorf("the follower counts %+v, want %d", counts, n)
	}
	jobs, err := f.reader.Get(context.Background(), []broker.Ref{labRef(1), labRef(n)})
	must(f, err)
	for _, j := range jobs {
		if len(j.Payload) > 0 && j.Payload[0] != j.ID[15] || j.Reason != "" {
			f.Errorf("job %v: %v, payload of %d bytes", j.ID, j.Reason, len(j.Payload))
		}
	}
}

// TestAnIdleHandleReadsOnWhileACompactionRuns: it is rung for when the segment
// is sealed, so that it need not load what it has.
func TestAnIdleHandleReadsOnWhileACompactionRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		f.add(1, 100, 50, 1)
		f.pause.Store(true)
		c := f.compact()
		if at := f.reader.cur.Load().log.Pos().Segment; at <= c.Checkpoint {
			t.Errorf("the idle handle is at segment %d, the checkpoint at %d", at, c.Checkpoint)
		}
		f.follows(100)
		if n := f.loads.Load(); n != 0 {
			t.Errorf("it loaded %d checkpoints", n)
		}
	})
}

// TestAHandleThatMissedMuchLoadsTheCheckpointWithoutTheLock lets a handle that
// nobody can wake miss some compactions.
func TestAHandleThatMissedMuchLoadsTheCheckpointWithoutTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		f.deaf.Store(true)
		for i := range 5 {
			f.add(1+20*i, 20, 50, 1)
			f.compact()
		}
		_, err := f.reader.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{ID: labID(101), Task: "t"}})
		must(t, err)
		f.follows(101)
		if f.loads.Load() == 0 || f.locked.Load() != 0 {
			t.Errorf("it loaded %d checkpoints, %d of them while others waited for the lock", f.loads.Load(), f.locked.Load())
		}
	})
}

// TestAHandleThatMissedLittleReadsTheLog: the segments are still there for their
// payloads, and shorter than the checkpoint.
func TestAHandleThatMissedLittleReadsTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		const many = 40_000 // so that loading them all takes longer
		f.add(1, many, 0, 1000)
		f.compact()
		f.follows(many)
		f.loads.Store(0)
		f.deaf.Store(true)
		f.add(many+1, 1, 600_000, 1) // alone in its segment, which is not worth evacuating
		c := f.compact()
		if at := f.reader.cur.Load().log.Pos().Segment; at > c.Checkpoint {
			t.Fatalf("the handle is at segment %d already", at)
		}
		f.follows(many + 1)
		if n := f.loads.Load(); n != 0 {
			t.Errorf("it loaded %d checkpoints", n)
		}
	})
}

// TestManySmallPayloadFilesAreMerged: each compaction leaves one for a job that
// stays.
func TestManySmallPayloadFilesAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		most := 0
		for i := range 3 * smallFiles {
			f.add(1+i, 1, 3000, 1)
			f.compact()
			n := len(f.writer.cur.Load().log.Current().Payload)
			if n > smallFiles {
				t.Fatalf("after %d compactions there are %d payload files", i+1, n)
			}
			most = max(most, n)
		}
		if most != smallFiles {
			t.Errorf("there were never more than %d: this test proves nothing", most)
		}
		f.follows(3 * smallFiles)
	})
}

// TestAHandleFindsWhatWasMovedTwice: it hears of the second compaction only, and
// the first payload file is gone with what it said.
func TestAHandleFindsWhatWasMovedTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		f.add(1, 40, 300, 1)
		f.follows(40)
		f.deaf.Store(true)
		h := f.reader.cur.Load()
		before := tickets(f.reader, "q", broker.Ready)
		first := f.compact()
		n, err := f.writer.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 30, Worker: "w"})
		must(t, err)
		var acks []broker.Settlement
		for _, l := range n.Leases {
			acks = append(acks, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack})
		}
		_, err = f.writer.Settle(context.Background(), broker.NewCall(), acks)
		must(t, err)
		second := f.compact()
		if first.Moved == 0 || second.Moved == 0 {
			t.Fatalf("moved %d and %d bytes", first.Moved, second.Moved)
		}
		jobs, err := h.fill(before)
		must(t, err)
		for _, j := range jobs[30:] {
			if len(j.Payload) != 300 || j.Payload[0] != j.ID[15] {
				t.Errorf("job %v has a payload of %d bytes", j.ID, len(j.Payload))
			}
		}
	})
}

func TestCompactLeavesOnItsContextWhileAProcessHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		f.add(1, 3, 10, 1)
		must(t, f.reader.cur.Load().log.Lock())
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		start := time.Now()
		if _, err := f.writer.Compact(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) > 2*time.Second {
			t.Errorf("after %v: %v", time.Since(start), err)
		}
		f.reader.cur.Load().log.Unlock()
		f.compact()
		f.follows(3)
	})
}

func TestAnOpenerThatWaitsNamesWhoHoldsTheLock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollowing(t)
		holder := f.reader.cur.Load().log
		must(t, holder.Lock())
		var text told
		opened := make(chan error)
		go func() {
			b, err := openOn(f.m.Process(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
			if err == nil {
				err = b.Close()
			}
			opened <- err
		}()
		if want := "pid=" + strconv.Itoa(f.proc.PID()) + " for=2s"; !text.within(2*patience, want) {
			t.Errorf("the opener says %q, want %q", text.text.String(), want)
		}
		holder.Unlock()
		must(t, <-opened)
	})
}
