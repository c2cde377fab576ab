package bench

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/filebroker"
)

// Bench measures.
type Bench struct {
	Dir string // of its own, for stores and the raw file
	// Command makes the process that does what a Role says, on its standard
	// input and output.
	Command func(Role) (*exec.Cmd, error)
	// Progress is told which row is being measured; nil tells nobody.
	Progress func(name string)
	// AllowUnsafeFS measures on file systems that are refused otherwise.
	AllowUnsafeFS bool
	Scale         float64 // of the time of each round and the number of jobs; 0 means 1
	Backlog       bool    // measure the rows that need a million jobs first, too, which takes long

	disk *disk
}

// The time of one round, and the number of rounds.
const (
	rawTime   = 120 * time.Millisecond
	roundTime = 350 * time.Millisecond
	manyRuns  = 5
	fewRuns   = 3
)

// operation is a row to measure.
type operation struct {
	name, what, raw string
	batch           int // records per sync of the raw reading
	rounds          int
	backlog         bool // it needs a million jobs
	own             bool // its rounds bring their own raw reading
	shares          bool // several processes do it
	// start prepares a store in dir; run measures one round on it, and end
	// gives it back.
	start func(ctx context.Context, dir string) (run run, end func() error, err error)
}

// run measures one round.
type run = func(ctx context.Context) (round, error)

// Run measures every row, or those that are named. The directory is left with
// what was measured in it.
func (b *Bench) Run(ctx context.Context, names []string) (rows []Row, err error) {
	if b.Scale <= 0 {
		b.Scale = 1
	}
	if b.disk, err = newDisk(b.Dir); err != nil {
		return nil, fmt.Errorf("prepare the raw reading: %w", err)
	}
	defer func() { err = errors.Join(err, b.disk.file.Close()) }()
	idle, err := b.startIdle(ctx, wanted(names, idleName))
	if err != nil {
		return nil, err
	}
	for _, op := range b.operations() {
		if !wanted(names, op.name) || op.backlog && !b.Backlog {
			continue
		}
		row, err := b.measure(ctx, &op)
		if ctx.Err() != nil {
			return nil, errors.Join(context.Cause(ctx), idle.end())
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", op.name, err), idle.end())
		}
		rows = append(rows, row)
	}
	if !wanted(names, idleName) {
		return rows, nil
	}
	b.say(idleName)
	row, err := idle.row(ctx)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", idleName, err)
	}
	return append(rows, row), nil
}

// Names lists the rows that can be measured, those with a backlog apart.
func Names() (names, backlog []string) {
	for _, op := range (&Bench{}).operations() {
		if op.backlog {
			backlog = append(backlog, op.name)
		} else {
			names = append(names, op.name)
		}
	}
	return append(names, idleName), backlog
}

func wanted(names []string, name string) bool {
	for _, n := range names {
		if n == name {
			return true
		}
	}
	return len(names) == 0
}

func (b *Bench) say(name string) {
	if b.Progress != nil {
		b.Progress(name)
	}
}

func (b *Bench) operations() []operation {
	return append([]operation{
		b.enqueue(1), b.enqueue(8), b.enqueue(64), b.enqueueBatch(), b.enqueueProcesses(),
		b.claimAck(), b.claimAckMany(), b.drain(), b.through(), b.latency(), b.open(),
		b.overHTTP("http_enqueue_64", 1), b.overHTTP("http_batch_100", httpBatch), b.longPoll(),
	}, b.backlogs()...)
}

// measure makes a row: raw reading and round in turns.
func (b *Bench) measure(ctx context.Context, op *operation) (row Row, err error) {
	b.say(op.name)
	run, end, err := op.start(ctx, filepath.Join(b.Dir, op.name))
	if err != nil {
		return row, err
	}
	defer func() { err = errors.Join(err, end()) }()
	var all rounds
	for range op.rounds {
		raw := 0.0
		if !op.own {
			if raw, err = b.disk.perSecond(op.batch, b.time(rawTime)); err != nil {
				return row, err
			}
		}
		m, err := run(ctx)
		if err != nil {
			return row, err
		}
		if op.own {
			raw = m.raw
		}
		all.add(m, raw)
	}
	row = Row{Name: op.name, What: op.what, Raw: op.raw, Durability: durability}
	all.fill(&row)
	if op.shares {
		share := median(all.shares)
		row.Share = &share
	}
	return row, nil
}

const durability = "synced before the answer"

func (b *Bench) time(d time.Duration) time.Duration { return time.Duration(float64(d) * b.Scale) }

func (b *Bench) count(n int) int { return max(1, int(float64(n)*b.Scale)) }

// perSync describes a raw reading.
func perSync(batch int) string {
	return fmt.Sprintf("%d records of %d bytes into a file of zeros, then one fdatasync, over and over", batch, recordBytes)
}

// store is an open store of a row.
type store struct {
	client *spool.Client
	file   *filebroker.Broker
}

func openStore(dir string, unsafeFS bool) (*store, error) {
	f, err := filebroker.Open(dir, filebroker.Config{Logger: quiet(), AllowUnsafeFS: unsafeFS})
	if err != nil {
		return nil, err
	}
	return &store{spool.New(f, spool.Config{Logger: quiet()}), f}, nil
}

// quiet is the logger of what is measured: faults alone.
func quiet() *slog.Logger {
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
}

func (s *store) syncs() int64 { return s.file.Stats().Syncs.Load() }

// fill enqueues n jobs in batches.
func (s *store) fill(ctx context.Context, n int) error {
	return s.fillWith(ctx, n, spool.Raw(task, payload()))
}

// fillWith enqueues a job n times.
func (s *store) fillWith(ctx context.Context, n int, job spool.Spec) error {
	for n > 0 {
		batch := make([]spool.Spec, min(n, 1000))
		for i := range batch {
			batch[i] = job
		}
		if _, err := s.client.Enqueue(ctx, batch...); err != nil {
			return fmt.Errorf("enqueue jobs to measure with: %w", err)
		}
		n -= len(batch)
	}
	return nil
}

const task = "bench"

// payload is what every job carries: 100 bytes of JSON.
func payload() []byte {
	return []byte(`{"to":"ada@example.com","subject":"welcome","template":17,"locale":"en","tracking":"xxxxxxxxxxxxxx"}`)
}
