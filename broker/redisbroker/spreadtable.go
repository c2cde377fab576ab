package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/spoolq/spool/broker"
)

// spreads is what this client knows of queues that are spread: their parts. It may
// be old, or know nothing yet: the mark where such a queue would be (see
// lua/spread.lua) tells whoever takes it for one that is not spread, and who looks
// for a part of another number finds nothing there and asks the mark. nil: it knows
// of none, and costs nothing.
type spreads map[string][]string

// table holds what is known. It is replaced, never changed.
type table struct{ atomic.Pointer[spreads] }

// now is what is known now.
func (t *table) now() spreads {
	if s := t.Load(); s != nil {
		return *s
	}
	return nil
}

// note notes in how many parts a queue is; 0: it is not spread.
func (t *table) note(queue string, n int) {
	for {
		old := t.Load()
		var is spreads
		if old != nil {
			is = *old
		}
		if len(is[queue]) == n {
			return
		}
		next := maps.Clone(is)
		if next == nil {
			next = spreads{}
		}
		if delete(next, queue); n > 0 {
			next[queue] = partNames(queue, n)
		}
		if t.CompareAndSwap(old, &next) {
			return
		}
	}
}

// movedError says that a queue is in other parts than was thought; it is known in
// which by now.
type movedError struct {
	queue string
	n     int
}

// Error says it for calls that a queue which is spread does not take: others are
// made again.
func (e *movedError) Error() string {
	if e.n == 0 {
		return fmt.Sprintf("redis: queue %s was spread over parts until now: try again", e.queue)
	}
	return fmt.Sprintf("%v: queue %s is spread over %d parts: this takes one that is not (spool spread clear makes it so, once it has no jobs)", broker.ErrUnsupported, e.queue, e.n)
}

// Unwrap makes it an ErrUnsupported.
func (e *movedError) Unwrap() error { return broker.ErrUnsupported }

// moved reports whether a call met a queue in other parts than it looked in.
func moved(err error) bool {
	_, is := errors.AsType[*movedError](err)
	return is
}

// mostMoves is how often a call follows a queue that is spread and gathered
// meanwhile.
const mostMoves = 10

// absent is why a part is not there: errNoQueue when it has had no job yet, a
// movedError when the queue is in other parts by now.
func (b *Broker) absent(ctx context.Context, part string) error {
	queue, n, _ := partOf(part)
	is, err := b.mark(ctx, queue)
	if err != nil {
		return err
	}
	if is.n == n {
		return errNoQueue
	}
	return b.elsewhere(queue, is.n)
}

// elsewhere notes where a queue is.
func (b *Broker) elsewhere(queue string, n int) error {
	b.spread.note(queue, n)
	return &movedError{queue, n}
}

// place is where a job is.
func (s spreads) place(r broker.Ref) broker.Ref {
	if isPart(r.Queue) {
		r.Queue = "" // no queue has that name
	}
	if parts := s[r.Queue]; parts != nil {
		r.Queue = parts[partOfID(r.ID, len(parts))]
	}
	return r
}

// refs is where jobs are.
func (s spreads) refs(list []broker.Ref) []broker.Ref {
	if len(s) == 0 && !slices.ContainsFunc(list, func(r broker.Ref) bool { return isPart(r.Queue) }) {
		return list
	}
	at := make([]broker.Ref, len(list))
	for i, r := range list {
		at[i] = s.place(r)
	}
	return at
}

// extensions is where leases are.
func (s spreads) extensions(list []broker.Extension) []broker.Extension {
	if len(s) == 0 && !slices.ContainsFunc(list, func(x broker.Extension) bool { return isPart(x.Ref.Queue) }) {
		return list
	}
	at := make([]broker.Extension, len(list))
	for i := range list {
		at[i] = list[i]
		at[i].Ref = s.place(list[i].Ref)
	}
	return at
}

// all lists the parts of a queue, or the queue that is not spread.
func (s spreads) all(queue string) []string {
	if parts := s[queue]; parts != nil {
		return parts
	}
	return []string{queue}
}

// named gives jobs the names of their queues again.
func named(jobs []broker.Job) []broker.Job {
	for i := range jobs {
		jobs[i].Queue = queueOf(jobs[i].Queue)
	}
	return jobs
}

// queuesAmong returns the queues of what the registry names: queues, and parts of
// some.
func queuesAmong(places []string) []string {
	plain := true
	for _, q := range places {
		plain = plain && !isPart(q)
	}
	if plain {
		return places
	}
	queues := make([]string, 0, len(places))
	seen := map[string]bool{}
	for _, p := range places {
		if q := queueOf(p); !seen[q] {
			seen[q] = true
			queues = append(queues, q)
		}
	}
	return queues
}
