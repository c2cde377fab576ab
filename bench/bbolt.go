package main

import (
	"encoding/binary"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
)

var bboltPeer = &peer{
	name: "bbolt", module: "go.etcd.io/bbolt", durability: "fdatasync before every answer", alone: true, pace: 60_000,
	how: "a queue of two buckets; Update for one caller, Batch (1 ms at most) for several; workers poll each 10 ms",
	open: func(at place, m mode) (queue, error) {
		db, err := bolt.Open(filepath.Join(at.Dir, "q.bolt"), 0o600, &bolt.Options{Timeout: time.Second})
		if err != nil {
			return nil, err
		}
		db.MaxBatchDelay = time.Millisecond
		q := &bboltQueue{db, db.Update}
		if m.callers > 1 {
			q.change = db.Batch
		}
		return q, db.Update(func(tx *bolt.Tx) error {
			for _, name := range [][]byte{readyBucket, leasedBucket} {
				if _, err := tx.CreateBucketIfNotExists(name); err != nil {
					return err
				}
			}
			return nil
		})
	},
}

var readyBucket, leasedBucket = []byte("ready"), []byte("leased")

type bboltQueue struct {
	db     *bolt.DB
	change func(func(*bolt.Tx) error) error
}

func bboltPut(tx *bolt.Tx, b []byte) error {
	ready := tx.Bucket(readyBucket)
	n, err := ready.NextSequence()
	if err != nil {
		return err
	}
	return ready.Put(binary.BigEndian.AppendUint64(nil, n), b)
}

func (q *bboltQueue) enqueue(b []byte) error {
	return q.change(func(tx *bolt.Tx) error { return bboltPut(tx, b) })
}

func (q *bboltQueue) enqueueMany(n int, b []byte) error {
	return q.db.Update(func(tx *bolt.Tx) error {
		for range n {
			if err := bboltPut(tx, b); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *bboltQueue) take() (any, error) {
	var id []byte
	err := q.change(func(tx *bolt.Tx) error {
		ready := tx.Bucket(readyBucket)
		k, v := ready.Cursor().First()
		if id = slices.Clone(k); id == nil {
			return nil
		}
		if err := tx.Bucket(leasedBucket).Put(id, v); err != nil {
			return err
		}
		return ready.Delete(id)
	})
	if err != nil || id == nil {
		return nil, err
	}
	return id, nil
}

func (q *bboltQueue) ack(job any) error {
	return q.change(func(tx *bolt.Tx) error { return tx.Bucket(leasedBucket).Delete(job.([]byte)) })
}

func (q *bboltQueue) close() error { return q.db.Close() }
