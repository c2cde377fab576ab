package crash

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

const (
	retain    = 1000 * time.Hour // every finished job is kept for the judge
	laterWait = 1000 * time.Hour
	keys      = 40      // how many keys the keyed jobs of a run share
	workTask  = "work"  // of jobs that run
	laterTask = "later" // of jobs that wait for longer than the run, unless they are requeued
)

// producer enqueues jobs and, in a chaotic run, commands what becomes of some.
type producer struct {
	role
	done int // jobs acknowledged, with those of earlier starts
}

func (p *producer) run(ctx context.Context) error {
	if err := p.recall(); err != nil {
		return err
	}
	begun, first := time.Now(), p.done
	for ctx.Err() == nil && (p.Count == 0 || p.done < p.Count) {
		if p.PerSecond > 0 {
			due := begun.Add(time.Duration(p.done-first) * time.Second / time.Duration(p.PerSecond))
			if !wait(ctx, time.Until(due)) {
				break
			}
		}
		if err := p.step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// recall counts what earlier starts of this process had acknowledged.
func (p *producer) recall() error {
	names, err := ledgers(p.Ledgers)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(filepath.Base(name), p.Name+"-") {
			continue
		}
		err := readLedger(name, func(l line) error {
			if l.verb == ackEnqueue {
				p.done += len(l.fields) - 1
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// step enqueues once: a job, or a batch that is to be there whole or not at
// all.
func (p *producer) step(ctx context.Context) error {
	queue, k, n := p.Queues[p.rand.IntN(len(p.Queues))], plain, 50
	if p.Chaos {
		k, n = p.choose()
	}
	if p.Count > 0 {
		n = min(n, p.Count-p.done)
	}
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = p.job(k)
	}
	ids, err := p.enqueue(ctx, queue, k, jobs)
	if err != nil || k != later {
		return err
	}
	for _, id := range ids {
		if err := p.decide(ctx, broker.Ref{Queue: queue, ID: id}); err != nil {
			return err
		}
	}
	return nil
}

func (p *producer) choose() (kind, int) {
	switch x := p.rand.IntN(100); {
	case x < 50:
		return plain, 1
	case x < 65:
		return plain, 2 + p.rand.IntN(30)
	case x < 80:
		return fragile, 1 + p.rand.IntN(4)
	case x < 90:
		return later, 1 + p.rand.IntN(3)
	default:
		return keyed, 1
	}
}

func (p *producer) job(k kind) broker.NewJob {
	j := broker.NewJob{ID: broker.NewID(), Task: workTask, Retain: retain, Headers: map[string]string{"kind": string(k)}}
	j.Payload = payload(j.ID)
	switch k {
	case plain:
		if p.Chaos {
			j.Priority = int32(p.rand.IntN(3))
			if p.rand.IntN(5) == 0 {
				j.Delay = time.Duration(p.rand.IntN(2000)) * time.Millisecond
			}
		}
	case fragile:
		j.MaxAttempts = fragileAttempts
	case later:
		j.Task, j.Delay = laterTask, laterWait
	case keyed:
		j.Key = "key-" + strconv.Itoa(p.rand.IntN(keys))
		j.KeyHold, j.KeyFor = broker.HoldFor, retain
	}
	return j
}

// enqueue enqueues and notes it. The ids are nil when the call was refused.
func (p *producer) enqueue(ctx context.Context, queue string, k kind, jobs []broker.NewJob) ([]broker.ID, error) {
	call := p.ledger.nextCall()
	lines := make([]entry, len(jobs))
	for i, j := range jobs {
		key := "-"
		if j.Key != "" {
			key = queue + "/" + j.Key
		}
		lines[i] = note(tryEnqueue, call, j.ID, k, key)
	}
	if err := p.ledger.write(lines...); err != nil {
		return nil, err
	}
	answers, err := p.broker.Enqueue(ctx, broker.NewCall(), queue, jobs)
	if err != nil {
		wait(ctx, pause)
		return nil, p.failed(ctx, fmt.Errorf("enqueue: %w", err))
	}
	fields, ids := []any{call}, make([]broker.ID, len(answers))
	for i, a := range answers {
		fields, ids[i] = append(fields, a.ID), a.ID
	}
	p.done += len(ids)
	return ids, p.ledger.write(note(ackEnqueue, fields...))
}

// decide commands what becomes of a job that waits: nothing, a cancel, a cancel
// and a requeue (so that it runs after all), or its deletion.
func (p *producer) decide(ctx context.Context, ref broker.Ref) error {
	var cmds []broker.CommandKind
	switch p.rand.IntN(4) {
	case 0:
		cmds = []broker.CommandKind{broker.CancelJobs}
	case 1:
		cmds = []broker.CommandKind{broker.CancelJobs, broker.RequeueJobs}
	case 2:
		cmds = []broker.CommandKind{broker.DeleteJobs}
	}
	for _, kind := range cmds {
		if err := p.ledger.write(note(tryCommand, ref.ID, kind)); err != nil {
			return err
		}
		changed, err := apply(ctx, p.broker, broker.Command{Kind: kind, Filter: broker.Filter{Queue: ref.Queue, IDs: []broker.ID{ref.ID}}})
		if err != nil {
			return p.failed(ctx, fmt.Errorf("command %d: %w", kind, err))
		}
		if err := p.ledger.write(note(ackCommand, ref.ID, kind, changed)); err != nil {
			return err
		}
	}
	return nil
}

// apply repeats a command until it is finished.
func apply(ctx context.Context, b broker.Broker, cmd broker.Command) (changed int, err error) {
	for {
		step, err := b.Apply(ctx, broker.NewCall(), cmd)
		if err != nil {
			return changed, err
		}
		changed += step.Changed
		if cmd.Cursor = step.Cursor; cmd.Cursor == "" {
			return changed, nil
		}
	}
}
