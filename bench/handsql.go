package main

import (
	"database/sql"
	"errors"
	"sync"
	"time"
)

var handPeer = &peer{
	name: "sqlite-hand", module: "github.com/mattn/go-sqlite3", durability: sqliteDurability,
	how: "a queue that somebody careful could write in an afternoon: rowid key, one partial index, prepared statements, group commit by one goroutine; workers poll each 10 ms",
	open: func(at place, m mode) (queue, error) {
		db, err := openSQLite(at)
		if err != nil {
			return nil, err
		}
		return newHandQueue(db)
	},
}

// handQueue gathers what its callers want while a commit is under way, and does
// it in the next one.
type handQueue struct {
	db                 *sql.DB
	insert, lease, del *sql.Stmt
	calls              chan *handCall
	done               sync.WaitGroup
}

// handCall is one caller's wish: it is done inside a transaction.
type handCall struct {
	do   func(tx *sql.Tx) error
	done chan error
}

const handSchema = `
create table if not exists job (id integer primary key, leased int not null default 0, due int not null, until int, body blob not null);
create index if not exists job_ready on job (due, id) where leased = 0`

func newHandQueue(db *sql.DB) (*handQueue, error) {
	q := &handQueue{db: db, calls: make(chan *handCall, 1024)}
	if _, err := db.Exec(handSchema); err != nil {
		return nil, err
	}
	for text, stmt := range map[string]**sql.Stmt{
		"insert into job (due, body) values (?, ?)": &q.insert,
		"update job set leased = 1, until = ? where id = (select id from job where leased = 0 and due <= ? order by due, id limit 1) returning id, body": &q.lease,
		"delete from job where id = ?": &q.del,
	} {
		var err error
		if *stmt, err = db.Prepare(text); err != nil {
			return nil, err
		}
	}
	q.done.Go(q.commit)
	return q, nil
}

// commit runs until the queue is closed.
func (q *handQueue) commit() {
	for first := range q.calls {
		group := []*handCall{first}
		for len(group) < 512 && len(q.calls) > 0 {
			group = append(group, <-q.calls)
		}
		err := q.commitGroup(group)
		for _, c := range group {
			c.done <- err
		}
	}
}

func (q *handQueue) commitGroup(group []*handCall) error {
	tx, err := q.db.Begin()
	if err != nil {
		return err
	}
	for _, c := range group {
		if err := c.do(tx); err != nil {
			return errors.Join(err, tx.Rollback())
		}
	}
	return tx.Commit()
}

func (q *handQueue) do(fn func(tx *sql.Tx) error) error {
	c := &handCall{fn, make(chan error, 1)}
	q.calls <- c
	return <-c.done
}

func (q *handQueue) enqueue(b []byte) error { return q.enqueueMany(1, b) }

func (q *handQueue) enqueueMany(n int, b []byte) error {
	return q.do(func(tx *sql.Tx) error {
		now, insert := time.Now().UnixMilli(), tx.Stmt(q.insert)
		for range n {
			if _, err := insert.Exec(now, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *handQueue) take() (job any, err error) {
	err = q.do(func(tx *sql.Tx) error {
		var id int64
		var body []byte
		now := time.Now().UnixMilli()
		err := tx.Stmt(q.lease).QueryRow(now+30_000, now).Scan(&id, &body)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		job = id
		return err
	})
	return job, err
}

func (q *handQueue) ack(job any) error {
	return q.do(func(tx *sql.Tx) error {
		_, err := tx.Stmt(q.del).Exec(job)
		return err
	})
}

func (q *handQueue) close() error {
	close(q.calls)
	q.done.Wait()
	return q.db.Close()
}
