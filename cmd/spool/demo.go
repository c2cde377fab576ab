package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool/cmd/spool/internal/crash"
	"github.com/spoolq/spool/internal/text"
)

type demoCmd struct {
	Jobs int `default:"3000" placeholder:"N" help:"How many jobs (${default})."`
}

// Help is shown by spool demo --help.
func (*demoCmd) Help() string {
	return "In a temporary directory one process enqueues jobs and four work them. Some of the four are killed with SIGKILL at random while they run, and started again. " +
		"At the end every job that was acknowledged is looked for. Exits with 1 if anything was lost."
}

const demoWorkers = 4

// demoView is what demo prints with --json.
type demoView struct {
	Enqueued    int     `json:"enqueued"`
	Done        int     `json:"done"`
	Kills       int     `json:"kills"`
	Redelivered int     `json:"redelivered"`
	Lost        int     `json:"lost"`
	Wrongs      int     `json:"wrongs"` // everything that must not be, lost among it
	Seconds     float64 `json:"seconds"`
	OK          bool    `json:"ok"`

	Findings []string `json:"findings,omitempty"`
}

// Run shows the demo.
func (c *demoCmd) Run(a *app) error {
	if c.Jobs < 1 || c.Jobs > 1_000_000 {
		return usagef("--jobs is %d: 1 to 1000000 would do", c.Jobs)
	}
	ctx, stop := interruptible()
	defer stop()
	a.unsafeFS = true // what is shown holds where only syncs cannot be relied on: processes are killed, not the machine
	r, err := newArena("", "spool-demo")
	if err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	report, err := c.run(ctx, a, r)
	if err != nil || !report.OK {
		a.note("the store is kept in %s", r.dir)
	} else if rerr := os.RemoveAll(r.dir); rerr != nil {
		a.note("the temporary directory stays: %v", rerr)
	}
	if err != nil {
		return err
	}
	if err := a.demoReport(report); err != nil {
		return err
	}
	if !report.OK {
		return errSaid
	}
	return nil
}

func (c *demoCmd) run(ctx context.Context, a *app, r *arena) (*crash.Report, error) {
	live := &demoScreen{out: a.stdout, total: c.Jobs, begun: time.Now(), tally: crash.NewTally(r.ledgers)}
	if a.json {
		live.out = a.errw
	}
	f := &crash.Fleet{Command: func(p crash.Plan) (*exec.Cmd, error) { return a.selfCommand("crash-role", p) }, Event: live.event}
	defer f.Close()
	live.printf("A store in %s. One process enqueues %s jobs; four work them, eight at a time each.", r.store, text.Count(int64(c.Jobs)))
	live.printf("Now and then one of the four is killed with SIGKILL while it runs jobs, and started again.\n")
	plan := crash.Plan{
		Store: r.store, Ledgers: r.ledgers, Queues: []string{"demo"},
		Lanes: 8, TTL: 10 * time.Second, WorkLow: 20 * time.Millisecond, WorkHigh: 60 * time.Millisecond,
	}
	producer := plan
	producer.Role, producer.Name, producer.Count = crash.Producer, "producer", c.Jobs
	f.Start(producer)
	for i := range demoWorkers {
		plan.Role, plan.Name = crash.Worker, "worker "+strconv.Itoa(i+1)
		f.Start(plan)
	}
	if err := c.kill(ctx, f, live); err != nil {
		return nil, err
	}
	if err := f.Wait(ctx, crash.Producer); err != nil {
		return nil, err
	}
	live.printf("\nNo more kills: working what is left, then looking for every job.")
	report, err := r.judge(ctx, a, f, 20*time.Second)
	if err != nil {
		return nil, err
	}
	report.Seconds = time.Since(live.begun).Round(time.Millisecond).Seconds()
	return report, nil
}

// kill kills workers until nine tenths of the jobs are done.
func (c *demoCmd) kill(ctx context.Context, f *crash.Fleet, live *demoScreen) error {
	show := time.NewTicker(250 * time.Millisecond)
	defer show.Stop()
	next := time.NewTimer(300 * time.Millisecond)
	defer next.Stop()
	for {
		select {
		case <-show.C:
			done, err := live.progress()
			if err != nil || done >= c.Jobs*9/10 {
				return err
			}
		case <-next.C:
			f.Kill(crash.Worker)
			next.Reset(200*time.Millisecond + rand.N(400*time.Millisecond))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// demoScreen shows what happens, a line at a time. What becomes of a line does
// not matter: the report at the end is the command's output.
type demoScreen struct {
	mu    sync.Mutex
	out   io.Writer
	total int
	begun time.Time
	tally *crash.Tally
	last  string
}

func (s *demoScreen) printf(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, _ = fmt.Fprintf(s.out, format+"\n", args...)
}

func (s *demoScreen) event(e crash.Event) {
	at := time.Since(s.begun).Seconds()
	switch e.What {
	case "killed":
		s.printf("%5.1fs  ✗ %s (process %d) killed with SIGKILL", at, e.Process, e.PID)
	case "failed":
		s.printf("%5.1fs  ! %s failed: %s", at, e.Process, text.Safe(e.Text))
	case "started":
		s.printf("%5.1fs  ▸ %s started (process %d)", at, e.Process, e.PID)
	}
}

// progress shows how many jobs are done, when that has changed, and returns it.
func (s *demoScreen) progress() (done int, err error) {
	if err := s.tally.Read(); err != nil {
		return 0, err
	}
	const width = 30
	full := min(width, s.tally.Acked*width/s.total)
	line := fmt.Sprintf("[%s%s] %s enqueued, %s done", strings.Repeat("█", full), strings.Repeat("·", width-full), text.Count(int64(s.tally.Enqueued)), text.Count(int64(s.tally.Acked)))
	if line != s.last {
		s.printf("%5.1fs  %s", time.Since(s.begun).Seconds(), line)
		s.last = line
	}
	return s.tally.Acked, nil
}

func (a *app) demoReport(r *crash.Report) error {
	if a.json {
		return a.object(demoView{
			Enqueued: r.Enqueued, Done: r.Done, Kills: r.Kills, Redelivered: r.Redelivered, Lost: r.Lost,
			Wrongs: r.Sum(), Seconds: r.Seconds, OK: r.OK, Findings: r.Findings,
		})
	}
	w := a.table("\nENQUEUED", "DONE", "PROCESSES KILLED", "REDELIVERED", "LOST")
	row(w, text.Count(int64(r.Enqueued)), text.Count(int64(r.Done)), text.Count(int64(r.Kills)), text.Count(int64(r.Redelivered)), text.Count(int64(r.Lost)))
	if err := w.Flush(); err != nil {
		return err
	}
	return a.verdict(r)
}
