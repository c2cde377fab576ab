package main

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/riverdriver/riversqlite"
	"github.com/riverqueue/river/rivermigrate"
)

// The settings are those that River's own benchmark makes: by default its
// workers fetch ten times a second at most.
const (
	riverTuned = "FetchCooldown 2 ms, FetchPollInterval 20 ms"

	riverPatience = 20 * time.Second // for the end of what it runs; on a busy machine it needs some
)

var riverSQLitePeer = &peer{
	name: "river-sqlite", module: "github.com/riverqueue/river", durability: sqliteDurability, fills: 30_000,
	how: "driver mattn/go-sqlite3; its client's workers, tuned: " + riverTuned,
	open: func(at place, m mode) (queue, error) {
		db, err := openSQLite(at)
		if err != nil {
			return nil, err
		}
		return newRiverQueue[*sql.Tx](riversqlite.New(db), m, db.Close)
	},
}

var riverPostgresPeer = &peer{
	name: "river-postgres", module: "github.com/riverqueue/river", durability: "PostgreSQL, synchronous_commit=on: synced before every answer", server: "postgres", fills: 50_000,
	how: "driver riverpgxv5, 88 connections in all; a PostgreSQL as initdb makes it; its client's workers, tuned: " + riverTuned + ", MaxWorkers 2,000",
	open: func(at place, m mode) (queue, error) {
		pool, err := pgxpool.New(context.Background(), fmt.Sprintf("%s&pool_max_conns=%d", at.Addr["postgres"], at.Conns))
		if err != nil {
			return nil, err
		}
		q, err := newRiverQueue(riverpgxv5.New(pool), m, func() error { pool.Close(); return nil })
		if err != nil || !m.fresh {
			return q, err
		}
		if _, err := pool.Exec(context.Background(), "truncate river_job"); err != nil {
			return nil, err
		}
		_, err = pool.Exec(context.Background(), "vacuum analyze river_job")
		return q, err
	},
	disk: func(at place) (n int64, err error) {
		pool, err := pgxpool.New(context.Background(), at.Addr["postgres"])
		if err != nil {
			return 0, err
		}
		defer pool.Close()
		err = pool.QueryRow(context.Background(), "select pg_total_relation_size('river_job')").Scan(&n)
		return n, err
	},
}

type riverQueue[T any] struct {
	driver riverdriver.Driver[T]
	client *river.Client[T]
	end    func() error
}

func newRiverQueue[T any](d riverdriver.Driver[T], m mode, end func() error) (*riverQueue[T], error) {
	if m.fresh {
		migrator, err := rivermigrate.New(d, &rivermigrate.Config{Logger: riverLog})
		if err != nil {
			return nil, err
		}
		if _, err := migrator.Migrate(context.Background(), rivermigrate.DirectionUp, nil); err != nil {
			return nil, err
		}
	}
	c, err := river.NewClient(d, &river.Config{Logger: riverLog})
	return &riverQueue[T]{d, c, end}, err
}

var riverLog = slog.New(slog.DiscardHandler)

type riverArgs struct{ email }

func (riverArgs) Kind() string { return "noop" }

type riverWorker struct {
	river.WorkerDefaults[riverArgs]
	started func()
}

func (w *riverWorker) Work(context.Context, *river.Job[riverArgs]) error { w.started(); return nil }

func (q *riverQueue[T]) enqueue([]byte) error {
	_, err := q.client.Insert(context.Background(), riverArgs{mail}, nil)
	return err
}

func (q *riverQueue[T]) enqueueMany(n int, _ []byte) error {
	jobs := make([]river.InsertManyParams, n)
	for i := range jobs {
		jobs[i].Args = riverArgs{mail}
	}
	_, err := q.client.InsertManyFast(context.Background(), jobs)
	return err
}

func (q *riverQueue[T]) run(ctx context.Context, slots int, started func()) error {
	workers := river.NewWorkers()
	river.AddWorker(workers, &riverWorker{started: started})
	if _, postgres := any(q.driver).(*riverpgxv5.Driver); postgres && slots > 1 {
		slots = 2000
	}
	c, err := river.NewClient(q.driver, &river.Config{
		Logger: riverLog, Workers: workers,
		FetchCooldown: 2 * time.Millisecond, FetchPollInterval: 20 * time.Millisecond,
		Queues: map[string]river.QueueConfig{river.QueueDefault: {MaxWorkers: slots}},
	})
	if err != nil {
		return err
	}
	if err := c.Start(context.Background()); err != nil {
		return err
	}
	<-ctx.Done()
	stop, cancel := context.WithTimeout(context.Background(), riverPatience)
	defer cancel()
	return c.StopAndCancel(stop)
}

func (q *riverQueue[T]) close() error { return q.end() }
