//go:build linux

package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// takeover is how soon the jobs of a killed process have to run elsewhere,
// whatever the TTL of its leases.
const takeover = time.Second

// ready starts a worker and waits until it has run a job: it is registered
// then, and waits for the next.
func ready(t *testing.T, p plan) *process {
	t.Helper()
	p.Role = asWorker
	w := start(t, p)
	enqueue(t, p.Store, 1, note)
	w.await("ack", 1)
	return w
}

// survivors kills the worker that holds n jobs and returns how long it took
// from the kill to the start of the last of them on the other.
func survivors(t *testing.T, holder, other *process, n int) time.Duration {
	t.Helper()
	before, _ := other.told("start")
	killed := now()
	holder.kill()
	starts := other.await("start", len(before)+n)[len(before):]
	last := time.Duration(0)
	for _, e := range starts {
		last = max(last, e.At)
	}
	return last - killed
}

func TestTheJobsOfAKilledWorkerRunElsewhereWithinASecond(t *testing.T) {
	const leases, rounds = 10, 6
	for _, c := range []struct {
		name string
		task *spool.Task[args]
		busy bool // with starting commands, each of which inherits the worker's files until it is executed
	}{
		{"that waits", hold, false},
		{"that starts commands all the time", storm, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t)
			p := plan{Store: dir, Role: asWorker, Concurrency: leases, TTL: 30 * time.Second}
			holder := start(t, p)
			ids := enqueue(t, dir, leases, c.task)
			holder.await("start", leases)
			for round := range rounds {
				other := ready(t, p)
				took := survivors(t, holder, other, leases)
				t.Logf("round %d: all run elsewhere %v after the kill", round+1, took.Round(10*time.Microsecond))
				if took > takeover {
					t.Errorf("round %d: the last of %d jobs ran %v after the kill, allowed is %v", round+1, leases, took, takeover)
				}
				holder = other
			}
			for _, j := range jobs(t, dir, ids...) {
				if j.Attempt != rounds+1 {
					t.Errorf("job %s: attempt %d after %d kills", j.ID, j.Attempt, rounds)
				}
			}
		})
	}
}

func TestTheJobsOfAKilledWorkerAreReadyWhenOnlyAWorkerOfAnotherQueueLives(t *testing.T) {
	dir := newStore(t)
	holder := start(t, plan{Role: asWorker, Store: dir, Queues: []string{spool.DefaultQueue}})
	id := enqueue(t, dir, 1, hold)[0]
	holder.await("start", 1)
	elsewhere := start(t, plan{Role: asWorker, Store: dir, Queues: []string{"elsewhere"}})
	enqueue(t, dir, 1, note, spool.Queue("elsewhere"))
	elsewhere.await("ack", 1)

	reader, err := openStore(plan{Store: dir, Role: asClient})
	must(t, err)
	defer reader.Close()
	killed := now()
	holder.kill()
	var j spool.Job
	eventually(t, "the job is ready again", func() bool {
		j, err = reader.Get(t.Context(), id)
		must(t, err)
		return j.State == spool.Ready
	})
	if took := now() - killed; took > takeover {
		t.Errorf("the job was ready %v after the kill, allowed is %v", took, takeover)
	}
	if j.Reason != "worker_died" || j.Attempt != 1 {
		t.Errorf("reason %q, attempt %d", j.Reason, j.Attempt)
	}
	workers, err := reader.Workers(t.Context(), "")
	must(t, err)
	if len(workers) != 1 || workers[0].PID != elsewhere.pid() {
		t.Errorf("the list of workers is %+v", workers)
	}
}

func TestAJobThatEndsItsProcessIsDeadAfterItsAllowedAttempts(t *testing.T) {
	for _, c := range []struct {
		name     string
		task     *spool.Task[args]
		attempts int
	}{
		{"by SIGKILL, three attempts", die, 3},
		{"by exit, three attempts", exit, 3},
		{"by SIGKILL, one attempt", die, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := newStore(t)
			poison := enqueue(t, dir, 1, c.task, spool.MaxAttempts(c.attempts))[0]
			next := enqueue(t, dir, 1, note, spool.Retain(time.Hour))[0]
			var starts []event
			for range c.attempts {
				w := start(t, plan{Role: asWorker, Store: dir, Concurrency: 1})
				starts = append(starts, w.await("start", 1)[0])
				<-w.ended
			}
			w := start(t, plan{Role: asWorker, Store: dir, Concurrency: 1})
			if e := w.await("ack", 1)[0]; e.id() != next {
				t.Errorf("the worker acked %v, the next job is %v", e.id(), next)
			}
			if ran, _ := w.told("start"); len(ran) != 1 {
				t.Errorf("the last worker started %d jobs: %+v", len(ran), ran)
			}
			for i, e := range starts {
				if e.id() != poison || e.Attempt != i+1 {
					t.Errorf("start %d is of job %v, attempt %d", i+1, e.id(), e.Attempt)
				}
				if i > 0 && e.Token <= starts[i-1].Token {
					t.Errorf("token %v came after %v", e.Token, starts[i-1].Token)
				}
			}
			j := jobs(t, dir, poison)[0]
			if j.State != spool.Dead || j.Reason != "crashed" || j.Attempt != c.attempts {
				t.Errorf("the job is %v with reason %q after attempt %d", j.State, j.Reason, j.Attempt)
			}
		})
	}
}

