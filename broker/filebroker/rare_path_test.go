package filebroker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// Tests of this file go to rare places that the others do not get to: see
// internal/rare.

// TestAnOpenerAwaitsAChildThatHoldsCompact: a child that was being forked as the
// last client died has its locks for a moment; a process that keeps one is named.
func TestAnOpenerAwaitsAChildThatHoldsCompact(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	b, err := openLazy(m.Process())
	must(t, err)
	must(t, b.Close())
	child, err := m.Process().Open(filepath.Join(labDir, "COMPACT"), os.O_RDWR)
	must(t, err)
	must(t, errorOf(child.TryLock()))
	if _, err := openLazy(m.Process()); !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), "COMPACT") {
		t.Errorf("Open says %v", err)
	}
	tries := 0
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpTryLock && filepath.Base(op.Path) == "COMPACT" {
			if tries++; tries == 3 {
				m.Inject(nil)
				return child.Unlock()
			}
		}
		return nil
	})
	b, err = openLazy(m.Process())
	must(t, err)
	must(t, b.Close())
}

// TestADeadHandleIsFoundWhereTheSystemDoesNotSaySo: without notices of other
// processes their life signs are looked at.
func TestADeadHandleIsFoundWhereTheSystemDoesNotSaySo(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	p := m.Process()
	dead, err := openOn(p)
	must(t, err)
	fill(t, dead, 1)
	take(t, dead, 1)
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpWatch {
			return errors.ErrUnsupported
		}
		return nil
	})
	b, err := openOn(m.Process())
	must(t, err)
	defer b.Close()
	p.Kill()
	got, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w", Wait: 20 * time.Second})
	if err != nil || len(got.Leases) != 1 {
		t.Errorf("claimed %d jobs, %v", len(got.Leases), err)
	}
	dead.Close() // the process is dead
}

func TestALeaseThatCannotBeTiedToALockIsKept(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	b, err := openOn(m.Process())
	must(t, err)
	fill(t, b, 1)
	l := take(t, b, 1)[0]
	m.Inject(once(func(op crashfs.Op) bool {
		return op.Kind == crashfs.OpOpen && filepath.Base(filepath.Dir(op.Path)) == "alive"
	}, syscall.EMFILE))
	if _, _, err := b.Hold(context.Background(), l.Job.Ref(), l.Token); !errors.Is(err, syscall.EMFILE) {
		t.Errorf("Hold says %v", err)
	}
	settle(t, b, broker.Ack, l)
}

// TestOnAFullDiskACommitGoesOnWithoutItsEnqueues: a settlement is not refused for
// the company that it is in.
func TestOnAFullDiskACommitGoesOnWithoutItsEnqueues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{Seed: 1})
		b, err := openOn(m.Process())
		must(t, err)
		fill(t, b, 1)
		h := b.cur.Load()
		synctest.Wait() // the room that is kept is there
		m.SetDiskBytes(m.Used())
		jobs := []broker.NewJob{{Task: "t", Payload: make([]byte, 2000)}}
		for n := 0; !h.log.Full(); n++ {
			if _, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs); err != nil && !errors.Is(err, broker.ErrFull) || n > 1000 {
				t.Fatal(n, err)
			}
		}
		settled := false
		enqueue := &op{size: 2000, class: journal.Enqueue, decide: func(jobstate.Now) { t.Error("an enqueue was decided") }}
		settlement := &op{size: 200, class: journal.Settle, decide: func(jobstate.Now) { settled = true }}
		must(t, h.log.Lock())
		h.mu.Lock()
		_, err = h.commit([]*op{enqueue, settlement})
		h.mu.Unlock()
		h.log.Unlock()
		if err != nil || settlement.err != nil || !settled || !errors.Is(enqueue.err, broker.ErrFull) {
			t.Errorf("commit: %v; the settlement was made: %v, %v; the enqueue: %v", err, settled, settlement.err, enqueue.err)
		}
		must(t, b.Close())
	})
}

