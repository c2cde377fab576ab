package filebroker

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// Tests of this file notice faults that the others do not: see internal/mutants.

// TestAHandleThatCountsOtherwiseStops gives one handle a job that the log does not
// have. When another seals a segment, with what it counts, the first notices.
func TestAHandleThatCountsOtherwiseStops(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, err := openOn(m.Process())
	must(t, err)
	b, err := openOn(m.Process())
	must(t, err)
	fill(t, a, 3)
	wrong := b.cur.Load()
	wrong.mu.Lock()
	wrong.readForwardLocked()
	var w jobstate.Writer
	w.Reset(nil, 0, 0, wrong.now())
	_, err = wrong.s.Enqueue(&w, wrong.now(), "q", []broker.NewJob{{ID: broker.NewID(), Task: "t"}})
	wrong.mu.Unlock()
	must(t, err)
	_, err = a.cur.Load().seal(context.Background())
	must(t, err)
	if _, err := b.Counts(context.Background(), "q"); !errors.Is(err, broker.ErrCorrupt) {
		t.Errorf("Counts says %v", err)
	}
	if n := counts(t, a).Ready; n != 3 {
		t.Errorf("who was right counts %d", n)
	}
}

// TestACompactionLeavesADamagedPayloadWhereItIs: its file is the only place where
// somebody could look what it was.
func TestACompactionLeavesADamagedPayloadWhereItIs(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	b, err := openOn(m.Process())
	must(t, err)
	fill(t, b, 20)
	must(t, errorOf(b.Compact(context.Background()))) // what is in the log is checked by the frame
	settle(t, b, broker.Ack, take(t, b, 19)...)
	h := b.cur.Load()
	var at jobstate.Loc
	h.mu.Lock()
	h.s.EachLoc(func(_ broker.Ref, _ string, l jobstate.Loc) { at = h.where(l) })
	h.mu.Unlock()
	file := journal.FileID(at.File)
	name := filepath.Join(labDir, file.Name())
	content, err := m.ReadFile(name)
	must(t, err)
	content[at.Off] ^= 1
	must(t, m.WriteFile(name, content))
	done, err := b.Compact(context.Background())
	if err != nil || done.Checkpoint == 0 || done.Moved != 0 {
		t.Errorf("compacted: %+v, %v", done, err)
	}
	if _, err := h.log.FileBytes(file); err != nil {
		t.Errorf("the file with the damage: %v", err)
	}
}

// TestACallerWhoLeavesTooLateGetsTheAnswer: what a commit has begun to decide is
// not taken back.
func TestACallerWhoLeavesTooLateGetsTheAnswer(t *testing.T) {
	b, err := openOn(crashfs.New(crashfs.Config{Seed: 1}).Process())
	must(t, err)
	for range 50 { // either way out may be looked at first
		ctx, cancel := context.WithCancel(context.Background())
		err := b.cur.Load().submit(ctx, &op{class: journal.Settle, free: true, decide: func(jobstate.Now) { cancel() }})
		must(t, err)
	}
}

// errorOf drops an answer.
func errorOf[T any](_ T, err error) error { return err }

// TestTokensGrowPastAClaimThatAFailedSyncLost: a claim is answered before it is on
// the disk. When the disk loses it, its token is not given again.
func TestTokensGrowPastAClaimThatAFailedSyncLost(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	m.Clock.Advance(2 * youngBoot)
	p := m.Process()
	a, err := openOn(p, neverSync)
	must(t, err)
	fill(t, a, 2)
	take(t, a, 1) // with its epoch, and so on the disk
	must(t, a.cur.Load().log.Sync())
	lost := take(t, a, 1)[0]
	m.Inject(once(syncsLog, syscall.EIO))
	if err := a.cur.Load().log.Sync(); !errors.Is(err, journal.ErrPoisoned) {
		t.Fatalf("the sync says %v", err)
	}
	p.Kill()
	a.Close() // the process is dead
	b, err := openOn(m.Process())
	must(t, err)
	got := take(t, b, 2)
	for _, l := range got {
		if l.Token <= lost.Token {
			t.Errorf("token %v after %v", l.Token, lost.Token)
		}
	}
	if len(got) != 2 {
		t.Errorf("%d jobs are to be had", len(got))
	}
	must(t, b.Close())
}

// TestNobodyJoinsAPoisonedStoreThatOthersUse: they have to leave first, or the
// store would never have a client that is alone, and could recover it.
func TestNobodyJoinsAPoisonedStoreThatOthersUse(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	b, err := openLazy(m.Process())
	must(t, err)
	must(t, b.Close())
	cfg := b.cfg
	cfg.sys = m.Process()
	h, err := openHandle(labDir, cfg, new(Stats), func(*handle, error) {}) // it stays
	must(t, err)
	h.log.Poison(errors.New("a disk that failed"))
	if _, err := openLazy(m.Process()); !errors.Is(err, broker.ErrPoisoned) {
		t.Errorf("Open says %v", err)
	}
	must(t, h.Close())
	b, err = openLazy(m.Process())
	must(t, err)
	must(t, b.Close())
}

// TestWhatWasReadAheadOfTheLogIsNoPayload claims up to the end of the log, one job
// at a time, so that what follows is read ahead while it is zeros, and then the job
// that was written there.
func TestWhatWasReadAheadOfTheLogIsNoPayload(t *testing.T) {
	b, err := openOn(crashfs.New(crashfs.Config{Seed: 1}).Process(), roomy)
	must(t, err)
	fill(t, b, 5)
	for range 5 {
		take(t, b, 1)
	}
	a := &b.cur.Load().ahead
	if end := b.cur.Load().log.Pos().Offset; int64(a.from)+int64(len(a.span)) <= end {
		t.Fatalf("read ahead up to %d, the log ends at %d", int64(a.from)+int64(len(a.span)), end)
	}
	for i := range 3 {
		want := []byte{'a' + byte(i), 'b', 'c'}
		_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: want}})
		must(t, err)
		if got := take(t, b, 1); len(got) != 1 || !bytes.Equal(got[0].Job.Payload, want) {
			t.Fatalf("claimed %+v", got)
		}
	}
}

// TestACompactionKeepsSegmentsThatAreFullOfPayloads: they are not worth moving.
func TestACompactionKeepsSegmentsThatAreFullOfPayloads(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	b, err := openOn(m.Process(), roomy)
	must(t, err)
	large := bytes.Repeat([]byte("payload "), 59<<10/8)
	for range 5 {
		_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: large}})
		must(t, err)
	}
	done, err := b.Compact(context.Background())
	must(t, err)
	kept := 0
	for _, f := range neededFiles(b) {
		if id := journal.FileID(f); !id.Payload() && id.Number() <= done.Checkpoint {
			kept++
		}
	}
	if kept == 0 {
		t.Fatal("nothing was worth keeping: this test proves nothing")
	}
	got := take(t, b, 5)
	for _, l := range got {
		if !bytes.Equal(l.Job.Payload, large) {
			t.Errorf("a payload of %d bytes came back", len(l.Job.Payload))
		}
	}
	if len(got) != 5 {
		t.Errorf("%d of 5 jobs run", len(got))
	}
}
