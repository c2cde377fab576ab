//go:build linux && (amd64 || arm64)

package disktest

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// fault is what happens to a scenario.
type fault struct {
	errno syscall.Errno
	short bool // a write is made in part
	kill  bool
	on    bool // from then on, not once
}

func (f fault) String() string {
	name := "kill"
	switch {
	case f.short:
		name = "short write"
	case f.errno != 0:
		name = unix.ErrnoName(f.errno)
	}
	if f.on {
		name += " from then on"
	}
	return name
}

// able says whether the kernel may let a call end so, on a local file system.
func (f fault) able(c call) bool {
	unlocks := c.name == "flock" && c.args[1] == unix.LOCK_UN
	if f.kill {
		return true
	}
	if c.name == "close" || unlocks {
		return false
	}
	names := c.name == "openat" || c.name == "mkdirat" || c.name == "renameat" || c.name == "unlinkat"
	writes := c.name == "pwrite" || c.name == "ftruncate" || c.name == "fsync" || c.name == "fdatasync" || c.name == "fallocate"
	switch f.errno {
	case 0: // a short write
		return c.name == "pwrite" && c.args[2] > 1
	case unix.EMFILE:
		return c.name == "openat" || c.name == "inotify_init"
	case unix.ENOSPC, unix.EDQUOT:
		return names || writes || c.name == "inotify_add_watch" && f.errno == unix.ENOSPC
	case unix.EROFS:
		return names || writes || c.name == "faccessat"
	case unix.EACCES:
		return names || c.name == "fstatat" || c.name == "faccessat" || c.name == "statfs"
	case unix.EIO:
		return c.name != "inotify_init" && c.name != "inotify_add_watch"
	}
	return true // EINTR
}

// run is a scenario with a fault at its n-th call that is able to end so.
type run struct {
	fault
	n int

	mu   sync.Mutex
	seen int
	hit  call // the call of the fault; without a name: there were fewer
	all  map[string]int
}

func (r *run) String() string { return fmt.Sprintf("%v at call %d (%v)", r.fault, r.n, r.hit) }

// judge says what becomes of a call.
func (r *run) judge(c call) verdict {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.able(c) {
		return verdict{}
	}
	r.seen++
	if r.all != nil {
		r.all[c.name]++
	}
	switch {
	case r.n == 0 || r.seen < r.n: // none is wanted, or a later one
		return verdict{}
	case r.seen == r.n:
		r.hit = c
	case !r.on:
		return verdict{}
	case r.errno == unix.EINTR && (r.seen-r.n)%2 == 1:
		return verdict{} // a call that is interrupted is made again
	}
	v := verdict{kill: r.kill, errno: r.errno}
	if r.short {
		v.short = int(c.args[2]+1) / 2
	}
	return v
}

// play runs the scenario in a store of its own, and judges what is left.
func (r *run) play(t *testing.T) error {
	root := t.TempDir()
	p := plan{Role: asScenario, Store: filepath.Join(root, "jobs"), Mends: !r.kill && (!r.on || r.errno == unix.EINTR || r.short)}
	q, done := supervised(t, p, root, r.judge)
	late := time.NewTimer(6 * patience)
	defer late.Stop()
	select {
	case <-q.ended:
	case <-late.C:
		q.kill()
		events, _ := q.told()
		return fmt.Errorf("it hangs after %+v", events[max(0, len(events)-3):])
	}
	if err := <-done; err != nil {
		return err
	}
	events, _ := q.told()
	for _, e := range events {
		if *only > 0 && !e.Begun {
			t.Logf("%v %s %s %v: %s", e.Took, e.By, e.Call, e.IDs, e.Err)
		}
	}
	l := newLedger()
	if killed := r.kill && r.hit.name != ""; !killed && q.err != nil {
		l.wrong("it ended with %w: %s", q.err, q.stderr.String())
	}
	r.explained(l, events)
	l.take(events)
	return l.judge(plan{Store: p.Store})
}

