package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// What lua/explain.lua says.
const (
	sayFinal = 1 + iota
	sayRuns
	saySoon
	sayStopped
	sayNobody
	sayLimit
	sayRate
	sayMembers
	sayBehind
	sayNothing
	sayNotFound
	sayMoving
)

// Explain implements broker.Inspector.
func (b *Broker) Explain(ctx context.Context, r broker.Ref) (x broker.Explanation, err error) {
	if err := b.alive(ctx); err != nil {
		return x, err
	}
	for try := 0; ; try++ {
		x, err := b.explain(ctx, b.spread.now().place(r))
		if !moved(err) || try == mostMoves {
			return x, err
		}
	}
}

// explain is Explain where the job is.
func (b *Broker) explain(ctx context.Context, r broker.Ref) (x broker.Explanation, err error) {
	notFound := fmt.Errorf("explain %s: %w", r.ID, broker.ErrNotFound)
	if !validPlace(r.Queue) {
		return x, notFound
	}
	place := r.Queue
	r.Queue = queueOf(place)
	u, err := b.call(ctx, b.s.explain, place, newPacker(broker.ID{}).id(r.ID))
	if errors.Is(err, errNoQueue) {
		return x, notFound
	} else if err != nil {
		return x, err
	}
	saying, n, us, name := u.u8(), u.uint(8), u.uint(8), string(u.text())
	for range u.count() {
		x.Holders = append(x.Holders, broker.Ref{Queue: r.Queue, ID: u.id()})
	}
	at := instant(us)
	switch saying {
	case sayNotFound:
		return x, notFound
	case sayFinal:
		x.Reason, x.Text = broker.WhyFinal, ending(broker.State(n>>5), reasons[n&31])
	case sayRuns:
		x.Reason, x.Worker, x.Until = broker.WhyLeased, name, at
		x.Text = fmt.Sprintf("worker %s runs it under a lease until %s", name, at.Format(time.RFC3339))
	case saySoon:
		x.Reason, x.Until, x.After = broker.WhyScheduled, at, time.Duration(n)*time.Microsecond
		x.Text = "it is scheduled for " + at.Format(time.RFC3339)
	case sayStopped:
		x.Reason, x.Text = broker.WhyPaused, "its queue is paused"
	case sayMoving:
		x.Reason, x.Text = broker.WhyMoving, "its queue "+said(broker.MoveState(n), name)
	case sayNobody:
		x.Reason, x.Text = broker.WhyNoWorker, fmt.Sprintf("no live worker listens to queue %s and handles task %s", r.Queue, name)
	case sayLimit:
		x.Reason, x.Limit = broker.WhyLimit, name
		if x.Text = fmt.Sprintf("limit %s is held by %d running jobs", name, n); name == "" && len(x.Holders) > 0 {
			x.Text = fmt.Sprintf("its ordered group is held by job %s", x.Holders[0].ID)
		}
	case sayRate:
		x.Reason, x.Limit, x.Until = broker.WhyRate, name, at
		x.Text = fmt.Sprintf("rate %s lets the next job start at %s", name, at.Format("2006-01-02T15:04:05.000Z07:00"))
	case sayMembers:
		x.Reason, x.Text = broker.WhyBatch, fmt.Sprintf("%d of the %d jobs of its batch are not final yet", n, us)
	case sayBehind:
		x.Reason, x.Behind, x.Text = broker.WhyBehind, int(n), fmt.Sprintf("%d ready jobs of its queue go first", n)
	case sayNothing:
		x.Reason, x.Text = broker.WhyNone, "nothing holds it back: the next free worker takes it"
	default:
		return x, errPacked
	}
	return x, u.err
}

// ending says how a final job ended.
func ending(s broker.State, reason string) string {
	why := map[string]string{
		broker.ReasonAttempts: "its last allowed attempt failed", broker.ReasonCrashed: "its last allowed attempt ended with its worker",
		broker.ReasonBuried: "its handler buried it", broker.ReasonDropped: "it was dropped to make room for a newer one",
		broker.ReasonNotStarted: "it was not started in time",
	}[reason]
	if why == "" {
		return fmt.Sprintf("it is %s", s)
	}
	return fmt.Sprintf("it is %s: %s", s, why)
}
