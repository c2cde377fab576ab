package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// world is what a scripted run on a simulated machine did.
type world struct {
	m     *crashfs.Machine
	tried []string // appended, or begun to be
	acked int      // how many of them were durable when the caller was told
}

// append appends n frames, with a sync for every two of them.
func (w *world) append(l *Log, n int) error { return w.appendEvery(l, n, 2) }

func (w *world) appendEvery(l *Log, n, every int) error {
	for i := range n {
		s := fmt.Sprintf("%d %s", len(w.tried), strings.Repeat("x", len(w.tried)*13%50))
		w.tried = append(w.tried, s)
		if err := appendOne(l, s, Settle); err != nil {
			return err
		}
		if i%every != every-1 {
			continue
		}
		if err := l.Sync(); err != nil {
			return err
		}
		w.acked = len(w.tried)
	}
	return nil
}

// run is a life of a store: creation, appends, prepared segments, rolls, two
// compactions, a peer.
func (w *world) run() error {
	small := func(o *Options) { o.FirstSegmentBytes = 512 }
	l, err := openOn(w.m.Process(), small)
	if err != nil {
		return err
	}
	if err := w.append(l, 4); err != nil {
		return err
	}
	if err := l.Prepare(); err != nil {
		return err
	}
	if err := w.append(l, 4); err != nil {
		return err
	}
	if err := compactNow(l); err != nil {
		return err
	}
	peer, err := openOn(w.m.Process(), small)
	if err != nil {
		return err
	}
	if err := w.append(peer, 4); err != nil {
		return err
	}
	if err := l.Prepare(); err != nil {
		return err
	}
	if err := compactNow(l); err != nil {
		return err
	}
	if err := w.append(l, 2); err != nil {
		return err
	}
	if err := w.appendEvery(l, 12, 6); err != nil {
		return err
	}
	return w.shrink(l)
}

// shrink lets segments grow with the log, and compacts when it has stood still:
// blank segments are cut down.
func (w *world) shrink(l *Log) error {
	for range 6 {
		if err := l.Prepare(); err != nil {
			return err
		}
		w.m.Clock.Advance(time.Microsecond)
		if err := w.append(l, 4); err != nil {
			return err
		}
	}
	w.m.Clock.Advance(time.Hour)
	if err := compactNow(l); err != nil {
		return err
	}
	return w.append(l, 2)
}

func TestTheScriptOfPowerCutsCutsSegmentsDown(t *testing.T) {
	w := &world{m: crashfs.New(crashfs.Config{Seed: 1})}
	cuts := 0
	w.m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpTruncate && strings.HasSuffix(op.Path, ".log") {
			cuts++
		}
		return nil
	})
	must(t, w.run())
	if cuts == 0 {
		t.Error("no segment was cut down: the tests of power cuts do not see that")
	}
}

// judge checks what is left of the store on m after a power cut.
func (w *world) judge(m *crashfs.Machine) error {
	if report, err := Verify(m.Process(), labDir); w.acked > 0 && (err != nil || report.Damaged()) {
		return fmt.Errorf("verify: %w, %+v", err, report.Findings)
	}
	l, got, err := revive(m.Process())
	if err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	if err := prefix(got, w.tried, w.acked); err != nil {
		return err
	}
	if err := appendOne(l, "after", Settle); err != nil {
		return fmt.Errorf("append after recovery: %w", err)
	}
	if err := l.Sync(); err != nil {
		return fmt.Errorf("sync after recovery: %w", err)
	}
	_, again, err := revive(m.Crash(crashfs.KeepNone).Process())
	if err != nil {
		return fmt.Errorf("recover again: %w", err)
	}
	if !slices.Equal(again, append(got, "after")) {
		return fmt.Errorf("after the second recovery %q, want %q and one more", again, got)
	}
	return nil
}

// powerCuts runs a script, cuts the power before every operation that
// changes something, and judges up to samples of what may be left each time.
// It returns how many it judged, and the first failures.
func powerCuts(cfg crashfs.Config, script func(*world) error, samples int) (judged int, failures []error) {
	for at := 0; ; at += thin {
		w := &world{m: crashfs.New(cfg)}
		n, where := 0, ""
		w.m.Inject(func(op crashfs.Op) error {
			if !op.Kind.Changes() {
				return nil
			}
			if n++; n > at {
				where = op.String()
				return crashfs.ErrCrash
			}
			return nil
		})
		err := script(w)
		if err != nil && !errors.Is(err, crashfs.ErrCrash) {
			return judged, append(failures, fmt.Errorf("before %s: %w", where, err))
		}
		w.m.Stop()
		for name, m := range w.m.Crashes(samples, uint64(at)) {
			judged++
			if jerr := w.judge(m); jerr != nil {
				failures = append(failures, fmt.Errorf("before %s, %s: %w", where, name, jerr))
			}
			if len(failures) > 3 {
				return judged, failures
			}
		}
		if err == nil {
			return judged, failures // the script came to its end
		}
	}
}

