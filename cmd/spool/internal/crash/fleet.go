package crash

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool/cmd/spool/internal/command"
)

// Fleet is the processes of a run. Each is started again when it dies, until it
// is told to stop.
type Fleet struct {
	// Command makes the process that follows a plan: it calls Run and ends when
	// its standard input does.
	Command func(Plan) (*exec.Cmd, error)
	// Event is told, one call at a time, what happens to a process; it may be
	// nil.
	Event func(Event)

	mu      sync.Mutex
	members []*member
	kills   int
	stops   int
	faults  []string
}

// Event is something that happened to a process of the fleet.
type Event struct {
	Process string
	PID     int
	What    string // "started", "killed", "failed", "finished"
	Text    string // why, when it failed
}

type member struct {
	plan  Plan
	ended chan struct{} // closed when it is not started again

	// Guarded by the fleet's mutex.
	running *exec.Cmd // nil between two starts
	stdin   io.Closer
	stop    bool
}

// restart bounds the time between a death and the next start.
const restart = 150 * time.Millisecond

// Start starts a process and keeps it running.
func (f *Fleet) Start(p Plan) {
	m := &member{plan: p, ended: make(chan struct{})}
	f.mu.Lock()
	f.members = append(f.members, m)
	f.mu.Unlock()
	go func() {
		defer close(m.ended)
		for f.once(m) {
			time.Sleep(rand.N(restart))
		}
	}()
}

// once runs a member's process to its end and reports whether to start it
// again.
func (f *Fleet) once(m *member) bool {
	stderr := command.Tail{Max: 2000}
	cmd, err := f.begin(m, &stderr)
	if err != nil {
		f.event(m, 0, "failed", err.Error())
		return false
	}
	if cmd == nil {
		return false // stopped in the meantime
	}
	err = cmd.Wait()
	f.mu.Lock()
	m.running = nil
	stopped := m.stop
	f.mu.Unlock()
	switch {
	case err == nil:
		f.event(m, cmd.Process.Pid, "finished", "")
		return false
	case killed(cmd):
		f.event(m, cmd.Process.Pid, "killed", "")
	default:
		f.event(m, cmd.Process.Pid, "failed", fmt.Sprintf("%v: %s", err, strings.TrimSpace(string(stderr.Bytes()))))
	}
	return !stopped
}

func (f *Fleet) begin(m *member, stderr io.Writer) (*exec.Cmd, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if m.stop {
		return nil, nil
	}
	cmd, err := f.Command(m.plan)
	if err != nil {
		return nil, err
	}
	cmd.Stderr = stderr
	if m.stdin, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	m.running = cmd
	if f.Event != nil {
		f.Event(Event{Process: m.plan.Name, PID: cmd.Process.Pid, What: "started"})
	}
	return cmd, nil
}

func (f *Fleet) event(m *member, pid int, what, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch what {
	case "killed":
		f.kills++
	case "failed":
		f.faults = append(f.faults, m.plan.Name+": "+text)
	}
	if f.Event != nil {
		f.Event(Event{Process: m.plan.Name, PID: pid, What: what, Text: text})
	}
}

// Kill kills one running process of the roles at random.
func (f *Fleet) Kill(roles ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if up := f.up(roles); len(up) > 0 {
		kill(up[rand.IntN(len(up))])
	}
}

// KillAll kills every running process of the roles, as close to one moment as
// it can be done.
func (f *Fleet) KillAll(roles ...string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.up(roles) {
		kill(m)
	}
}

// Freeze stops one running process of the roles at random with SIGSTOP, and lets it
// go on after a while. errors.ErrUnsupported is returned where there is no such signal.
func (f *Fleet) Freeze(span time.Duration, roles ...string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	up := f.up(roles)
	if len(up) == 0 {
		return nil
	}
	p := up[rand.IntN(len(up))].running.Process
	goOn, err := freeze(p)
	if err != nil || goOn == nil {
		return err
	}
	f.stops++
	time.AfterFunc(span, goOn)
	return nil
}

// kill ends a process with SIGKILL. Its error is of no use: the process may
// have ended by itself.
func kill(m *member) { _ = m.running.Process.Kill() }

// up lists the members of the roles whose process runs.
func (f *Fleet) up(roles []string) (up []*member) {
	for _, m := range f.members {
		for _, r := range roles {
			if m.plan.Role == r && m.running != nil {
				up = append(up, m)
			}
		}
	}
	return up
}

// Stop tells the processes of a role to finish and waits until they have, or
// ctx ends.
func (f *Fleet) Stop(ctx context.Context, role string) error {
	f.mu.Lock()
	var stopping []*member
	for _, m := range f.members {
		if m.plan.Role != role {
			continue
		}
		m.stop = true
		stopping = append(stopping, m)
		if m.running != nil {
			_ = m.stdin.Close() // the end of its input tells it; a second close does no harm
		}
	}
	f.mu.Unlock()
	for _, m := range stopping {
		if err := m.wait(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Wait waits until every process of a role has finished by itself.
func (f *Fleet) Wait(ctx context.Context, role string) error {
	f.mu.Lock()
	members := append([]*member(nil), f.members...)
	f.mu.Unlock()
	for _, m := range members {
		if m.plan.Role == role {
			if err := m.wait(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *member) wait(ctx context.Context) error {
	select {
	case <-m.ended:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", m.plan.Name, context.Cause(ctx))
	}
}

// Close kills what still runs and waits for it.
func (f *Fleet) Close() {
	f.mu.Lock()
	members := append([]*member(nil), f.members...)
	for _, m := range members {
		m.stop = true
		if m.running != nil {
			kill(m)
		}
	}
	f.mu.Unlock()
	for _, m := range members {
		<-m.ended
	}
}

// Kills is how many processes were killed so far.
func (f *Fleet) Kills() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.kills
}

// Stops is how many processes were stopped for a while so far.
func (f *Fleet) Stops() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.stops
}

// Faults is what processes died of that were not killed.
func (f *Fleet) Faults() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]string(nil), f.faults...)
}
