package bench

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/internal/vfs"
)

const (
	latencyName = "latency_idle"
	latencyJobs = 12 // of one round
	latencyGap  = 100 * time.Millisecond
)

// latency measures from the call of an enqueue in one idle process to the start
// of the handler in another.
func (b *Bench) latency() operation {
	return operation{
		name: latencyName, what: "from the call of an enqueue, synced, in one idle process to the start of the handler in another; a job each 100 ms",
		batch: 1, raw: perSync(1), rounds: manyRuns,
		start: func(ctx context.Context, dir string) (func(context.Context) (round, error), func() error, error) {
			s, err := openStore(dir, b.AllowUnsafeFS)
			if err != nil {
				return nil, nil, err
			}
			p, err := b.spawn(ctx, Role{Do: roleWork, Store: dir})
			if err != nil {
				return nil, nil, errors.Join(err, s.client.Close())
			}
			run := func(ctx context.Context) (round, error) { return s.latency(ctx, p, b.count(latencyJobs)) }
			return run, func() error { return errors.Join(p.end(), s.client.Close()) }, nil
		},
	}
}

func (s *store) latency(ctx context.Context, p *process, n int) (m round, err error) {
	clock, before := vfs.OS(), s.syncs()
	for i := range n {
		if err := pause(ctx, latencyGap); err != nil {
			return m, err
		}
		begun := clock.Monotonic()
		if _, err := s.client.Enqueue(ctx, spool.Raw(task, binary.LittleEndian.AppendUint64(payload(), uint64(i)))); err != nil {
			return m, err
		}
		var started time.Duration
		if err := p.hear(&started); err != nil {
			return m, err
		}
		m.jobs++
		m.took += started - begun
		m.calls = append(m.calls, started-begun)
	}
	m.syncs = s.syncs() - before
	return m, nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}

const (
	idleName = "idle"
	idleTime = 10 * time.Second
	idleRest = time.Second // after its start, before it is measured
)

// idler is a worker process that has nothing to do while the other rows are
// measured.
type idler struct {
	process *process
	scaled  time.Duration
}

// startIdle starts it, on a store of its own, if it is wanted.
func (b *Bench) startIdle(ctx context.Context, wanted bool) (*idler, error) {
	if !wanted {
		return &idler{}, nil
	}
	p, err := b.spawn(ctx, Role{Do: roleIdle, Store: b.Dir + "/" + idleName})
	if err != nil {
		return nil, err
	}
	if err := pause(ctx, idleRest); err != nil {
		return nil, errors.Join(err, p.end())
	}
	d := b.time(idleTime)
	return &idler{p, d}, p.tell(order{For: d})
}

// row waits until the idle time is over and returns what it cost.
func (i *idler) row(context.Context) (Row, error) {
	var r report
	if err := errors.Join(i.process.hear(&r), i.process.end()); err != nil {
		return Row{}, err
	}
	ms := r.CPU.Seconds() * 1e3
	return Row{
		Name: idleName, Durability: durability, CPUms: &ms, Raw: "none",
		What: fmt.Sprintf("CPU time of a worker process that has nothing to do for %v", i.scaled),
	}, nil
}

func (i *idler) end() error {
	if i.process == nil {
		return nil
	}
	return i.process.end()
}