func TestAHolderThatDidNotSayWhoItIsIsReported(t *testing.T) {
	var log bytes.Buffer
	b, err := openLazy(crashfs.New(crashfs.Config{Seed: 1}).Process(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
	must(t, err)
	must(t, b.Close())
	if h := b.cur.Load(); !h.reportHolder() || !strings.Contains(log.String(), "did not say who it is") {
		t.Errorf("reported %s", &log)
	}
}

// TestAJobWhosePayloadCannotBeReadNowIsGivenBack: its attempt does not count.
func TestAJobWhosePayloadCannotBeReadNowIsGivenBack(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	b, err := openOn(m.Process())
	must(t, err)
	fill(t, b, 1)
	h := b.cur.Load()
	var at jobstate.Loc
	h.mu.Lock()
	h.s.EachLoc(func(_ broker.Ref, _ string, l jobstate.Loc) { at = l })
	h.mu.Unlock()
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpReadAt && op.Offset == int64(at.Off) {
			return syscall.EIO
		}
		return nil
	})
	if _, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w"}); !errors.Is(err, syscall.EIO) {
		t.Errorf("Claim says %v", err)
	}
	m.Inject(nil)
	if got := take(t, b, 1); len(got) != 1 || got[0].Job.Attempt != 1 {
		t.Errorf("claimed %+v", got)
	}
}

func TestACallerWhoLeavesInTimeChangesNothing(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	b, err := openOn(m.Process())
	must(t, err)
	peer, err := openOn(m.Process())
	must(t, err)
	fill(t, b, 1)
	must(t, peer.cur.Load().log.Lock())
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
	defer cancel()
	_, err = b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
	peer.cur.Load().log.Unlock()
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Enqueue says %v", err)
	}
	fill(t, b, 1)
	if n := counts(t, b).Ready; n != 2 {
		t.Errorf("%d jobs are there, want 2", n)
	}
}

// TestAfterASettlementThatFoundNoRoomOthersDoNotWaitForIt, for a moment.
func TestAfterASettlementThatFoundNoRoomOthersDoNotWaitForIt(t *testing.T) {
	b, err := openOn(crashfs.New(crashfs.Config{Seed: 1}).Process())
	must(t, err)
	h := b.cur.Load()
	full := journal.ErrDiskFull
	if err := h.waitForRoom(context.Background(), &op{class: journal.Settle, scrapes: true}, full); !errors.Is(err, full) || !h.room.vain.Load() {
		t.Errorf("after %v the next waits: %v", err, !h.room.vain.Load())
	}
	made := false
	o := &op{class: journal.Settle, free: true, decide: func(jobstate.Now) { made = true }}
	if err := h.waitForRoom(context.Background(), o, full); err != nil || !made || !o.scrapes {
		t.Errorf("the next says %v; it was made: %v", err, made)
	}
}

// TestACallThatMetAStayThatIsOverIsMadeInTheNext: nothing changed in the first.
func TestACallThatMetAStayThatIsOverIsMadeInTheNext(t *testing.T) {
	b, err := openOn(crashfs.New(crashfs.Config{Seed: 1}).Process())
	must(t, err)
	next, err := b.enter()
	must(t, err)
	old := b.cur.Load()
	got, err := through(b, func(h *handle) (string, error) {
		if h == old {
			b.cur.Store(next)
			return "", old.Close()
		}
		return h.member.name, nil
	})
	must(t, err)
	if got != "" { // the first answer is good: it was no error of a stay that is over
		t.Fatalf("answered %q", got)
	}
	b.cur.Store(old)
	got, err = through(b, func(h *handle) (string, error) {
		if h == old {
			b.cur.Store(next)
			return "", broker.ErrClosed
		}
		return h.member.name, nil
	})
	if err != nil || got != next.member.name {
		t.Errorf("answered %q, %v", got, err)
	}
	must(t, b.Close())
}