// samples is how many states each power cut leaves that are looked at.
func samples(n int) int {
	if s, err := strconv.Atoi(os.Getenv("SPOOL_TEST_CRASHES")); err == nil {
		return s
	}
	return n
}

func TestPowerCutsAtEveryOperationLoseNothingThatWasDurable(t *testing.T) {
	for _, cfg := range []crashfs.Config{{Seed: 1}, {Seed: 2, Torn: true, Versions: 2}} {
		judged, failures := powerCuts(cfg, (*world).run, samples(10))
		for _, err := range failures {
			t.Error(err)
		}
		t.Logf("%d power cuts", judged)
		if judged < 500/thin {
			t.Errorf("only %d power cuts were judged", judged)
		}
	}
}

// TestWithoutSyncsThePowerCutTestFails is what gives the test above its worth.
func TestWithoutSyncsThePowerCutTestFails(t *testing.T) {
	if _, failures := powerCuts(crashfs.Config{Seed: 1, IgnoreSync: true}, (*world).run, 10); len(failures) == 0 {
		t.Error("a machine that never syncs lost nothing")
	}
}

// TestHolesInTheTailAreCut writes frames over several sectors without a sync,
// and looks at every subset of the sectors that a power cut can leave.
func TestHolesInTheTailAreCut(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 3})
	big := func(o *Options) { o.FirstSegmentBytes = 16 << 10 }
	l := mustOpenOn(t, m.Process(), big)
	w := &world{m: m}
	must(t, w.append(l, 2))
	for i := range 6 {
		s := fmt.Sprintf("%d %s", i, strings.Repeat("y", 500+i*100))
		w.tried = append(w.tried, s)
		must(t, appendOne(l, s, Settle))
	}
	m.Stop()
	shapes := map[int]int{}
	for name, after := range m.Crashes(samples(2500/thin), 1) {
		if err := w.judge(after); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, got, err := revive(after.Process())
		must(t, err)
		shapes[len(got)]++
	}
	if len(shapes) < 4 && thin == 1 {
		t.Errorf("the shapes of the tail gave only these numbers of frames: %v", shapes)
	}
}

// TestKillsAtEveryOperationLeaveThePeersAtWork kills a process before each of
// its operations, or in the middle of its writes. A peer, which lived before or
// comes after, sees all that was answered and goes on; what it answers
// survives a power cut.
func TestKillsAtEveryOperationLeaveThePeersAtWork(t *testing.T) {
	kills := 0
	for _, late := range []bool{false, true} {
		for _, short := range []int{-1, 60, 100} {
			for at, done := 0, false; !done; at += thin {
				kills++
				k := killing{w: &world{m: crashfs.New(crashfs.Config{Seed: 4})}, at: at, short: short, late: late}
				var err error
				if done, err = k.run(); err != nil {
					t.Fatalf("killed before %s, %d bytes of a write done, peer late %v: %v", k.where, short, late, err)
				}
			}
		}
	}
	t.Logf("%d kills", kills)
	if kills < 400/thin {
		t.Errorf("only %d kills", kills)
	}
}

// killing is one run in which a process dies.
type killing struct {
	w     *world
	at    int  // the operation
	short int  // how much of it is done, when it is a write; -1 for nothing
	late  bool // the peer opens the store after the death
	where string
	peer  *Log
	cuts  int // so far
}

func (k *killing) open() (err error) {
	k.peer, err = openOn(k.w.m.Process(), func(o *Options) { o.FirstSegmentBytes = 512 })
	return err
}

// run reports whether the script came to its end alive.
func (k *killing) run() (done bool, err error) {
	if !k.late {
		if err := k.open(); err != nil {
			return false, err
		}
		if err := k.w.append(k.peer, 2); err != nil {
			return false, err
		}
	}
	victim := k.w.m.Process()
	k.kill(victim)
	err = k.script(victim)
	if done = err == nil; !done && !errors.Is(err, crashfs.ErrKilled) {
		return false, err
	}
	if k.late {
		if err := k.open(); err != nil {
			return false, err
		}
	}
	return done, k.goOn()
}

// kill lets the victim die at its operation.
func (k *killing) kill(victim *crashfs.Process) {
	n := 0
	k.w.m.Inject(func(op crashfs.Op) error {
		if op.Process != victim || !op.Kind.Changes() {
			return nil
		}
		if n++; n <= k.at {
			return nil
		}
		k.where = op.String()
		if op.Kind == crashfs.OpWriteAt && k.short >= 0 && op.Length > k.short {
			return crashfs.ShortWrite{N: k.short, Err: crashfs.ErrKilled}
		}
		return crashfs.ErrKilled
	})
}

