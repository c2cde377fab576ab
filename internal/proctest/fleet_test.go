//go:build linux

package proctest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// runProducer enqueues jobs of mixed outcome, one or several at a time, until
// it is told to stop.
func runProducer(t *teller, p plan) error {
	c, err := openStore(p)
	if err != nil {
		return err
	}
	ctx, stop := untilTold(func(order) {})
	defer stop()
	pace := 20 * time.Millisecond
	if p.Relay { // each job brings two
		pace *= 3
	}
	for ctx.Err() == nil {
		specs := make([]spool.Spec, 1+rand.IntN(5))
		for i := range specs {
			queue := spool.Queue(p.Queues[rand.IntN(len(p.Queues))])
			if specs[i] = mixed.With(args{}, queue); p.Relay {
				specs[i] = relay.With(args{}, queue)
			}
		}
		got, err := c.Enqueue(context.WithoutCancel(ctx), specs...)
		if err != nil {
			return err
		}
		e := event{What: "enqueued"}
		for _, g := range got {
			e.IDs = append(e.IDs, g.ID)
		}
		t.tell(e)
		select { // a few hundred jobs a second are more than enough
		case <-time.After(rand.N(pace)):
		case <-ctx.Done():
		}
	}
	return c.Close()
}

// fleet keeps processes running: who is killed is started again.
type fleet struct {
	t     *testing.T
	kills int
	wg    map[string]*sync.WaitGroup // of the processes of a role

	mu      sync.Mutex
	running []*fleetMember
	failed  []string
	killed  map[string]time.Duration // a moment before each kill, by the ledger
}

func newFleet(t *testing.T) *fleet {
	f := &fleet{t: t, wg: map[string]*sync.WaitGroup{}, killed: map[string]time.Duration{}}
	t.Cleanup(f.end)
	return f
}

type fleetMember struct {
	plan    plan
	command *exec.Cmd
	ledger  string // of the process that runs
	stdin   io.WriteCloser
	leave   bool // it is not to be started again
}

func (f *fleet) add(p plan) {
	m := &fleetMember{plan: p}
	f.running = append(f.running, m)
	if f.wg[p.Role] == nil {
		f.wg[p.Role] = new(sync.WaitGroup)
	}
	f.wg[p.Role].Go(func() {
		for n := 0; f.once(m, n); n++ {
		}
	})
}

// once runs a member's process to its end, and says whether to go on.
func (f *fleet) once(m *fleetMember, n int) bool {
	p := m.plan
	p.Ledger = fmt.Sprintf("%s-%d", p.Ledger, n)
	var stderr bytes.Buffer
	f.mu.Lock()
	if m.leave {
		f.mu.Unlock()
		return false
	}
	cmd, err := command(p)
	if err == nil {
		cmd.Stderr = &stderr
		m.stdin, err = cmd.StdinPipe()
	}
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		m.command, m.ledger = cmd, p.Ledger
	}
	f.mu.Unlock()
	if err == nil {
		err = cmd.Wait()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	m.command = nil
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	if err != nil || !m.leave {
		f.failed = append(f.failed, fmt.Sprintf("%s: %v: %s", p.Name, err, stderr.String()))
		return false
	}
	return true
}

// kill kills one process at random.
func (f *fleet) kill() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.killMember(f.running[rand.IntN(len(f.running))])
}

// down kills every process, and starts none for a while.
func (f *fleet) down(span time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.running {
		f.killMember(m)
	}
	<-time.After(span)
}

// killMember kills the process of a member that has one; f.mu is held.
func (f *fleet) killMember(m *fleetMember) {
	if m.command == nil {
		return
	}
	before := now()
	switch err := m.command.Process.Kill(); {
	case err == nil && f.killed[m.ledger] == 0: // else it has not gone yet
		f.kills++
		f.killed[m.ledger] = before
	case err == nil:
	case !errors.Is(err, os.ErrProcessDone): // by an earlier kill
		f.t.Error(err)
	}
}

// killFor kills processes at random for a while.
func (f *fleet) killFor(span time.Duration) { f.killEvery(50*time.Millisecond, span) }

// killEvery kills one every so often, on average, for a while.
func (f *fleet) killEvery(gap, span time.Duration) {
	for begun := now(); now()-begun < span; {
		<-time.After(gap/5 + rand.N(8*gap/5))
		f.kill()
	}
}

// order tells every process that runs to do something, and counts them.
func (f *fleet) order(o order) (told int) {
	line, err := json.Marshal(o)
	must(f.t, err)
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.running {
		if m.command == nil {
			continue
		}
		switch _, err := m.stdin.Write(append(line, '\n')); {
		case err == nil:
			told++
		case !errors.Is(err, syscall.EPIPE) && !errors.Is(err, os.ErrClosed): // it was killed just now
			f.t.Error(err)
		}
	}
	return told
}

