package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"
)

var asynqPeer = &peer{
	name: "asynq", module: "github.com/hibiken/asynq", durability: "Redis appendfsync always: synced before every answer", server: "redis", fills: 35_000,
	how:  "over a unix socket, 64 connections; its server with its defaults",
	open: func(at place, m mode) (queue, error) { return openAsynq(at.Addr["redis"], m) },
}

func openAsynq(addr string, m mode) (queue, error) {
	if err := emptyRedis(addr, m); err != nil {
		return nil, err
	}
	to := asynq.RedisClientOpt{Network: "unix", Addr: addr, PoolSize: 80}
	return &asynqQueue{to, asynq.NewClient(to)}, nil
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
