package main

import (
	"context"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

var spoolPeer = &peer{
	name: "spool", durability: "fdatasync before every answer; a claim rides along",
	how: "`spool.Open`, a task of []byte; its own worker",
	open: func(at place, m mode) (queue, error) {
		c, err := spool.Open(at.Dir)
		if err != nil {
			return nil, err
		}
		return &spoolQueue{c}, nil
	},
}

var spoolTask = spool.Define[[]byte]("noop")

type spoolQueue struct{ client *spool.Client }

func (q *spoolQueue) enqueue(b []byte) error {
	_, err := spoolTask.Enqueue(context.Background(), q.client, b)
	return err
}

func (q *spoolQueue) enqueueMany(n int, b []byte) error {
	_, err := spoolTask.EnqueueMany(context.Background(), q.client, func(yield func([]byte) bool) {
		for range n {
			if !yield(b) {
				return
			}
		}
	})
	return err
}

func (q *spoolQueue) take() (any, error) {
	leases, err := q.client.Claim(context.Background(), broker.ClaimRequest{Tasks: []string{spoolTask.Name()}, Worker: "bench"})
	if err != nil || len(leases) == 0 {
		return nil, err
	}
	return leases[0], nil
}

func (q *spoolQueue) ack(job any) error { return job.(*spool.Lease).Ack(context.Background(), nil) }

func (q *spoolQueue) run(ctx context.Context, slots int, started func()) error {
	w := spool.NewWorker(q.client, spool.WorkerConfig{Concurrency: slots})
	spoolTask.Handle(w, func(context.Context, []byte) error { started(); return nil })
	return w.Run(ctx)
}

func (q *spoolQueue) syncs() int64 {
	if b, ok := q.client.Broker().(*filebroker.Broker); ok {
		return b.Stats().Syncs.Load()
	}
	return 0
}

func (q *spoolQueue) close() error { return q.client.Close() }
