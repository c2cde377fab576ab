package brokertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// repeats makes the calls of a history again, with their ids: at once through
// another client, and later, whatever became of them. What changed something has
// to answer what it did; that the store did not change is for the player to see.
type repeats struct {
	p      *player
	passed time.Duration // in all
	made   []madeCall    // the last ones that changed something
	ended  map[lease]bool
}

// madeCall is a call that the broker has to know for some time.
type madeCall struct {
	what string
	at   time.Duration
	make func(b broker.Broker) (answer string)
	want func() string
}

// keptCalls is how many calls of a history may be made again.
const keptCalls = 20

// add notes a call that changed something.
func (r *repeats) add(c madeCall) {
	c.at = r.passed
	r.made = append(r.made, c)
	if len(r.made) > keptCalls {
		r.made = r.made[1:]
	}
}

// again makes a call again that was made before, through one of the clients.
func (r *repeats) again(step int) {
	for len(r.made) > 0 && r.passed-r.made[0].at >= r.p.f.b.Caps().Retry {
		r.made = r.made[1:]
	}
	if len(r.made) > 0 {
		r.check(&r.made[step*7%len(r.made)], r.p.clients[step%historyClients].real)
	}
}

func (r *repeats) check(c *madeCall, b broker.Broker) {
	wanted := c.want()
	if got := c.make(b); got != wanted {
		r.p.f.Errorf("%s, made again %v later: %s, want %s", c.what, r.passed-c.at, got, wanted)
	}
}

// repeater is a client of a history whose calls are made again.
type repeater struct {
	broker.Broker
	r     *repeats
	other broker.Broker
}

// done makes a call again that has just been made. changed says that the broker
// has to know it from now on; else it is judged anew, and comes out the same.
func (b repeater) done(what, first string, changed bool, call func(b broker.Broker) string) {
	c := madeCall{what, b.r.passed, call, func() string { return first }}
	b.r.check(&c, b.other)
	if changed {
		b.r.add(c)
	}
}

func (b repeater) Enqueue(ctx context.Context, c broker.Call, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	answers, err := b.Broker.Enqueue(ctx, c, queue, jobs)
	added := false
	for _, a := range answers {
		added = added || !a.Existing
	}
	b.done("enqueue", said(answers, err), added, func(b broker.Broker) string { return said(b.Enqueue(ctx, c, queue, jobs)) })
	return answers, err
}

// Claim makes a claim again that took something: another may have to look at more.
func (b repeater) Claim(ctx context.Context, c broker.Call, r broker.ClaimRequest) (broker.Claimed, error) {
	got, err := b.Broker.Claim(ctx, c, r)
	if err != nil || len(got.Leases) == 0 {
		return got, err
	}
	again := madeCall{"claim", b.r.passed, func(o broker.Broker) string {
		got, err := o.Claim(ctx, c, r)
		return said(leaseText(got.Leases), err)
	}, func() string { return said(leaseText(b.r.held(got.Leases)), nil) }}
	b.r.check(&again, b.other)
	b.r.add(again)
	return got, err
}

// held returns the leases that are still valid.
func (r *repeats) held(leases []broker.Lease) (valid []broker.Lease) {
	for _, l := range leases {
		if j := r.p.f.get(l.Job.Ref()); j.State == broker.Leased && j.Token == l.Token {
			valid = append(valid, l)
		}
	}
	return valid
}

func (b repeater) Settle(ctx context.Context, c broker.Call, list []broker.Settlement) ([]broker.Settled, error) {
	answers, err := b.Broker.Settle(ctx, c, list)
	ended := false
	for i, a := range answers[:min(len(answers), len(list))] {
		l := lease{list[i].Ref, list[i].Token}
		ended = ended || a.Err == nil && !b.r.ended[l]
		b.r.ended[l] = b.r.ended[l] || a.Err == nil
	}
	b.done("settle", said(answers, err), ended, func(b broker.Broker) string { return said(b.Settle(ctx, c, list)) })
	return answers, err
}

// Apply makes a step again that changed something: the cursor of another is for
// the client that gave it.
func (b repeater) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (broker.Step, error) {
	step, err := b.Broker.Apply(ctx, c, cmd)
	if step.Changed > 0 {
		b.done("command", said(step, err), true, func(b broker.Broker) string { return said(b.Apply(ctx, c, cmd)) })
	}
	return step, err
}

func (b repeater) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	err := b.Broker.Configure(ctx, c, queue, change)
	b.done("configure", said(nil, err), false, func(b broker.Broker) string { return said(nil, b.Configure(ctx, c, queue, change)) })
	return err
}

func (b repeater) Tick(ctx context.Context, c broker.Call, t broker.Tick) (won bool, now time.Time, err error) {
	won, now, err = b.Broker.Tick(ctx, c, t)
	b.done("tick", said(won, err), won, func(b broker.Broker) string {
		won, _, err := b.Tick(ctx, c, t)
		return said(won, err)
	})
	return won, now, err
}

// said is an answer in words, of an error only which it is.
func said(answer any, err error) string {
	for _, e := range contractErrors {
		if errors.Is(err, e) {
			err = e
		}
	}
	return fmt.Sprint(answer, err)
}