// check reports the processes that ended without having been killed.
func (f *fleet) check() {
	f.t.Helper()
	for _, text := range f.failed {
		f.t.Errorf("a process ended by itself: %s", text)
	}
}

// finish tells the processes of a role to end, and waits until they have.
func (f *fleet) finish(role string) {
	f.tell(role)
	f.wg[role].Wait()
}

func (f *fleet) tell(role string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.running {
		if m.plan.Role != role {
			continue
		}
		m.leave = true
		if m.command == nil {
			continue
		}
		if err := m.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) { // closed: it was killed just now
			f.t.Error(err)
		}
	}
}

// end kills what is left when a test fails.
func (f *fleet) end() {
	f.mu.Lock()
	for _, m := range f.running {
		m.leave = true
		if m.command != nil {
			_ = m.command.Process.Kill() // it may have ended by itself
		}
	}
	f.mu.Unlock()
	for _, wg := range f.wg {
		wg.Wait()
	}
}

// newMixedFleet is four producers and four workers of a store, and where it and the
// ledgers are.
func newMixedFleet(t *testing.T) (f *fleet, dir, ledgers string) {
	t.Helper()
	top := t.TempDir()
	dir, ledgers = filepath.Join(top, "jobs"), filepath.Join(top, "ledgers")
	must(t, os.Mkdir(ledgers, 0o700))
	f = newFleet(t)
	for i := range 4 {
		for _, role := range []string{asProducer, asWorker} {
			p := plan{Role: role, Store: dir, Name: fmt.Sprintf("%s-%d", role, i), Concurrency: 16, TTL: time.Second}
			p.Ledger = filepath.Join(ledgers, p.Name)
			if role == asProducer {
				p.Queues = []string{"a", "b"}
			}
			f.add(p)
		}
	}
	return f, dir, ledgers
}

func TestNothingIsLostWhenProducersAndWorkersAreKilledAtRandom(t *testing.T) {
	const span = 6 * time.Second
	f, dir, ledgers := newMixedFleet(t)
	f.killFor(span)
	f.finish(asProducer)
	with(t, dir, func(c *spool.Client) {
		eventually(t, "the workers have worked what is left", func() bool { return unfinished(t, c) == 0 })
	})
	f.finish(asWorker)
	f.check()
	l := readLedgers(t, ledgers)
	l.least = 20
	with(t, dir, func(c *spool.Client) { judge(t, c, l, f.kills) })
}

// unfinished counts the jobs that are not final.
func unfinished(t *testing.T, c *spool.Client) (n int64) {
	t.Helper()
	counts, err := c.Counts(t.Context(), "")
	must(t, err)
	for _, x := range counts {
		n += x.Scheduled + x.Ready + x.Leased
	}
	return n
}

// ledger is what all processes have noted.
type ledger struct {
	enqueued map[spool.ID]bool
	starts   map[spool.ID][]event
	acks     map[spool.ID][]event
	least    int  // so many kills show something
	forgets  bool // the store may have forgotten claims, not what it acknowledged
}

func readLedgers(t *testing.T, dir string) ledger {
	t.Helper()
	l := ledger{enqueued: map[spool.ID]bool{}, starts: map[spool.ID][]event{}, acks: map[spool.ID][]event{}}
	eachEvent(t, dir, func(_ string, e event) {
		switch e.What {
		case "enqueued":
			for _, id := range e.IDs {
				l.enqueued[id] = true
			}
		case "start":
			l.starts[e.id()] = append(l.starts[e.id()], e)
		case "ack":
			if e.Text == "" { // else it was refused
				l.acks[e.id()] = append(l.acks[e.id()], e)
			}
		}
	})
	return l
}

// eachEvent calls fn for the events of each ledger, in their order.
func eachEvent(t *testing.T, dir string, fn func(ledger string, e event)) {
	t.Helper()
	eachLine(t, dir, func(ledger string, line []byte) {
		var e event
		must(t, json.Unmarshal(line, &e))
		fn(ledger, e)
	})
}

// eachLine calls fn for the whole lines of each ledger, in their order.
func eachLine(t *testing.T, dir string, fn func(ledger string, line []byte)) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	must(t, err)
	for _, name := range names {
		text, err := os.ReadFile(name)
		must(t, err)
		for line := range bytes.Lines(text) {
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // its process is just writing it
			}
			fn(name, line)
		}
	}
}

// recount lists every job.
func recount(t *testing.T, c *spool.Client) map[spool.ID][]spool.Job {
	t.Helper()
	found := map[spool.ID][]spool.Job{}
	for j, err := range c.List(t.Context(), spool.Filter{}) {
		must(t, err)
		found[j.ID] = append(found[j.ID], j)
	}
	return found
}

