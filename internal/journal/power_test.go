package journal

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

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
		if _, err := l.Sync(); err != nil {
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
	return w.appendEvery(l, 12, 6)
}

// judge checks what is left of the store on m after a power cut.
func (w *world) judge(m *crashfs.Machine) error {
	if _, err := Verify(m.Process(), labDir); err != nil && w.acked > 0 {
		return fmt.Errorf("verify: %w", err)
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
	if _, err := l.Sync(); err != nil {
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

// powerCuts runs the script, cuts the power before every operation that
// changes something, and judges up to samples of what may be left each time.
// It returns how many it judged, and the first failures.
func powerCuts(cfg crashfs.Config, samples int) (judged int, failures []error) {
	for at := 0; ; at++ {
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
		err := w.run()
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
		judged, failures := powerCuts(cfg, samples(10))
		for _, err := range failures {
			t.Error(err)
		}
		t.Logf("%d power cuts", judged)
		if judged < 500 {
			t.Errorf("only %d power cuts were judged", judged)
		}
	}
}

// TestWithoutSyncsThePowerCutTestFails is what gives the test above its worth.
func TestWithoutSyncsThePowerCutTestFails(t *testing.T) {
	if _, failures := powerCuts(crashfs.Config{Seed: 1, IgnoreSync: true}, 10); len(failures) == 0 {
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
	for name, after := range m.Crashes(samples(2500), 1) {
		if err := w.judge(after); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		_, got, err := revive(after.Process())
		must(t, err)
		shapes[len(got)]++
	}
	if len(shapes) < 4 {
		t.Errorf("the shapes of the tail gave only these numbers of frames: %v", shapes)
	}
}

// TestKillsAtEveryOperationLeaveThePeersAtWork kills a process before each of
// its operations, and cuts its writes short, while a peer lives.
func TestKillsAtEveryOperationLeaveThePeersAtWork(t *testing.T) {
	kills := 0
	for _, short := range []int{-1, 1, 60, 100} {
		for at := 0; ; at++ {
			kills++
			done, err := killAt(at, short)
			if err != nil {
				t.Fatalf("killed at %d, %d bytes of a write done: %v", at, short, err)
			}
			if done {
				break
			}
		}
	}
	t.Logf("%d kills", kills)
	if kills < 200 {
		t.Errorf("only %d kills", kills)
	}
}

// killAt runs a script whose process dies at an operation, and checks that a
// peer sees all that was answered. done says that the script came to its end.
func killAt(at, short int) (done bool, err error) {
	w := &world{m: crashfs.New(crashfs.Config{Seed: 4})}
	small := func(o *Options) { o.FirstSegmentBytes = 512 }
	peer, err := openOn(w.m.Process(), small)
	if err != nil {
		return false, err
	}
	if err := appendOne(peer, "first", Settle); err != nil {
		return false, err
	}
	victim := w.m.Process()
	n := 0
	w.m.Inject(func(op crashfs.Op) error {
		if op.Process != victim || !op.Kind.Changes() {
			return nil
		}
		if n++; n <= at {
			return nil
		}
		if op.Kind == crashfs.OpWriteAt && short >= 0 && op.Length > short {
			return crashfs.ShortWrite{N: short, Err: crashfs.ErrKilled}
		}
		return crashfs.ErrKilled
	})
	w.tried = []string{"first"}
	err = func() error {
		l, err := openOn(victim, small)
		if err != nil {
			return err
		}
		if err := w.append(l, 3); err != nil {
			return err
		}
		if err := l.Prepare(); err != nil {
			return err
		}
		if err := w.append(l, 6); err != nil {
			return err
		}
		return compactNow(l)
	}()
	if err != nil && !errors.Is(err, crashfs.ErrKilled) {
		return false, err
	}
	var got []string
	read := func() error {
		if err := peer.Lock(); err != nil {
			return err
		}
		defer peer.Unlock()
		var err error
		got, err = load(peer, peer.CatchUp)
		return err
	}
	if err := read(); err != nil {
		return false, fmt.Errorf("the peer: %w", err)
	}
	if err := prefix(got, w.tried, w.acked); err != nil {
		return false, err
	}
	if err := appendOne(peer, "after", Settle); err != nil {
		return false, err
	}
	want := append(got, "after")
	if err := read(); err != nil || !slices.Equal(got, want) {
		return false, fmt.Errorf("the peer reads %q, %w", got, err)
	}
	return err == nil && n <= at, nil
}
