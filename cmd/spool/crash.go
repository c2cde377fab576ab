package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spoolq/spool/cmd/spool/internal/crash"
	"github.com/spoolq/spool/internal/wallclock"
)

// crashRoleCmd is a process of demo and torture.
type crashRoleCmd struct {
	Plan string `arg:""`
}

// Run follows the plan until the end of the input.
func (c *crashRoleCmd) Run(a *app) error {
	var p crash.Plan
	if err := json.Unmarshal([]byte(c.Plan), &p); err != nil {
		return fmt.Errorf("read the plan: %w", err)
	}
	if p.Wall != 0 {
		if err := wallclock.Move(p.Wall); err != nil {
			return err
		}
	}
	ctx := untilEOF(a.in)
	b, err := a.openStore(p.Store, creating)
	if err != nil {
		return err
	}
	return errors.Join(crash.Run(ctx, b, p), b.Close())
}

// untilEOF returns a context that ends with the input: with the parent's word,
// or with the parent.
func untilEOF(in io.Reader) context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer cancel()
		_, _ = io.Copy(io.Discard, in) // an error is an end as well
	}()
	return ctx
}

// selfCommand makes a process of this program with one argument of JSON.
func (a *app) selfCommand(command string, arg any) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	b, err := json.Marshal(arg)
	if err != nil {
		return nil, err
	}
	args := []string{command, string(b)}
	if a.unsafeFS {
		args = append(args, "--allow-unsafe-fs")
	}
	return exec.Command(self, args...), nil
}

// arena is the directory of one run of demo or torture.
type arena struct{ dir, store, ledgers string }

// newArena makes a directory for a run: in dir, or where temporary files go.
func newArena(dir, name string) (*arena, error) {
	dir, err := os.MkdirTemp(dir, name+"-")
	if err != nil {
		return nil, err
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return nil, err
	}
	r := &arena{dir: dir, store: filepath.Join(dir, "jobs"), ledgers: filepath.Join(dir, "ledgers")}
	return r, os.Mkdir(r.ledgers, 0o700)
}

// workplace is where torture and bench make a directory of their own: --dir,
// which is no store, or the current directory.
func (a *app) workplace() (string, error) {
	if a.dir == defaultDir {
		return ".", nil
	}
	if isStore(a.dir) == nil {
		return "", usagef("%s is a store: name the directory that it stands in", a.dir)
	}
	return a.dir, nil
}

// judge drains the store and compares it with the ledgers, when only workers
// are left, and stops them.
func (r *arena) judge(ctx context.Context, a *app, f *crash.Fleet, patience time.Duration) (*crash.Report, error) {
	b, err := a.openStore(r.store, changing)
	if err != nil {
		return nil, err
	}
	report, err := func() (*crash.Report, error) {
		if err := crash.Drain(ctx, b, patience); err != nil {
			return nil, err
		}
		if err := f.Stop(ctx, crash.Worker); err != nil {
			return nil, err
		}
		return crash.Judge(ctx, b, r.ledgers)
	}()
	if err = errors.Join(err, b.Close()); err != nil {
		return nil, err
	}
	report.Kills, report.Stops = f.Kills(), f.Stops()
	for _, fault := range f.Faults() {
		report.AddError(fault)
	}
	return report, nil
}
