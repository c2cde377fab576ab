package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
)

func main() {
	slog.SetLogLoggerLevel(slog.LevelWarn)
	if len(os.Args) == 3 && os.Args[1] == "role" {
		exit(play(os.Args[2]))
	}
	var o options
	o.flags()
	exit(o.run())
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// options are the command line.
type options struct {
	peers, ops                   string
	quick, redis                 bool
	scale                        scale
	dir, lines, from, page       string
	charts, schema, cpu, allocOf string
}

func (o *options) flags() {
	flag.StringVar(&o.peers, "peers", "", "peers to measure, with commas between; all when it is empty")
	flag.StringVar(&o.ops, "ops", "", "operations to measure, with commas between; all when it is empty")
	flag.BoolVar(&o.quick, "quick", false, "one short run, and 100,000 waiting jobs where it is a million")
	flag.BoolVar(&o.redis, "redis", false, "measure spool on Redis beside asynq and the bare server, with other peers and operations than without it")
	flag.IntVar(&o.scale.runs, "runs", 0, "`number` of runs")
	flag.DurationVar(&o.scale.limit, "time", 0, "`time` of one run of one operation")
	flag.StringVar(&o.dir, "dir", os.TempDir(), "`directory` on the disk to measure; a new one is made in it, and removed")
	flag.StringVar(&o.lines, "json", "", "`file` for every sample, a line of JSON each")
	flag.StringVar(&o.from, "from", "", "`file` of such lines: print and draw them, and measure nothing")
	flag.StringVar(&o.page, "page", "", "Markdown `file` whose table is replaced, and whose charts are drawn into the directory of its name, when everything was measured")
	flag.StringVar(&o.charts, "charts", "", "`directory` for the charts")
	flag.StringVar(&o.schema, "goqite-schema", "", "`file` with the schema of goqite")
	flag.StringVar(&o.cpu, "cpuprofile", "", "`file` for a CPU profile of this process")
	flag.StringVar(&o.allocOf, "memprofile", "", "`file` for a profile of this process's allocations")
	flag.Parse()
}

func (o *options) run() error {
	if flag.NArg() > 0 {
		return fmt.Errorf("what is %q? Every choice is a flag", flag.Arg(0))
	}
	if o.from != "" {
		f, err := os.Open(o.from)
		if err != nil {
			return err
		}
		defer f.Close()
		a, all, err := readLines(f)
		if err != nil {
			return err
		}
		return o.show(a, all)
	}
	b, err := o.bench()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	done, err := o.profile()
	if err != nil {
		return err
	}
	a, all, err := o.measure(ctx, b)
	if err := errors.Join(err, done()); err != nil {
		return err
	}
	if err := o.show(a, all); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return errors.New("stopped before its end")
	}
	return faults(all)
}

// bench is what the flags choose.
func (o *options) bench() (*bench, error) {
	b := &bench{scale: fullScale, log: os.Stderr, noDisk: o.redis}
	b.at.Schema = o.schema
	if o.quick {
		b.scale = quickScale
	}
	if o.scale.runs > 0 {
		b.scale.runs = o.scale.runs
	}
	if o.scale.limit > 0 {
		b.scale.limit = o.scale.limit
	}
	var err error
	list, ops := o.all()
	if b.peers, err = choose(list, o.peers, func(p *peer) string { return p.name }); err != nil {
		return nil, err
	}
	b.ops, err = choose(ops, o.ops, func(o operation) string { return o.name })
	return b, err
}

// all is what there is to choose from.
func (o *options) all() ([]*peer, []operation) {
	if o.redis {
		return redisPeers(), redisOperations()
	}
	return peers, operations()
}

// choose returns the named ones, or all.
func choose[T any](all []T, names string, name func(T) string) (list []T, err error) {
	if names == "" {
		return all, nil
	}
	for _, n := range strings.Split(names, ",") {
		i := slices.IndexFunc(all, func(v T) bool { return name(v) == n })
		if i < 0 {
			var known []string
			for _, v := range all {
				known = append(known, name(v))
			}
			return nil, fmt.Errorf("there is no %q: %s would do", n, strings.Join(known, ", "))
		}
		list = append(list, all[i])
	}
	return list, nil
}

// measure runs the benchmark; its lines go to a file, as they come, when there
// is one.
func (o *options) measure(ctx context.Context, b *bench) (a about, all []sample, err error) {
	b.lines = json.NewEncoder(io.Discard)
	if o.lines != "" {
		f, err := os.Create(o.lines)
		if err != nil {
			return a, nil, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		b.lines = json.NewEncoder(f)
	}
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return a, nil, err
	}
	all, a, err = b.work(ctx, dir)
	return a, all, err
}

// readLines reads what measure wrote.
func readLines(r io.Reader) (a about, all []sample, err error) {
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	for n := 1; in.Scan(); n++ {
		if n == 1 {
			err = json.Unmarshal(in.Bytes(), &a)
		} else {
			var s sample
			err = json.Unmarshal(in.Bytes(), &s)
			all = append(all, s)
		}
		if err != nil {
			return a, nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	return a, all, in.Err()
}

// show prints the table, and writes it and the charts where they are wanted.
func (o *options) show(a about, samples []sample) error {
	var rows []row
	_, ops := o.all()
	for _, op := range ops {
		rows = append(rows, op.rows...)
	}
	all := cells(rows, samples)
	var table bytes.Buffer
	write, begin, end := writeTable, pageBegin, pageEnd
	if o.redis {
		write, begin, end = writeRedisTable, redisBegin, redisEnd
	}
	write(&table, a, all)
	if _, err := os.Stdout.Write(table.Bytes()); err != nil {
		return err
	}
	if o.charts != "" && !o.redis {
		if err := drawCharts(o.charts, all); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	if o.quick || o.peers != "" || o.ops != "" {
		fmt.Fprintf(os.Stderr, "%s is left as it was: this was not a whole run\n", o.page)
		return nil
	}
	if err := rewriteFile(o.page, table.String(), begin, end); err != nil || o.redis {
		return err
	}
	return drawCharts(strings.TrimSuffix(o.page, ".md"), all)
}

// faults is the error of samples that should be figures.
func faults(all []sample) error {
	seen := map[string]bool{}
	var errs []error
	for _, s := range all {
		if text := s.Peer + ": " + s.Fault; s.Fault != "" && !seen[text] {
			seen[text] = true
			errs = append(errs, errors.New(text))
		}
	}
	return errors.Join(errs...)
}

// profile starts the profiles that are wanted; done writes them.
func (o *options) profile() (done func() error, err error) {
	var cpu *os.File
	if o.cpu != "" {
		if cpu, err = os.Create(o.cpu); err != nil {
			return nil, err
		}
		if err := pprof.StartCPUProfile(cpu); err != nil {
			return nil, err
		}
	}
	return func() error {
		var errs []error
		if cpu != nil {
			pprof.StopCPUProfile()
			errs = append(errs, cpu.Close())
		}
		if o.allocOf != "" {
			f, err := os.Create(o.allocOf)
			if err != nil {
				return errors.Join(append(errs, err)...)
			}
			errs = append(errs, pprof.Lookup("allocs").WriteTo(f, 0), f.Close())
		}
		return errors.Join(errs...)
	}, nil
}
