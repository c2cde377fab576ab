package main

import (
	"context"
	"database/sql"
	"sync/atomic"
	"time"

	"github.com/mikestefanello/backlite"
)

var backlitePeer = &peer{
	name: "backlite", module: "github.com/mikestefanello/backlite", durability: sqliteDurability,
	deaf: true,
	how:  "driver mattn/go-sqlite3; its client's 64 workers, which notice only what their own process enqueues",
	open: func(at place, m mode) (queue, error) {
		db, err := openSQLite(at)
		if err != nil {
			return nil, err
		}
		q := &backliteQueue{db: db}
		q.client, err = backlite.NewClient(backlite.ClientConfig{DB: db, NumWorkers: 64, ReleaseAfter: 10 * time.Minute})
		if err != nil {
			return nil, err
		}
		q.client.Register(backlite.NewQueue(func(context.Context, backliteTask) error { (*q.started.Load())(); return nil }))
		if m.fresh {
			return q, q.client.Install()
		}
		return q, nil
	},
}

type backliteQueue struct {
	db     *sql.DB
	client *backlite.Client
	// started is set before the client starts; it hears only of what is enqueued
	// through itself.
	started atomic.Pointer[func()]
}

type backliteTask struct{ email }

func (backliteTask) Config() backlite.QueueConfig {
	return backlite.QueueConfig{Name: "noop", MaxAttempts: 3, Timeout: time.Minute, Backoff: time.Second}
}

func (q *backliteQueue) enqueue([]byte) error {
	_, err := q.client.Add(backliteTask{mail}).Save()
	return err
}

func (q *backliteQueue) enqueueMany(n int, _ []byte) error {
	tasks := make([]backlite.Task, n)
	for i := range tasks {
		tasks[i] = backliteTask{mail}
	}
	_, err := q.client.Add(tasks...).Save()
	return err
}

// run has 64 workers, whatever slots says.
func (q *backliteQueue) run(ctx context.Context, _ int, started func()) error {
	q.started.Store(&started)
	q.client.Start(context.Background())
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	q.client.Stop(stop)
	return nil
}

func (q *backliteQueue) close() error { return q.db.Close() }
