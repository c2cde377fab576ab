//go:build linux && (amd64 || arm64)

package disktest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"
)

// patience is how long a test waits for what must come.
const patience = 20 * time.Second

// process is another process, seen from the test.
type process struct {
	t      testing.TB
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	ended  chan struct{}
	stderr bytes.Buffer // read it once ended is closed

	mu     sync.Mutex
	events []event
	more   chan struct{} // closed and replaced with each event
	err    error         // of Wait
}

// start runs this binary with a plan.
func start(t testing.TB, p plan, change ...func(*exec.Cmd)) *process {
	t.Helper()
	text, err := json.Marshal(p)
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	q := &process{t: t, cmd: exec.Command(self), ended: make(chan struct{}), more: make(chan struct{})}
	// The race detector would wait a second at the end.
	q.cmd.Env = append(os.Environ(), planVar+"="+string(text), "GORACE=atexit_sleep_ms=0")
	q.cmd.Stderr = &q.stderr
	for _, fn := range change {
		fn(q.cmd)
	}
	q.stdin, err = q.cmd.StdinPipe()
	must(t, err)
	out, err := q.cmd.StdoutPipe()
	must(t, err)
	must(t, q.cmd.Start())
	go q.listen(out)
	t.Cleanup(q.kill)
	return q
}

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
			e = event{Call: "garbage", Err: string(line)}
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

// told returns the events so far, and a channel that is closed when there are more.
func (p *process) told() ([]event, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.events[:len(p.events):len(p.events)], p.more
}

// await waits for the first event after the n-th that fits, and says how many
// there were with it.
func (p *process) await(n int, fits func(event) bool) (event, int) {
	p.t.Helper()
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		events, more := p.told()
		for ; n < len(events); n++ {
			if fits(events[n]) {
				return events[n], n + 1
			}
		}
		select {
		case <-more:
		case <-p.ended:
			if events, _ := p.told(); n == len(events) {
				p.t.Fatalf("a process ended early: %v\n%s", p.err, p.stderr.String())
			}
		case <-late.C:
			p.t.Fatalf("nothing for %v; the last events are %+v", patience, events[max(0, len(events)-3):])
		}
	}
}

// kill ends the process with SIGKILL and waits until it is gone.
func (p *process) kill() {
	// The error is of no use: the process may have ended by itself.
	_ = p.cmd.Process.Kill()
	<-p.ended
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
