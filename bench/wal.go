package main

import (
	"path/filepath"
	"sync"

	"github.com/tidwall/wal"
)

var walPeer = &peer{
	name: "tidwall-wal", module: "github.com/tidwall/wal", durability: "fsync before every answer", alone: true,
	how: "a log, no queue: it can only append",
	open: func(at place, m mode) (queue, error) {
		l, err := wal.Open(filepath.Join(at.Dir, "wal"), nil)
		if err != nil {
			return nil, err
		}
		last, err := l.LastIndex()
		return &walQueue{log: l, last: last}, err
	},
}

type walQueue struct {
	mu   sync.Mutex
	log  *wal.Log
	last uint64
}

func (q *walQueue) enqueue(b []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.last++
	return q.log.Write(q.last, b)
}

func (q *walQueue) enqueueMany(n int, b []byte) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var batch wal.Batch
	for range n {
		q.last++
		batch.Write(q.last, b)
	}
	return q.log.WriteBatch(&batch)
}

func (q *walQueue) close() error { return q.log.Close() }
