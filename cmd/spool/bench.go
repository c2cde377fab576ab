package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/spoolq/spool/cmd/spool/internal/bench"
	"github.com/spoolq/spool/internal/text"
)

type benchCmd struct {
	Row     []string `arg:"" optional:"" help:"Rows to measure; all when none is given."`
	Scale   float64  `default:"1" placeholder:"N" help:"Measure N times as long, with N times as many jobs (${default})."`
	Backlog bool     `help:"Measure the rows too that need a backlog of a million jobs; their ratio is to the same without it. Takes some minutes more, and 1 GiB of memory and of disk."`
}

// Help is shown by spool bench --help.
func (*benchCmd) Help() string {
	names, backlog := bench.Names()
	return "Measures in a directory of its own inside --dir (by default .), and removes it. Before each round it reads what the disk alone can do, with as many records per sync: " +
		"rates differ from one minute to the next, the ratio to that reading less so, as long as the machine does nothing else and its disk is one: in memory, or beside other work, it says little. " +
		"JOBS/S is the median over the rounds, RAW/S that of the readings, and RATIO the median of each round's own ratio, so not the one divided by the other. " +
		"For an open, JOBS/S is the jobs that wait by the time; for latency_idle, the calls by the time each took; P50 to P99.9 are of single calls, of which there were N. The rows: " + strings.Join(names, ", ") + "; with --backlog " + strings.Join(backlog, ", ") + "."
}

// Run measures.
func (c *benchCmd) Run(a *app) (err error) {
	names, backlog := bench.Names()
	for _, r := range c.Row {
		switch {
		case slices.Contains(backlog, r) && !c.Backlog:
			return usagef("row %s needs --backlog", r)
		case !slices.Contains(names, r) && !slices.Contains(backlog, r):
			return usagef("there is no row %q: %s would do", r, strings.Join(append(names, backlog...), ", "))
		}
	}
	if c.Scale <= 0 || c.Scale > 1000 {
		return usagef("--scale is %v: above 0, up to 1000 would do", c.Scale)
	}
	dir, err := a.workplace()
	if err != nil {
		return err
	}
	if dir, err = os.MkdirTemp(dir, "spool-bench-"); err != nil {
		return fmt.Errorf("make a directory for the run: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	ctx, stop := interruptible()
	defer stop()
	b := bench.Bench{
		Dir: dir, Scale: c.Scale, Backlog: c.Backlog, AllowUnsafeFS: a.unsafeFS,
		Command:  func(r bench.Role) (*exec.Cmd, error) { return a.selfCommand("bench-role", r) },
		Progress: func(name string) { a.note("measuring %s", name) },
	}
	rows, err := b.Run(ctx, c.Row)
	if err != nil {
		return causeOf(ctx, err)
	}
	if a.json {
		return a.object(rows)
	}
	return a.rows(rows)
}

// rows prints the rows for people.
func (a *app) rows(rows []bench.Row) error {
	w := a.table("ROW", "JOBS/S", "RAW/S", "RATIO", "SYNCS/JOB", "P50", "P99", "P99.9", "N", "WHAT")
	us := func(v float64) string {
		switch {
		case v == 0:
			return "-"
		case v < 1000:
			return fmt.Sprintf("%.0f µs", v)
		}
		return fmt.Sprintf("%.1f ms", v/1000)
	}
	for _, r := range rows {
		if r.CPUms != nil {
			row(w, r.Name, fmt.Sprintf("%.1f ms CPU", *r.CPUms), "-", "-", "-", "-", "-", "-", "-", r.What)
			continue
		}
		what := r.What
		if r.Share != nil {
			what += fmt.Sprintf("; least/most %.2f", *r.Share)
		}
		row(w, r.Name, text.Count(int64(r.PerSecond)), text.Count(int64(r.RawPerSecond)), fmt.Sprintf("%.2f", r.Ratio),
			fmt.Sprintf("%.3f", r.SyncsPerJob), us(r.P50us), us(r.P99us), us(r.P999us), text.Count(int64(r.N)), what)
	}
	return w.Flush()
}

// benchRoleCmd is a process of bench.
type benchRoleCmd struct {
	Role string `arg:""`
}

// Run does what the role says until the end of the input.
func (c *benchRoleCmd) Run(a *app) error {
	var r bench.Role
	if err := json.Unmarshal([]byte(c.Role), &r); err != nil {
		return fmt.Errorf("read the role: %w", err)
	}
	return bench.RunRole(r, a.unsafeFS, a.in, a.stdout)
}
