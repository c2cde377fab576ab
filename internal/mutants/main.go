// Command mutants plants faults in the code of the file queue, one at a time, and
// looks whether its tests notice: a suite that passes without a sync, a check or
// a lock does not prove what it says. It prints for each fault which test failed
// first. It ends with 1 when no test noticed one, when one cannot be planted any
// more since the code has changed, or does not compile, and when a test that is to
// notice fails without a fault.
//
// It changes no file: the go command is told to compile the changed one in place
// of the module's own (go build -overlay).
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	dir := flag.String("C", ".", "the module's directory")
	only := flag.String("run", "", "only the faults whose file, function or words match this `pattern`")
	at := flag.Int("j", 2, "how many are tried at a time")
	flag.Parse()
	failed, err := run(ctx, os.Stdout, *dir, *only, *at)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
	}
	if failed || err != nil {
		os.Exit(1)
	}
}

// run tries the faults that match a pattern, and says whether one was not killed.
func run(ctx context.Context, out io.Writer, dir, only string, at int) (failed bool, err error) {
	match, err := regexp.Compile(only)
	if err != nil {
		return false, err
	}
	chosen := slices.DeleteFunc(allFaults(), func(f *fault) bool { return !match.MatchString(f.place() + " " + f.what) })
	if len(chosen) == 0 {
		return false, fmt.Errorf("no fault matches %q", only)
	}
	tmp, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(tmp)
	j := &judge{dir: dir, tmp: tmp}
	if j.dir, err = filepath.Abs(dir); err != nil {
		return false, err
	}
	began := time.Now()
	if err := j.control(ctx, chosen); err != nil {
		return false, err
	}
	fmt.Fprintf(out, "without a fault all their tests pass (%v)\n", time.Since(began).Round(time.Second))
	all := j.tryAll(ctx, chosen, at, func(v *verdict) { fmt.Fprintln(out, v.line()) })
	return report(out, all, time.Since(began)), ctx.Err()
}

// tryAll tries faults, some at a time, and tells of each.
func (j *judge) tryAll(ctx context.Context, faults []*fault, at int, tell func(*verdict)) []verdict {
	all := make([]verdict, len(faults))
	var mu sync.Mutex
	var wg sync.WaitGroup
	todo := make(chan int)
	for range max(at, 1) {
		wg.Go(func() {
			for i := range todo {
				all[i] = j.try(ctx, faults[i])
				mu.Lock()
				tell(&all[i])
				mu.Unlock()
			}
		})
	}
	for i := range faults {
		todo <- i
	}
	close(todo)
	wg.Wait()
	return all
}

// line says what came of one fault, as it becomes known.
func (v *verdict) line() string {
	return fmt.Sprintf("%s: %s: %s (%v)", v.fault.place(), v.fault.what, v.fate(), v.took.Round(100*time.Millisecond))
}

func (v *verdict) fate() string {
	switch {
	case v.err != nil:
		return "NOT JUDGED: " + v.err.Error()
	case v.killer == "":
		return "SURVIVED"
	case !v.named:
		return "killed by " + v.killer + ", not by what the table names"
	}
	return "killed by " + v.killer
}

// report prints the table, and says whether something is wrong.
func report(out io.Writer, all []verdict, took time.Duration) (failed bool) {
	killed, survived, unjudged := 0, 0, 0
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "fault\tplace\tfate\ttime")
	for i := range all {
		v := &all[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\n", v.fault.what, v.fault.place(), v.fate(), v.took.Round(100*time.Millisecond))
		switch {
		case v.err != nil:
			unjudged++
		case v.killer == "":
			survived++
		default:
			killed++
		}
	}
	w.Flush()
	fmt.Fprintf(out, "\n%d faults: %d killed, %d survived, %d not judged, in %v\n", len(all), killed, survived, unjudged, took.Round(time.Second))
	return survived+unjudged > 0
}
