package main

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

var beanstalkdPeer = &peer{
	name: "beanstalkd", module: "github.com/beanstalkd/go-beanstalk", durability: "-f0: synced before every answer; a reservation is not logged", server: "beanstalkd", fills: 5_000, pace: 10_000,
	how: "over a unix socket, a connection for each caller; workers are loops that reserve and delete, as its clients have them",
	open: func(at place, m mode) (queue, error) {
		if m.fresh {
			if err := at.servers["beanstalkd"].reset(); err != nil {
				return nil, err
			}
		}
		q := &beanstalkdQueue{addr: at.Addr["beanstalkd"]}
		c, err := q.get()
		if err != nil {
			return nil, err
		}
		q.put(c)
		return q, nil
	},
}

// beanstalkdQueue keeps the connections that nobody uses at the moment.
type beanstalkdQueue struct {
	addr string
	mu   sync.Mutex
	free []*beanstalk.Conn
}

// beanstalkdJob can only be deleted by the connection that reserved it.
type beanstalkdJob struct {
	conn *beanstalk.Conn
	id   uint64
}

func (q *beanstalkdQueue) get() (*beanstalk.Conn, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if n := len(q.free); n > 0 {
		c := q.free[n-1]
		q.free = q.free[:n-1]
		return c, nil
	}
	return beanstalk.Dial("unix", q.addr)
}

func (q *beanstalkdQueue) put(c *beanstalk.Conn) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.free = append(q.free, c)
}

func (q *beanstalkdQueue) enqueue(b []byte) error {
	c, err := q.get()
	if err != nil {
		return err
	}
	defer q.put(c)
	_, err = c.Put(b, 1, 0, time.Minute)
	return err
}

func (q *beanstalkdQueue) take() (any, error) { return q.reserve(0) }

// reserve returns nil when no job came within the time.
func (q *beanstalkdQueue) reserve(wait time.Duration) (any, error) {
	c, err := q.get()
	if err != nil {
		return nil, err
	}
	id, _, err := c.Reserve(wait)
	if err == nil {
		return beanstalkdJob{c, id}, nil
	}
	q.put(c)
	var failed beanstalk.ConnError
	if errors.As(err, &failed) && failed.Err == beanstalk.ErrTimeout {
		return nil, nil
	}
	return nil, err
}

func (q *beanstalkdQueue) ack(job any) error {
	j := job.(beanstalkdJob)
	defer q.put(j.conn)
	return j.conn.Delete(j.id)
}

func (q *beanstalkdQueue) run(ctx context.Context, slots int, started func()) error {
	return together(slots, func() error {
		for ctx.Err() == nil {
			job, err := q.reserve(time.Second)
			if err != nil {
				return err
			}
			if job == nil {
				continue
			}
			started()
			if err := q.ack(job); err != nil {
				return err
			}
		}
		return nil
	})
}

func (q *beanstalkdQueue) close() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	var errs []error
	for _, c := range q.free {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}
