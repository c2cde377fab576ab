package journal

import (
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestASegmentThatAnotherProcessIsAboutToPrepareIsNoHole lets one process roll into
// a segment whose name another has not made durable, and cuts the power at every
// operation of that.
func TestASegmentThatAnotherProcessIsAboutToPrepareIsNoHole(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, b := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	w := &world{m: m}
	must(t, w.append(a, 2))
	slow := a.sys.(*crashfs.Process)
	renamed := false
	m.Inject(func(op crashfs.Op) error {
		if op.Process == slow && op.Kind == crashfs.OpRename && strings.HasSuffix(op.To, "000002.log") {
			renamed = true
		}
		if renamed && op.Process == slow && op.Kind == crashfs.OpSyncDir {
			slow.Kill()
		}
		return nil
	})
	_ = a.Prepare() // it dies
	if !renamed {
		t.Fatal("it prepared nothing")
	}
	cuts := 0
	m.Inject(func(op crashfs.Op) error {
		for seed, keep := range []crashfs.Choose{crashfs.KeepNone, crashfs.KeepAll, crashfs.KeepRandom(1), crashfs.KeepRandom(2)} {
			cut := m.Crash(keep)
			if r, err := Verify(cut.Process(), labDir); err != nil || r.Damaged() {
				t.Errorf("before %v, %d: %v, %+v", op, seed, err, r.Findings)
			}
			cuts++
		}
		return nil
	})
	locked(t, b, func() {
		must(t, b.CatchUp(discard))
		_, err := b.Seal(0)
		must(t, err)
	})
	m.Inject(nil)
	if b.Pos().Segment != 2 || cuts == 0 {
		t.Errorf("it is at %v after %d cuts", b.Pos(), cuts)
	}
}