// explained wants that each error says what is wrong, and that there is none
// where nothing is.
func (r *run) explained(l *ledger, events []event) {
	for _, e := range events {
		if e.Err == "" || e.Call == "mend" {
			continue
		}
		told := r.errno != 0 && (strings.Contains(e.Err, r.errno.Error()) || e.is("full") || e.is("lease lost"))
		if !told || r.errno == unix.EINTR {
			l.wrong("%s of %s: %s", e.Call, e.By, e.Err)
		}
	}
}

var all = func() (list []fault) {
	for _, e := range []syscall.Errno{unix.EIO, unix.ENOSPC, unix.EDQUOT, unix.EINTR, unix.EROFS, unix.EACCES, unix.EMFILE} {
		list = append(list, fault{errno: e}, fault{errno: e, on: true})
	}
	return append(list, fault{short: true}, fault{short: true, on: true})
}()

var only = flag.Int("call", 0, "play a fault at this call alone, and show what the process tells: repeats a failure")

// every plays a fault at every call until there are no more, or, but for the proof,
// at so many of total, by chance: a failure names its call, and -call repeats it.
func every(t *testing.T, f fault, some, total int) {
	if *only > 0 {
		r := &run{fault: f, n: *only}
		err := r.play(t)
		t.Logf("%v: %v", r, err)
		return
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	begun, last, wrong, hits := 0, 0, 0, map[string]int{}
	next := func() (*run, bool) {
		mu.Lock()
		defer mu.Unlock()
		begun++
		if *full {
			return &run{fault: f, n: begun}, last == 0 && wrong < 3
		}
		return &run{fault: f, n: 1 + rand.IntN(total)}, begun <= some && wrong < 3
	}
	for range 3 {
		wg.Go(func() {
			for r, more := next(); more; r, more = next() {
				err := r.play(t)
				mu.Lock()
				if err != nil {
					wrong++
					t.Errorf("%v: %v", r, err)
				}
				if r.hit.name != "" {
					hits[r.hit.name]++
				} else {
					last = r.n
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	n := 0
	for _, k := range hits {
		n += k
	}
	t.Logf("%v: at %d calls: %v", f, n, hits)
	if n == 0 {
		t.Error("no call met the fault: this test proves nothing")
	}
}

// TestKilledAtASystemCallNothingIsLost kills the scenario at its system calls about
// files, one after the other. What was acknowledged is there, the rest is whole or
// not at all, and the store works.
func TestKilledAtASystemCallNothingIsLost(t *testing.T) {
	canSupervise(t)
	f := fault{kill: true}
	every(t, f, 3*sampled(), calls(t)[f])
}

// TestAnySystemCallMayFail lets each call fail, once and from then on, with every
// error that it can have.
func TestAnySystemCallMayFail(t *testing.T) {
	canSupervise(t)
	totals := calls(t)
	for _, f := range all {
		t.Run(f.String(), func(t *testing.T) { every(t, f, sampled(), totals[f]) })
	}
}

// sampled is at how many calls a fault is played when that is not the proof.
func sampled() int {
	if testing.Short() {
		return 3
	}
	return 5
}

// calls counts the calls of the scenario that can end with each fault.
func calls(t *testing.T) map[fault]int {
	totals := map[fault]int{}
	root, list := t.TempDir(), append([]fault{{kill: true}}, all...)
	q, done := supervised(t, plan{Role: asScenario, Store: filepath.Join(root, "jobs"), Mends: true}, root, func(c call) verdict {
		for _, f := range list {
			if f.able(c) {
				totals[f]++
			}
		}
		return verdict{}
	})
	<-q.ended
	must(t, <-done)
	return totals
}

// TestTheScenarioMakesEveryCall: what it leaves out nobody proves.
func TestTheScenarioMakesEveryCall(t *testing.T) {
	canSupervise(t)
	r := &run{fault: fault{kill: true}, all: map[string]int{}}
	must(t, r.play(t))
	t.Logf("%d calls: %v", r.seen, r.all)
	for _, k := range watched {
		if optional := []string{"fallocate"}; r.all[k.name] == 0 && !slices.Contains(optional, k.name) {
			t.Errorf("the scenario makes no %s", k.name)
		}
	}
}
