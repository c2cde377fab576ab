package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// limits of one run of go test: of the tests that a fault names, and of all of a
// package.
const (
	patience    = 2 * time.Minute
	allPatience = 15 * time.Minute
)

// verdict is what came of a fault.
type verdict struct {
	fault  *fault
	killer string // the first test that failed; "" when none did
	named  bool   // killer is one of the fault's tests
	took   time.Duration
	err    error // what kept it from being judged
}

// judge plants faults in the module at dir. It changes no file there.
type judge struct {
	dir string
	tmp string // for what is planted
}

// try plants a fault, and runs its tests, then all of its package until one
// notices.
func (j *judge) try(ctx context.Context, f *fault) (v verdict) {
	began := time.Now()
	v = verdict{fault: f}
	defer func() { v.took = time.Since(began) }()
	overlay, err := j.overlay(f)
	if err != nil {
		v.err = err
		return v
	}
	v.killer, v.err = j.run(ctx, f, patience, overlay, "-run", pattern(f.tests))
	if v.named = v.killer != ""; v.named || v.err != nil {
		return v
	}
	v.killer, v.err = j.run(ctx, f, allPatience, overlay, "-short", "-skip", pattern(f.tests))
	return v
}

// overlay writes the changed file, and tells the go command to take it in place
// of the module's own.
func (j *judge) overlay(f *fault) (string, error) {
	path := filepath.Join(j.dir, filepath.FromSlash(f.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	if source, err = f.plant(source); err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp(j.tmp, "fault-")
	if err != nil {
		return "", err
	}
	changed := filepath.Join(dir, filepath.Base(f.file))
	list, err := json.Marshal(map[string]any{"Replace": map[string]string{path: changed}})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, errors.Join(os.WriteFile(changed, source, 0o600), os.WriteFile(overlay, list, 0o600))
}

// run runs tests with a fault in place, and returns the first that failed.
func (j *judge) run(ctx context.Context, f *fault, limit time.Duration, overlay string, args ...string) (killer string, err error) {
	out, failed, err := j.test(ctx, f.pkg, limit, append([]string{"-overlay", overlay, "-failfast"}, args...)...)
	if err != nil || !failed {
		return "", err
	}
	return blame(out, f.hangs)
}

// test is go test of a package. An err is that of a go command that could not be
// run.
func (j *judge) test(ctx context.Context, pkg string, limit time.Duration, args ...string) (out []byte, failed bool, err error) {
	args = append([]string{"test", "-count=1", "-vet=off", "-v", "-timeout", limit.String()}, args...)
	cmd := exec.CommandContext(ctx, "go", append(args, "./"+pkg)...)
	cmd.Dir = j.dir
	cmd.Env = append(os.Environ(), "TMPDIR="+j.tmp)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // go test ends its tests
	cmd.WaitDelay = 10 * time.Second
	var all bytes.Buffer
	cmd.Stdout, cmd.Stderr = &all, &all
	err = cmd.Run()
	if ctx.Err() != nil {
		return nil, false, ctx.Err()
	}
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return all.Bytes(), true, nil
	}
	return all.Bytes(), false, err
}

var (
	failLine = regexp.MustCompile(`(?m)^--- FAIL: (\S+)`)
	runLine  = regexp.MustCompile(`(?m)^=== (?:RUN|CONT) +(\w+)`)
	hungLine = regexp.MustCompile(`(?m)^panic: test timed out`)
	ownCrash = regexp.MustCompile(`(?m)^(panic: |fatal error: |unexpected fault address|SIGSEGV|signal: )`)
)

// blame finds the test that noticed in the output of a go test that failed: the
// first that failed, or that was running when the process crashed.
func blame(out []byte, hangs bool) (killer string, err error) {
	running := ""
	if all := runLine.FindAllSubmatch(out, -1); len(all) > 0 {
		running = string(all[len(all)-1][1])
	}
	failed := failLine.FindSubmatch(out)
	switch {
	case bytes.Contains(out, []byte("[build failed]")) || bytes.Contains(out, []byte("[setup failed]")):
		return "", fmt.Errorf("the fault does not compile: %s", head(out))
	case hungLine.Match(out) && !hangs && failed == nil:
		return "", fmt.Errorf("%s does not end, and the table does not say that this has to be expected", running)
	case hungLine.Match(out):
		return running + " (did not end)", nil
	case failed != nil:
		return string(failed[1]), nil
	case ownCrash.Match(out) && running != "":
		return running + " (crashed)", nil
	}
	return "", fmt.Errorf("go test failed, and not by a test: %s", head(out))
}

// head is the beginning of an output, on one line.
func head(out []byte) string {
	s := strings.Join(strings.Fields(string(out)), " ")
	return s[:min(len(s), 400)]
}

// pattern matches exactly the tests of a list.
func pattern(tests []string) string { return "^(" + strings.Join(tests, "|") + ")$" }

// control runs the tests that faults name without any fault: each has to be
// there, and to pass.
func (j *judge) control(ctx context.Context, faults []*fault) error {
	named := map[string][]string{}
	for _, f := range faults {
		named[f.pkg] = append(named[f.pkg], f.tests...)
	}
	var errs []error
	for pkg, tests := range named {
		out, failed, err := j.test(ctx, pkg, allPatience, "-run", pattern(tests))
		if err != nil || failed {
			errs = append(errs, fmt.Errorf("%s fails without a fault: %w\n%s", pkg, errors.Join(err, errControl), out))
			continue
		}
		for _, name := range tests {
			if !bytes.Contains(out, []byte("--- PASS: "+name+" ")) {
				errs = append(errs, fmt.Errorf("%s: %s was not run, or was skipped: %w", pkg, name, errControl))
			}
		}
	}
	return errors.Join(errs...)
}

var errControl = errors.New("what fails anyway proves nothing")
