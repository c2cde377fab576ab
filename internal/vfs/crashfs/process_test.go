package crashfs_test

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func TestAKilledProcessDoesNothingMore(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", "abc")
	w, err := p.Watch()
	ok(t, err)
	write(t, f, "x", 0)
	p.Kill()
	p.Kill()
	ops := m.Ops()
	_, err = f.WriteAt([]byte("y"), 0)
	is(t, "write", err, crashfs.ErrKilled)
	_, err = p.Open("/f", os.O_RDWR)
	is(t, "open", err, crashfs.ErrKilled)
	_, err = w.Next()
	is(t, "next", err, crashfs.ErrKilled)
	is(t, "sync", f.Sync(), crashfs.ErrKilled)
	is(t, "close", f.Close(), crashfs.ErrKilled)
	is(t, "syncdir", p.SyncDir("/"), crashfs.ErrKilled)
	if m.Ops() != ops {
		t.Error("what a killed process does is counted")
	}
	if got := content(t, m, "/f"); got != "xbc" {
		t.Errorf("the file holds %q", got)
	}
	if got := content(t, m.Crash(crashfs.KeepNone), "/f"); got != "abc" {
		t.Errorf("a kill made its writes durable: %q", got)
	}
}

func TestInjectCanKill(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p, q := m.Process(), m.Process()
	f := create(t, p, "/f", "abc")
	g := open(t, q, "/f", os.O_RDWR)
	m.Inject(func(op crashfs.Op) error {
		if op.Process == p && op.Kind == crashfs.OpWriteAt {
			return crashfs.ErrKilled
		}
		if op.Process == q && op.Kind == crashfs.OpSync {
			q.Kill() // and let the operation go on
		}
		return nil
	})
	_, err := f.WriteAt([]byte("x"), 0)
	is(t, "write", err, crashfs.ErrKilled)
	is(t, "size", errOf(f.Size()), crashfs.ErrKilled)
	write(t, g, "y", 1)
	is(t, "sync", g.Sync(), crashfs.ErrKilled)
	if got := content(t, m, "/f"); got != "ayc" {
		t.Errorf("the file holds %q", got)
	}
	if got := content(t, m.Crash(crashfs.KeepNone), "/f"); got != "abc" {
		t.Errorf("the sync was done: %q", got)
	}
}

func errOf(_ int64, err error) error { return err }

func TestAKilledProcessNoLongerReachesTheMemoryOfOthers(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only on Linux")
	}
	m := crashfs.New(crashfs.Config{})
	p, q := m.Process(), m.Process()
	f := create(t, p, "/f", sectors("aaaaaaaa"))
	mine, err := f.Map(4096)
	ok(t, err)
	g := open(t, q, "/f", os.O_RDWR)
	theirs, err := g.Map(4096)
	ok(t, err)
	mine[0] = 'x'
	p.Kill()
	if theirs[0] != 'x' || mine[0] != 'x' {
		t.Errorf("a store before the kill is lost: %q, %q", theirs[0], mine[0])
	}
	mine[0] = 'z'
	theirs[1] = 'y'
	if theirs[0] != 'x' {
		t.Errorf("a killed process stored %q", theirs[0])
	}
	if got := content(t, m, "/f")[:3]; got != "xya" {
		t.Errorf("the file begins with %q", got)
	}
	q.Kill() // the last map
	theirs[0] = 'z'
	if got := content(t, m, "/f")[:3]; got != "xya" {
		t.Errorf("after the last kill the file begins with %q", got)
	}
	again, err := open(t, m.Process(), "/f", os.O_RDWR).Map(4096)
	ok(t, err)
	if string(again[:3]) != "xya" {
		t.Errorf("a new map begins with %q", again[:3])
	}
}

