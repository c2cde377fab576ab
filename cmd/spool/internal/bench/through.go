package bench

import (
	"context"
	"encoding/json"
	"errors"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool"
)

const throughBatch = 100

// through measures four processes that enqueue, 100 jobs in a call, beside four
// with 64 slots each that work them.
func (b *Bench) through() operation {
	return operation{
		name: "through_4x4", what: "four processes enqueue 100 jobs in each call, and four with 64 slots each work them, every ack durable; the jobs are those that came through",
		batch: 1, raw: perSync(1), rounds: manyRuns, shares: true,
		start: func(ctx context.Context, dir string) (run, func() error, error) {
			var producers, workers group
			end := func() error { return errors.Join(producers.end(), workers.end()) }
			for range processes {
				for role, to := range map[string]*group{roleBatch: &producers, roleMany: &workers} {
					p, err := b.spawn(ctx, Role{Do: role, Store: dir})
					if err != nil {
						return nil, nil, errors.Join(err, end())
					}
					*to = append(*to, p)
				}
			}
			return func(context.Context) (m round, err error) {
				d := b.time(3 * roundTime)
				enqueued := make(chan round)
				go func() {
					in, failed := producers.obey(d)
					err = failed
					enqueued <- in
				}()
				m, failed := workers.obey(d)
				in := <-enqueued
				m.jobs = min(m.jobs, in.jobs)
				m.syncs += in.syncs
				m.calls = in.calls
				return m, errors.Join(err, failed)
			}, end, nil
		},
	}
}

// many runs a worker and reports how many jobs it has done in the time of an
// order.
func (s *store) many(orders *json.Decoder, enc *json.Encoder) error {
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	var done atomic.Int64
	go func() {
		hooks := spool.Hooks{Finished: func(*spool.Lease, spool.Outcome) { done.Add(1) }}
		w := spool.NewWorker(s.client, spool.WorkerConfig{Concurrency: drainWorkers, Hooks: hooks})
		spool.Define[[]byte](task).Handle(w, func(context.Context, []byte) error { return nil })
		ended <- w.Run(ctx)
	}()
	err := s.obey(orders, enc, func(o order) (report, error) {
		before, syncs, begun := done.Load(), s.syncs(), time.Now()
		err := pause(ctx, o.For)
		return report{Jobs: int(done.Load() - before), Took: time.Since(begun), Syncs: s.syncs() - syncs}, err
	})
	stop()
	return errors.Join(err, <-ended)
}
