package main

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"time"

	"maragu.dev/goqite"
	"maragu.dev/goqite/jobs"
)

var goqitePeer = &peer{
	name: "goqite", module: "maragu.dev/goqite", durability: sqliteDurability, fills: 25_000, pace: 6_000,
	how: "driver mattn/go-sqlite3; its job runner, polling each 10 ms in place of 100",
	open: func(at place, m mode) (queue, error) {
		db, err := openSQLite(at)
		if err != nil {
			return nil, err
		}
		if m.fresh {
			schema, err := os.ReadFile(at.Schema)
			if err != nil {
				return nil, err
			}
			if _, err := db.Exec(string(schema)); err != nil {
				return nil, err
			}
		}
		return &goqiteQueue{db, goqite.New(goqite.NewOpts{DB: db, Name: "jobs", Timeout: time.Minute})}, nil
	},
}

type goqiteQueue struct {
	db *sql.DB
	q  *goqite.Queue
}

func (g *goqiteQueue) enqueue(b []byte) error {
	_, err := jobs.Create(context.Background(), g.q, "noop", goqite.Message{Body: b})
	return err
}

func (g *goqiteQueue) enqueueMany(n int, b []byte) error {
	tx, err := g.db.Begin()
	if err != nil {
		return err
	}
	for range n {
		if _, err := jobs.CreateTx(context.Background(), tx, g.q, "noop", goqite.Message{Body: b}); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (g *goqiteQueue) take() (any, error) {
	m, err := g.q.Receive(context.Background())
	if m == nil || err != nil {
		return nil, err
	}
	return m.ID, nil
}

func (g *goqiteQueue) ack(job any) error { return g.q.Delete(context.Background(), job.(goqite.ID)) }

func (g *goqiteQueue) run(ctx context.Context, slots int, started func()) error {
	r := jobs.NewRunner(jobs.NewRunnerOpts{Limit: slots, Queue: g.q, PollInterval: pollEvery})
	r.Register("noop", func(context.Context, []byte) error { started(); return nil })
	r.Start(ctx)
	return nil
}

func (g *goqiteQueue) close() error { return g.db.Close() }