func (k *killing) script(victim *crashfs.Process) error {
	l, err := openOn(victim, func(o *Options) { o.FirstSegmentBytes = 512 })
	if err != nil {
		return err
	}
	if err := k.w.append(l, 3); err != nil {
		return err
	}
	if err := l.Prepare(); err != nil {
		return err
	}
	if err := k.w.append(l, 6); err != nil {
		return err
	}
	if err := compactNow(l); err != nil {
		return err
	}
	if err := k.w.append(l, 2); err != nil {
		return err
	}
	return compactNow(l)
}

// goOn is what the peer does after the death.
func (k *killing) goOn() error {
	got, err := k.read()
	if err != nil {
		return fmt.Errorf("the peer: %w", err)
	}
	if err := prefix(got, k.w.tried, k.w.acked); err != nil {
		return err
	}
	k.w.tried = got
	if err := k.w.append(k.peer, 2); err != nil {
		return fmt.Errorf("the peer: %w", err)
	}
	if err := k.powerCut(); err != nil {
		return err
	}
	if err := k.peer.Prepare(); err != nil {
		return fmt.Errorf("the peer: %w", err)
	}
	if err := compactNow(k.peer); err != nil {
		return fmt.Errorf("the peer: %w", err)
	}
	if err := k.powerCut(); err != nil {
		return err
	}
	if err := k.w.append(k.peer, 4); err != nil {
		return fmt.Errorf("the peer: %w", err)
	}
	if got, err := k.read(); err != nil || !slices.Equal(got, k.w.tried) {
		return fmt.Errorf("the peer reads %q, %w", got, err)
	}
	return k.powerCut()
}

func (k *killing) read() (got []string, err error) {
	if err := k.peer.Lock(); err != nil {
		return nil, err
	}
	defer k.peer.Unlock()
	return load(k.peer, k.peer.CatchUp)
}

// powerCut checks what a power cut would leave, without doing it.
func (k *killing) powerCut() error {
	k.w.acked = len(k.w.tried)
	keep := crashfs.KeepNone
	if k.cuts++; k.cuts == 2 {
		keep = crashfs.KeepRandom(uint64(k.at))
	}
	if err := k.w.judge(k.w.m.Crash(keep)); err != nil {
		return fmt.Errorf("after a power cut: %w", err)
	}
	return nil
}

// TestACutIsDurableBeforeTheNextFrame lets a sound frame follow a hole. It is
// cut with the hole; a frame as long as the hole is written in its place, and
// the power goes again. The old frame must not come back behind the new one.
func TestACutIsDurableBeforeTheNextFrame(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process(), func(o *Options) { o.FirstSegmentBytes = 16 << 10 })
	w := &world{m: m}
	must(t, w.append(l, 2))
	long := strings.Repeat("h", 1024-headerSize)
	hole := l.Pos()
	must(t, appendOne(l, long, Settle))
	must(t, appendOne(l, "behind the hole", Settle))
	m.Stop()
	m = m.Crash(func(u crashfs.Unit) int {
		if u.Kind == crashfs.Sector && u.Offset/512 == (hole.Offset+512)/512 {
			return 0
		}
		return u.Choices - 1
	})
	l, got, err := revive(m.Process())
	must(t, err)
	sameTexts(t, got, w.tried)
	long = strings.ToUpper(long)
	must(t, appendOne(l, long, Settle))
	m.Stop()
	for name, after := range m.Crashes(100, 1) {
		_, again, err := revive(after.Process())
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		must(t, prefix(again, append(w.tried, long), 2))
	}
}

func TestPreparedSegmentsAreDurable(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	l := mustOpenOn(t, m.Process())
	must(t, l.Prepare())
	m = m.Crash(crashfs.KeepNone)
	for name, size := range map[string]int{"000002.log": 1024, "000003.log": 1024, reserveName: 1024 + 2*256} {
		if b, err := m.ReadFile(join(labDir, name)); err != nil || len(b) != size {
			t.Errorf("%s has %d bytes, want %d: %v", name, len(b), size, err)
		}
	}
}

// TestASyncCoversOnlyWhatWasThereWhenItBegan lets a peer append while a sync is
// under way.
func TestASyncCoversOnlyWhatWasThereWhenItBegan(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	a, b := mustOpenOn(t, m.Process()), mustOpenOn(t, m.Process())
	must(t, appendOne(b, "first", Settle))
	must(t, appendOne(a, "second", Settle))
	end := a.Pos()
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync {
			m.Inject(nil)
			must(t, appendOne(b, "during the sync", Settle))
		}
		return nil
	})
	must(t, a.Sync())
	durable := a.Durable()
	if durable != end || a.Durable() != end || b.Durable() != end {
		t.Errorf("durable up to %v, %v, %v; the sync began at %v", durable, a.Durable(), b.Durable(), end)
	}
}