func TestAnEmptyStoreLivesThroughAKill(t *testing.T) {
	for _, n := range []int{0, 10} {
		t.Run(fmt.Sprintf("after %d jobs", n), func(t *testing.T) {
			dir := newStore(t)
			w := start(t, plan{Role: asWorker, Store: dir})
			var old []spool.ID
			if n > 0 {
				old = enqueue(t, dir, n, note)
			}
			w.await("ack", n)
			eventually(t, "the worker is registered", func() (up bool) {
				with(t, dir, func(c *spool.Client) {
					workers, err := c.Workers(t.Context(), "")
					must(t, err)
					up = len(workers) == 1
				})
				return up
			})
			w.kill()
			id := enqueue(t, dir, 1, note)[0]
			w = start(t, plan{Role: asWorker, Store: dir})
			if e := w.await("ack", 1)[0]; e.id() != id {
				t.Errorf("job %v ran, enqueued was %v; before there were %v", e.id(), id, old)
			}
		})
	}
}

func TestARequeueThatIsKilledHalfWayNeitherLosesNorDoublesAJob(t *testing.T) {
	const n, rounds, step = 500, 4, 5
	dir := newStore(t)
	enqueue(t, dir, n, note)
	total := 0
	for round := range rounds { // each is killed a little later
		with(t, dir, func(c *spool.Client) { buryAll(t, c) })
		c := opened(t, plan{Store: dir})
		with(t, dir, func(look *spool.Client) {
			c.order(order{Do: "requeue", N: step})
			eventually(t, "the requeue is under way", func() bool { return ready64(t, look)[note.Name()] > int64(round)*n/rounds/2 })
			c.kill()
		})
		again := 0
		with(t, dir, func(c *spool.Client) {
			before := ready64(t, c)[note.Name()]
			var err error
			again, err = c.Requeue(t.Context(), spool.Filter{})
			must(t, err)
			if before+int64(again) != n || ready64(t, c)[note.Name()] != n {
				t.Errorf("round %d: %d were ready after the kill, then %d were requeued", round+1, before, again)
			}
			for id, list := range recount(t, c) {
				if len(list) != 1 || list[0].State != spool.Ready {
					t.Errorf("round %d: job %v is there %d times", round+1, id, len(list))
				}
			}
		})
		t.Logf("round %d: %d were left to requeue", round+1, again)
		total += again
	}
	if total == 0 {
		t.Error("no requeue was killed half way")
	}
}

// buryAll makes every job a dead letter.
func buryAll(t *testing.T, c *spool.Client) {
	t.Helper()
	for {
		got, err := c.Broker().Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Max: broker.MaxClaimJobs})
		must(t, err)
		if len(got.Leases) == 0 {
			return
		}
		var list []broker.Settlement
		for _, l := range got.Leases {
			list = append(list, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Bury})
		}
		_, err = c.Broker().Settle(t.Context(), broker.NewCall(), list)
		must(t, err)
	}
}

func TestACommandThatOutlivesItsWorkerHoldsNothingOfTheStore(t *testing.T) {
	dir := newStore(t)
	p := plan{Role: asWorker, Store: dir, Concurrency: 4, TTL: 30 * time.Second}
	holder := start(t, p)
	ids := enqueue(t, dir, 4, spawn)
	holder.await("start", 4)
	var commands []int
	for _, e := range holder.await("spawned", 4) {
		commands = append(commands, int(e.Number))
	}
	t.Cleanup(func() { killCommands(t, commands) })
	other := ready(t, p)
	killed := now()
	before, _ := other.told("start")
	holder.kill()
	starts := other.await("start", len(before)+4)[len(before):]
	for _, e := range other.await("spawned", 4) {
		commands = append(commands, int(e.Number))
	}
	for _, e := range starts {
		if took := e.At - killed; took > takeover {
			t.Errorf("a job ran %v after the kill, allowed is %v", took, takeover)
		}
	}
	for _, pid := range commands[:4] {
		for _, name := range openFiles(t, pid) {
			if strings.HasPrefix(name, dir) {
				t.Errorf("the command %d has %s open", pid, name)
			}
		}
	}
	for _, j := range jobs(t, dir, ids...) {
		if j.State != spool.Leased || j.Attempt != 2 {
			t.Errorf("job %v is %v, attempt %d", j.ID, j.State, j.Attempt)
		}
	}
	other.kill()
	enqueue(t, dir, 1, note) // takes every lock while all commands live
}

// openFiles lists what a live process has open.
func openFiles(t *testing.T, pid int) (names []string) {
	t.Helper()
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	must(t, err)
	if len(fds) == 0 {
		t.Fatalf("the command %d does not live", pid)
	}
	for _, fd := range fds {
		if name, err := os.Readlink(fd); err == nil {
			names = append(names, name)
		}
	}
	return names
}

// killCommands ends commands that were started by workers.
func killCommands(t *testing.T, pids []int) {
	for _, pid := range pids {
		c, err := os.FindProcess(pid)
		must(t, err)
		_ = c.Kill() // it may have ended by itself
	}
}
