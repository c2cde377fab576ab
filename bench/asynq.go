package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

var asynqPeer = &peer{
	name: "asynq", module: "github.com/hibiken/asynq", durability: "Redis appendfsync always: synced before every answer", server: "redis", fills: 35_000,
	how: "over a unix socket, 64 connections; its server with its defaults",
	open: func(at place, m mode) (queue, error) {
		to := asynq.RedisClientOpt{Network: "unix", Addr: at.Addr["redis"], PoolSize: 80}
		if m.fresh {
			r := redis.NewClient(&redis.Options{Network: "unix", Addr: at.Addr["redis"]})
			defer r.Close()
			if err := r.FlushAll(context.Background()).Err(); err != nil {
				return nil, err
			}
		}
		return &asynqQueue{to, asynq.NewClient(to)}, nil
	},
}

type asynqQueue struct {
	to     asynq.RedisClientOpt
	client *asynq.Client
}

func (q *asynqQueue) enqueue(b []byte) error {
	_, err := q.client.Enqueue(asynq.NewTask("noop", b))
	return err
}

func (q *asynqQueue) run(ctx context.Context, slots int, started func()) error {
	s := asynq.NewServer(q.to, asynq.Config{Concurrency: slots, LogLevel: asynq.FatalLevel, ShutdownTimeout: time.Second})
	if err := s.Start(asynq.HandlerFunc(func(context.Context, *asynq.Task) error { started(); return nil })); err != nil {
		return err
	}
	<-ctx.Done()
	s.Shutdown()
	return nil
}

func (q *asynqQueue) close() error { return q.client.Close() }