func TestAStoppedMachineKeepsItsMoment(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", sectors("aaaaaaaa"))
	b, err := f.Map(4096)
	ok(t, err)
	b[0] = 'x'
	m.Stop()
	b[0] = 'y'
	_, err = f.WriteAt([]byte("z"), 0)
	is(t, "write", err, crashfs.ErrCrash)
	is(t, "close", f.Close(), crashfs.ErrCrash)
	is(t, "a new process", m.Process().Mkdir("/d"), crashfs.ErrCrash)
	if got := content(t, m.Crash(crashfs.KeepAll), "/f")[:1]; got != "x" {
		t.Errorf("the file begins with %q", got)
	}
	p.Kill() // a dead machine has no processes to kill
	is(t, "sync", f.Sync(), crashfs.ErrCrash)
}

// In a bubble all waiting must be durably blocked, or time stands still.
func TestWaitingLetsTheTimeOfABubblePass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Minute})
		p, q := m.Process(), m.Process()
		start := p.Wall()
		f := create(t, p, "/f", "")
		ok(t, f.Lock())
		g := open(t, q, "/f", os.O_RDWR)
		w, err := q.Watch()
		ok(t, err)
		ok(t, w.Dir("/"))
		locked, seen := make(chan error, 1), make(chan error, 1)
		go func() { locked <- g.Lock() }()
		go func() {
			e, err := w.Next()
			if e != (vfs.WatchEvent{Dir: "/", Name: "f", Closed: true}) {
				err = errors.Join(err, errors.New("another report"))
			}
			seen <- err
		}()
		time.Sleep(time.Hour)
		if got := p.Monotonic(); got != time.Minute+time.Hour {
			t.Errorf("the monotonic clock says %v", got)
		}
		if got := p.Wall().Sub(start); got != time.Hour {
			t.Errorf("the wall clock went on by %v", got)
		}
		if len(locked)+len(seen) > 0 {
			t.Error("someone did not wait")
		}
		m.Clock.Step(-2 * time.Hour)
		m.Clock.Advance(time.Second)
		if got := p.Wall().Sub(start); got != time.Second-time.Hour {
			t.Errorf("after a step the wall clock went on by %v", got)
		}
		p.Kill()
		ok(t, <-locked)
		ok(t, <-seen)
		next := m.Crash(crashfs.KeepAll).Process()
		time.Sleep(time.Second)
		if next.Monotonic() != time.Second || !next.Wall().Equal(q.Wall()) {
			t.Errorf("after a boot the clocks say %v and %v", next.Monotonic(), next.Wall())
		}
	})
}

func TestTheEndReachesWhoWaits(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(m *crashfs.Machine, p *crashfs.Process)
		want error
	}{
		{"a kill", func(_ *crashfs.Machine, p *crashfs.Process) { p.Kill() }, crashfs.ErrKilled},
		{"a power cut", func(m *crashfs.Machine, _ *crashfs.Process) { m.Stop() }, crashfs.ErrCrash},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := crashfs.New(crashfs.Config{})
				p := m.Process()
				f := create(t, m.Process(), "/f", "")
				ok(t, f.Lock())
				g := open(t, p, "/f", os.O_RDWR)
				w, err := p.Watch()
				ok(t, err)
				errs := make(chan error, 2)
				go func() { errs <- g.Lock() }()
				go func() {
					_, err := w.Next()
					errs <- err
				}()
				synctest.Wait()
				c.end(m, p)
				is(t, "the first to wait", <-errs, c.want)
				is(t, "the second to wait", <-errs, c.want)
			})
		})
	}
}

func TestTheClockMovesWhenTold(t *testing.T) {
	start := time.Date(2030, 1, 2, 3, 4, 5, 6, time.UTC)
	m := crashfs.New(crashfs.Config{Start: start, Uptime: time.Hour})
	p := m.Process()
	m.Clock.Advance(time.Second)
	m.Clock.Step(-time.Minute)
	if got := p.Monotonic(); got != time.Hour+time.Second {
		t.Errorf("the monotonic clock says %v", got)
	}
	if got := p.Wall(); !got.Equal(start.Add(time.Second - time.Minute)) {
		t.Errorf("the wall clock says %v", got)
	}
	if crashfs.New(crashfs.Config{}).Clock.Wall().IsZero() {
		t.Error("the wall clock begins at zero")
	}
	defer func() {
		if recover() == nil {
			t.Error("time passed backwards")
		}
	}()
	m.Clock.Advance(-1)
}

