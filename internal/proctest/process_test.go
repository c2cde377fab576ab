//go:build linux

package proctest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spoolq/spool"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// process is another process, seen from the test.
type process struct {
	t     *testing.T
	plan  plan
	name  string
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ended chan struct{}

	mu     sync.Mutex
	events []event
	more   chan struct{} // closed and replaced with each event
	stderr bytes.Buffer
	err    error // of Wait
}

// start runs this binary with a plan, as the user that change makes it.
func start(t *testing.T, p plan, change ...func(*exec.Cmd)) *process {
	t.Helper()
	cmd, err := command(p)
	must(t, err)
	for _, fn := range change {
		fn(cmd)
	}
	name := p.Name
	if name == "" {
		name = p.Role
	}
	q := &process{t: t, plan: p, name: name, cmd: cmd, ended: make(chan struct{}), more: make(chan struct{})}
	cmd.Stderr = (*lockedStderr)(q)
	q.stdin, err = cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	go q.listen(out)
	t.Cleanup(q.kill)
	return q
}

func command(p plan) (*exec.Cmd, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(self)
	// The race detector would wait a second at the end.
	cmd.Env = append(os.Environ(), planVar+"="+string(text), "GORACE=atexit_sleep_ms=0")
	return cmd, nil
}

type lockedStderr process

func (s *lockedStderr) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.stderr.Write(p)
}

// log is what the process wrote to its standard error so far.
func (p *process) log() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stderr.String()
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// listen takes in events until the process ends.
func (p *process) listen(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			break
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			e = event{What: "garbage", Text: string(line)}
		}
		p.mu.Lock()
		p.events = append(p.events, e)
		close(p.more)
		p.more = make(chan struct{})
		p.mu.Unlock()
	}
	err := p.cmd.Wait()
	p.mu.Lock()
	p.err = err
	p.mu.Unlock()
	close(p.ended)
}

// told returns the events of a kind so far, and a channel that is closed when
// there may be more.
func (p *process) told(what string) (found []event, more <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.events {
		if e.What == what {
			found = append(found, e)
		}
	}
	return found, p.more
}

// await waits until the process has told n events of a kind, and returns them.
func (p *process) await(what string, n int) []event {
	p.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		found, more := p.told(what)
		if len(found) >= n {
			return found
		}
		select {
		case <-more:
		case <-p.ended:
			if found, _ := p.told(what); len(found) >= n {
				return found
			}
			p.t.Fatalf("%s ended with %d of %d events %q: %v\n%s", p.name, len(found), n, what, p.err, p.log())
		case <-late.C:
			p.t.Fatalf("%s told %d of %d events %q within %v\n%s", p.name, len(found), n, what, patience, p.log())
		}
	}
}

// order tells the process to do something.
func (p *process) order(o order) {
	p.t.Helper()
	line, err := json.Marshal(o)
	must(p.t, err)
	_, err = p.stdin.Write(append(line, '\n'))
	must(p.t, err)
}

// ask orders something of a client and returns its answer.
func (p *process) ask(o order) event {
	p.t.Helper()
	before, _ := p.told("answer")
	p.order(o)
	return p.await("answer", len(before)+1)[len(before)]
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	// The error is of no use: the process may have ended by itself.
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func (p *process) signal(s syscall.Signal) {
	p.t.Helper()
	must(p.t, p.cmd.Process.Signal(s))
}

// stop stops the process with SIGSTOP and waits until each of its threads
// stands still.
func (p *process) stop() {
	p.t.Helper()
	p.signal(syscall.SIGSTOP)
	eventually(p.t, "the process stands still", p.stands)
}

// stands reports whether each thread of the process is stopped.
func (p *process) stands() bool {
	p.t.Helper()
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.pid()))
	must(p.t, err)
	for _, name := range stats {
		text, err := os.ReadFile(name)
		must(p.t, err)
		// The state stands behind the command's name, which may hold anything.
		if i := bytes.LastIndexByte(text, ')'); i < 0 || !strings.HasPrefix(string(text[i:]), ") T") {
			return false
		}
	}
	return len(stats) > 0
}

// finish lets the process end in its own way, by the end of its input.
func (p *process) finish() {
	p.t.Helper()
	must(p.t, p.stdin.Close())
	p.awaitEnd()
}

// awaitEnd waits until the process has ended without an error.
func (p *process) awaitEnd() {
	p.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	select {
	case <-p.ended:
	case <-late.C:
		p.t.Fatalf("%s did not end within %v\n%s", p.name, patience, p.log())
	}
	if p.err != nil {
		p.t.Fatalf("%s: %v\n%s", p.name, p.err, p.log())
	}
}

// eventually waits until the condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	late := time.NewTimer(patience)
	defer late.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-late.C:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// newStore is the path of a store that does not exist yet.
func newStore(t *testing.T) string { return filepath.Join(t.TempDir(), "jobs") }

// with opens the store in the test's own process for the time of fn: a handle
// that stays open would do the work of those under test.
func with(t *testing.T, dir string, fn func(c *spool.Client)) {
	t.Helper()
	c, err := openStore(plan{Store: dir})
	must(t, err)
	defer func() { must(t, c.Close()) }()
	fn(c)
}

// enqueue adds n jobs of a task.
func enqueue(t *testing.T, dir string, n int, task *spool.Task[args], opts ...spool.JobOption) (ids []spool.ID) {
	t.Helper()
	with(t, dir, func(c *spool.Client) {
		specs := make([]spool.Spec, n)
		for i := range specs {
			specs[i] = task.With(args{}, opts...)
		}
		got, err := c.Enqueue(t.Context(), specs...)
		must(t, err)
		for _, e := range got {
			ids = append(ids, e.ID)
		}
	})
	return ids
}

// jobs returns the jobs with those ids, in their order.
func jobs(t *testing.T, dir string, ids ...spool.ID) (found []spool.Job) {
	t.Helper()
	with(t, dir, func(c *spool.Client) {
		for _, id := range ids {
			j, err := c.Get(t.Context(), id)
			must(t, err)
			found = append(found, j)
		}
	})
	return found
}
