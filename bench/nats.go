package main

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

var natsPeer = &peer{
	name: "nats", module: "github.com/nats-io/nats.go", durability: "JetStream sync_interval: always: synced before every answer; a delivery is not logged", server: "nats", fills: 5_000, pace: 10_000,
	how: "a work-queue stream in a file; workers are goroutines behind Consume, with double acks",
	open: func(at place, m mode) (queue, error) {
		conn, err := nats.Connect(at.Addr["nats"])
		if err != nil {
			return nil, err
		}
		js, err := jetstream.New(conn)
		if err != nil {
			return nil, err
		}
		if m.fresh {
			if err := natsStream(js); err != nil {
				return nil, err
			}
		}
		consumer, err := js.Consumer(context.Background(), "JOBS", "workers")
		return &natsQueue{conn, js, consumer}, err
	},
}

type natsQueue struct {
	conn     *nats.Conn
	js       jetstream.JetStream
	consumer jetstream.Consumer
}

func natsStream(js jetstream.JetStream) error {
	ctx := context.Background()
	if err := js.DeleteStream(ctx, "JOBS"); err != nil && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return err
	}
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "JOBS", Subjects: []string{"jobs"}, Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage})
	if err != nil {
		return err
	}
	_, err = js.CreateConsumer(ctx, "JOBS", jetstream.ConsumerConfig{Durable: "workers", AckPolicy: jetstream.AckExplicitPolicy, MaxAckPending: 10_000, AckWait: time.Minute})
	return err
}

func (q *natsQueue) enqueue(b []byte) error {
	_, err := q.js.Publish(context.Background(), "jobs", b)
	return err
}

func (q *natsQueue) enqueueMany(n int, b []byte) error {
	answers := make([]jetstream.PubAckFuture, n)
	var err error
	for i := range answers {
		if answers[i], err = q.js.PublishAsync("jobs", b); err != nil {
			return err
		}
	}
	for _, a := range answers {
		select {
		case <-a.Ok():
		case err := <-a.Err():
			return err
		}
	}
	return nil
}

func (q *natsQueue) take() (any, error) {
	batch, err := q.consumer.FetchNoWait(1)
	if err != nil {
		return nil, err
	}
	for m := range batch.Messages() {
		return m, nil
	}
	return nil, batch.Error()
}

func (q *natsQueue) ack(job any) error { return job.(jetstream.Msg).DoubleAck(context.Background()) }

func (q *natsQueue) run(ctx context.Context, slots int, started func()) error {
	msgs := make(chan jetstream.Msg)
	consuming, err := q.consumer.Consume(func(m jetstream.Msg) {
		select {
		case msgs <- m:
		case <-ctx.Done():
		}
	}, jetstream.PullMaxMessages(500))
	if err != nil {
		return err
	}
	defer consuming.Stop()
	return together(slots, func() error {
		for {
			select {
			case m := <-msgs:
				started()
				if err := q.ack(m); err != nil {
					return err
				}
			case <-ctx.Done():
				return nil
			}
		}
	})
}

func (q *natsQueue) close() error { q.conn.Close(); return nil }
