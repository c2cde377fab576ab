package main

import (
	"context"
	"errors"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// taker is a broker that stores nothing: it stands for one while a command line
// is checked, so that what can never be right makes no directory. Every call of
// it that would change a store returns errTaken.
type taker struct {
	broker.Broker
	change broker.Change // the last that it took
	bytes  int           // of the jobs that it took
}

var errTaken = errors.New("taken")

// try calls fn with a client that stores nothing. No error means that as far as
// one can tell without the store, fn would have worked.
func (t *taker) try(fn func(ctx context.Context, c *spool.Client) error) error {
	if err := fn(context.Background(), spool.New(t, spool.Config{})); !errors.Is(err, errTaken) {
		return err
	}
	return nil
}

// Caps implements broker.Broker.
func (*taker) Caps() broker.Caps { return broker.Caps{} }

// Enqueue implements broker.Broker.
func (t *taker) Enqueue(_ context.Context, _ broker.Call, _ string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	for i := range jobs {
		t.bytes += jobs[i].Size()
	}
	return nil, errTaken
}

// Configure implements broker.Broker.
func (t *taker) Configure(_ context.Context, _ broker.Call, _ string, c broker.Change) error {
	t.change = c
	return errTaken
}

// Settings implements broker.Inspector.
func (*taker) Settings(context.Context, string) ([]broker.QueueSetting, error) { return nil, errTaken }

// Tick implements broker.Broker.
func (*taker) Tick(context.Context, broker.Call, broker.Tick) (won bool, now time.Time, err error) {
	return false, now, errTaken
}
