//go:build linux

package proctest

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/journal"
)

// runHammer enqueues large batches without waiting for the disk, so that it
// holds the store's lock for much of its time. It tells how many jobs were
// acknowledged when it is told to stop.
func runHammer(t *teller, p plan) error {
	p.NoSync = true
	c, err := openStore(p)
	if err != nil {
		return err
	}
	ctx, stop := untilTold(func(order) {})
	defer stop()
	t.tell(event{What: "up"})
	specs := make([]spool.Spec, 500)
	for i := range specs {
		specs[i] = spool.Raw("hammered", make([]byte, 1000))
	}
	done := int64(0)
	for ctx.Err() == nil {
		got, err := c.Enqueue(context.WithoutCancel(ctx), specs...)
		done += int64(len(got))
		if err != nil {
			return err
		}
	}
	t.tell(event{What: "hammered", Number: done})
	return c.Close()
}

// lockIsFree reports whether nobody holds the store's lock.
func lockIsFree(t *testing.T, dir string) bool {
	t.Helper()
	return fileIsFree(t, filepath.Join(dir, "LOCK"))
}

// fileIsFree reports whether nobody holds the lock of a file.
func fileIsFree(t *testing.T, name string) bool {
	t.Helper()
	f, err := system.Open(name, syscall.O_RDWR)
	must(t, err)
	free, err := f.TryLock()
	must(t, errors.Join(err, f.Close()))
	return free
}

// catch stops a process while it holds the store's lock.
func catch(t *testing.T, p *process) {
	t.Helper()
	stopWhile(t, p, "it has the lock", func() bool {
		// Another process may hold it, for as long as a busy machine leaves it without
		// a processor: the store says who does.
		pid, _, known := journal.HolderOf(system, p.plan.Store)
		return known && pid == p.pid() && !lockIsFree(t, p.plan.Store)
	})
}

// stopWhile stops a process, and lets it go on and stops it again until something
// is true of it while it stands.
func stopWhile(t *testing.T, p *process, what string, ok func() bool) {
	t.Helper()
	for try := range 1000 {
		if p.stop(); ok() {
			t.Logf("caught at try %d", try+1)
			return
		}
		p.signal(syscall.SIGCONT)
		eventually(t, "the process goes on", func() bool { return !p.stands() })
	}
	t.Fatalf("the process was never stopped while %s", what)
}

func TestAStoppedHolderOfTheLockIsNamedAndNothingIsStolen(t *testing.T) {
	t.Parallel() // it mostly waits
	dir := newStore(t)
	hammer := start(t, plan{Role: asHammer, Store: dir})
	hammer.await("up", 1)
	patient, brief := opened(t, plan{Store: dir, Name: "patient"}), opened(t, plan{Store: dir, Name: "brief"})
	late := start(t, plan{Role: asClient, Store: dir, Name: "late"})
	late.await("up", 1)
	catch(t, hammer)
	caught := now()

	patient.order(order{Do: "enqueue"})
	late.order(order{Do: "open"})
	if a := brief.ask(order{Do: "enqueue", For: 300 * time.Millisecond}); !slices.Contains(a.Is, "deadline") {
		t.Errorf("an enqueue that waited 300ms for the lock: error %q", a.Text)
	}
	named := "pid=" + strconv.Itoa(hammer.pid())
	eventually(t, "an open that waits says why", func() bool { return strings.Contains(late.log(), "waiting to open the store") })
	for _, p := range []*process{patient, brief} {
		eventually(t, p.name+" names the holder of the lock", func() bool { return strings.Contains(p.log(), named) })
		t.Logf("%s named the holder %v after it was stopped", p.name, (now() - caught).Round(time.Millisecond))
	}
	for _, p := range []*process{patient, late} {
		if answers, _ := p.told("answer"); len(answers) != map[*process]int{patient: 1, late: 0}[p] {
			t.Errorf("%s got an answer while the lock was held: %+v", p.name, answers)
		}
	}
	if lockIsFree(t, dir) {
		t.Error("the lock was taken from its holder")
	}

	hammer.signal(syscall.SIGCONT)
	kept := patient.await("answer", 2)[1]
	if kept.Text != "" {
		t.Errorf("the enqueue that waited: %s", kept.Text)
	}
	if a := late.await("answer", 1)[0]; a.Text != "" {
		t.Errorf("the open that waited: %s", a.Text)
	}
	must(t, hammer.stdin.Close())
	hammered := hammer.await("hammered", 1)[0].Number
	hammer.awaitEnd()
	for _, p := range []*process{patient, brief, late} {
		if a := p.ask(order{Do: "enqueue"}); a.Text != "" {
			t.Errorf("%s enqueues afterwards: %s", p.name, a.Text)
		}
		p.finish()
	}
	with(t, dir, func(c *spool.Client) {
		want := map[string]int64{"hammered": hammered, note.Name(): 4} // none of the one that gave up
		if got := ready64(t, c); got[note.Name()] != 4 || got["hammered"] != hammered {
			t.Errorf("there are %v, acknowledged were %v", got, want)
		}
		if _, err := c.Get(t.Context(), kept.id()); err != nil {
			t.Errorf("the job of the enqueue that waited: %v", err)
		}
	})
}

// ready64 counts the ready jobs by task.
func ready64(t *testing.T, c *spool.Client) map[string]int64 {
	t.Helper()
	counts, err := c.Counts(t.Context(), "")
	must(t, err)
	ready := map[string]int64{}
	for _, n := range counts {
		ready[n.Task] += n.Of(broker.Ready)
	}
	return ready
}

func TestOneProcessThatClosesTheLockFileLeavesTheLockToItsHolder(t *testing.T) {
	dir := newStore(t)
	hammer := start(t, plan{Role: asHammer, Store: dir})
	hammer.await("up", 1)
	catch(t, hammer)
	for range 3 { // a lock of POSIX would be gone with the first close
		if lockIsFree(t, dir) {
			t.Fatal("the lock of a stopped process is free")
		}
	}
	hammer.kill()
	eventually(t, "the lock of a killed process is free", func() bool { return lockIsFree(t, dir) })
	enqueue(t, dir, 1, note)
}