func TestRandomNumbersFollowFromTheSeed(t *testing.T) {
	numbers := func(seed uint64, process int) (b [16]byte) {
		m := crashfs.New(crashfs.Config{Seed: seed})
		for range process {
			m.Process()
		}
		m.Process().Rand(b[:])
		return b
	}
	if first, again := numbers(1, 0), numbers(1, 0); first != again {
		t.Error("the same seed gives other numbers")
	}
	if numbers(1, 0) == numbers(2, 0) {
		t.Error("another seed gives the same numbers")
	}
	if numbers(1, 0) == numbers(1, 1) {
		t.Error("two processes get the same numbers")
	}
}

func TestAWatcherCanFallBehindOrBeMissing(t *testing.T) {
	m := crashfs.New(crashfs.Config{WatchQueue: 3})
	p := m.Process()
	w, err := p.Watch()
	ok(t, err)
	ok(t, w.Dir("/"))
	for _, name := range []string{"/a", "/a", "/b", "/c", "/d", "/e"} {
		ok(t, open(t, p, name, os.O_RDWR|os.O_CREATE).Close())
	}
	for _, want := range []vfs.WatchEvent{
		{Dir: "/", Name: "a", Closed: true}, {Dir: "/", Name: "b", Closed: true}, {},
	} {
		if got, err := w.Next(); got != want || err != nil {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
	ok(t, open(t, p, "/a", os.O_RDWR).Close())
	if got, err := w.Next(); got.Name != "a" || err != nil {
		t.Errorf("after the loss: %+v, %v", got, err)
	}
	_, err = crashfs.New(crashfs.Config{NoWatch: true}).Process().Watch()
	is(t, "watch", err, errors.ErrUnsupported)
}

func TestOddPathsAndMoves(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	ok(t, p.Mkdir("/d"))
	ok(t, open(t, p, "/d/../d/./f", os.O_RDWR|os.O_CREATE).Close())
	if _, err := p.Stat("d/f"); err != nil {
		t.Errorf("a path without a slash in front: %v", err)
	}
	ok(t, p.Rename("/d/f", "/d/f"))
	if err := p.Rename("/d", "/d/e"); err == nil {
		t.Error("a directory moved into itself")
	}
	ok(t, p.Rename("/d", "/e"))
	if got := tree(t, m, "/"); got != "e/(f=empty)" {
		t.Errorf("got %s", got)
	}
	ok(t, m.Symlink("/e", "/l"))
	is(t, "a link over a link", m.Symlink("/e", "/l"), fs.ErrExist)
	if _, err := p.Open("/l/f", os.O_RDWR); err == nil {
		t.Error("a link was followed")
	}
	if err := p.Remove("/"); err == nil {
		t.Error("the root was removed")
	}
	is(t, "make the root", p.Mkdir("/"), fs.ErrExist)
}

func TestOnlyWhatCanChangeTheDiskChanges(t *testing.T) {
	m := crashfs.New(crashfs.Config{})
	p := m.Process()
	f := create(t, p, "/f", sectors("a"))
	before, pending := "", 0
	m.Inject(func(op crashfs.Op) error { // the last operation is done, the next is not
		now, units := tree(t, m.Crash(crashfs.KeepAll), "/"), len(m.Units())
		if before != "" && (now != before || units != pending) {
			t.Errorf("before %v the disk has changed", op)
		}
		before, pending = now, units
		if op.Kind.Changes() {
			before = ""
		}
		return nil
	})
	ok(t, replace(p, "/f", "new"))
	ok(t, f.Lock())
	_, err := f.TryLock()
	ok(t, err)
	ok(t, f.Unlock())
	_, err = f.Size()
	ok(t, err)
	_, err = f.SameAs("/f")
	ok(t, err)
	ok(t, p.CheckDir("/", false))
	write(t, f, "x", 0)
	_, err = f.ReadAt(make([]byte, 1), 0)
	ok(t, err)
	ok(t, f.Close())
	_, err = p.ReadDir("/")
	ok(t, err)
}