// judge compares what was acknowledged with what the store holds.
func judge(t *testing.T, c *spool.Client, l ledger, kills int) {
	t.Helper()
	all := recount(t, c)
	for id := range l.enqueued {
		if len(all[id]) == 0 {
			t.Errorf("job %v was acknowledged and is lost", id)
		}
	}
	for id, list := range all {
		if len(list) != 1 {
			t.Errorf("job %v is there %d times: %+v", id, len(list), list)
		}
		l.judgeJob(t, list[0])
	}
	done, dead, runs := judgeCounts(t, c, all), 0, 0
	for id, starts := range l.starts {
		if runs += len(starts); len(all[id]) == 0 {
			t.Errorf("job %v ran and is not there", id)
		}
	}
	for _, list := range all {
		if list[0].State == spool.Dead {
			dead++
		}
	}
	t.Logf("%d kills; %d jobs acknowledged, %d there: %d done, %d dead; %d runs", kills, len(l.enqueued), len(all), done, dead, runs)
	if kills < l.least || len(l.enqueued) < 100 || done < 100 {
		t.Error("that is too little to show anything")
	}
}

// judgeJob checks one job against the runs and the acks that were noted.
func (l *ledger) judgeJob(t *testing.T, j spool.Job) {
	t.Helper()
	starts, acks := l.starts[j.ID], l.acks[j.ID]
	slices.SortFunc(starts, func(a, b event) int { return int(int64(a.Token) - int64(b.Token)) })
	for i, e := range starts {
		switch {
		case e.Token > j.Token || e.Attempt > j.MaxAttempts:
			t.Errorf("job %v ran with token %v and attempt %d; the store says token %v, at most %d", j.ID, e.Token, e.Attempt, j.Token, j.MaxAttempts)
		case i > 0 && (e.Token == starts[i-1].Token || e.Attempt <= starts[i-1].Attempt && !l.forgets):
			t.Errorf("job %v ran twice with token %v, or attempt %d came after %d", j.ID, e.Token, e.Attempt, starts[i-1].Attempt)
		case i > 0 && e.At < starts[i-1].At:
			t.Errorf("job %v ran with token %v before it ran with %v", j.ID, e.Token, starts[i-1].Token)
		}
	}
	switch j.State {
	case spool.Done:
		if len(acks) > 1 {
			t.Errorf("job %v was acked %d times", j.ID, len(acks))
		}
		for _, a := range acks {
			if a.Token != j.Token || starts[len(starts)-1].Token != a.Token {
				t.Errorf("job %v ran again after its ack: acked was token %v, the last is %v", j.ID, a.Token, j.Token)
			}
		}
	case spool.Dead:
		spent := j.Reason == "crashed" || j.Reason == "attempts"
		if len(acks) > 0 || !spent && j.Reason != "buried" || spent && j.Attempt != j.MaxAttempts {
			t.Errorf("job %v is dead with reason %q at attempt %d of %d; %d acks", j.ID, j.Reason, j.Attempt, j.MaxAttempts, len(acks))
		}
	default:
		t.Errorf("job %v is %v when all is worked", j.ID, j.State)
	}
}

// judgeCounts compares the kept numbers with a count of the jobs, all of which are
// final, and returns how many are done.
func judgeCounts(t *testing.T, c *spool.Client, all map[spool.ID][]spool.Job) (done int) {
	t.Helper()
	judgeStates(t, c, all, func(n broker.Count, sum int64) {
		x := n.Totals
		if x.Enqueued != sum || x.Acked != n.Done || x.Died != n.Dead || x.Claimed != x.Acked+x.Failed+x.Expired {
			t.Errorf("the totals of %s/%s are %+v, there are %d jobs", n.Queue, n.Task, x, sum)
		}
		done += int(n.Done)
	})
	return done
}

// judgeStates compares the kept numbers of each state with a count of the jobs. It
// calls also for each queue and task, with how many jobs there are.
func judgeStates(t *testing.T, c *spool.Client, all map[spool.ID][]spool.Job, also func(n broker.Count, sum int64)) {
	t.Helper()
	type key struct {
		queue, task string
		state       spool.State
	}
	found := map[key]int64{}
	for _, list := range all {
		j := list[0]
		found[key{j.Queue, j.Task, j.State}]++
	}
	counts, err := c.Counts(t.Context(), "")
	must(t, err)
	for _, n := range counts {
		sum := int64(0)
		for _, s := range []spool.State{spool.Scheduled, spool.Ready, spool.Leased, spool.Done, spool.Dead, spool.Cancelled} {
			k := key{n.Queue, n.Task, s}
			if n.Of(s) != found[k] {
				t.Errorf("the kept number of %+v is %d, there are %d", k, n.Of(s), found[k])
			}
			sum += found[k]
			delete(found, k)
		}
		also(n, sum)
	}
	for k, n := range found {
		t.Errorf("the kept number of %+v is missing, there are %d", k, n)
	}
}
