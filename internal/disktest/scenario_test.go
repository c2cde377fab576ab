//go:build linux && (amd64 || arm64)

package disktest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// mending is how long everything may take to work again after a fault that has
// passed, and how long a call may take in any case.
const mending = 5 * time.Second

// actor makes calls on a client of the store, and tells of each before and after.
type actor struct {
	name string
	b    *filebroker.Broker
}

// runScenario uses a store in every way in which its files are written: it is made,
// the log is begun, rolled, compacted twice, read by another client, left, and
// opened again. It goes on after each error.
func runScenario(p plan) error {
	if err := hand(); err != nil {
		return err
	}
	peer, a := &actor{name: "peer"}, &actor{name: "a"}
	peer.open(p)
	defer peer.close()
	peer.enqueue("held", 10, 1)
	held := peer.claim("held", time.Hour)
	a.open(p)
	defer a.close()
	a.enqueue("q", 100, 3)
	a.work("q")
	a.enqueue("q", 1_200_000, 1) // gets a segment of its own
	peer.enqueue("q", 100, 2)
	a.work("q")
	a.compact()
	a.enqueue("q", 500, 2)
	peer.work("q") // in the new generation
	peer.compact()
	peer.ack(held)
	a.work("q")
	a.close()
	a.open(p)
	a.enqueue("q", 100, 2)
	a.work("q")
	if p.Mends {
		a.mend(p, peer)
	}
	return nil
}

// did tells of a call, which it makes.
func (a *actor) did(e event, call func(*event) error) bool {
	e.By, e.Begun = a.name, true
	tell(e)
	e.Begun = false
	begun := time.Now()
	e.said(call(&e))
	e.Took = time.Since(begun)
	tell(e)
	return e.Err == ""
}

func (a *actor) open(p plan) {
	a.did(event{Call: "open"}, func(*event) (err error) {
		a.b, err = open(p)
		return err
	})
	if a.b == nil { // once more: what failed may have passed
		a.did(event{Call: "open again"}, func(*event) (err error) {
			a.b, err = open(p)
			return err
		})
	}
}

func (a *actor) close() {
	if a.b != nil {
		a.did(event{Call: "close"}, func(*event) error { return a.b.Close() })
		a.b = nil
	}
}

// payload is what the job with that id has.
func payload(id broker.ID, size int) []byte { return bytes.Repeat(id[:], size/len(id)+1) }

func (a *actor) enqueue(queue string, size, n int) bool {
	if a.b == nil {
		return false
	}
	jobs, ids := make([]broker.NewJob, n), make([]broker.ID, n)
	for i := range jobs {
		j := &jobs[i]
		j.MakeID()
		ids[i] = j.ID
		j.Task, j.Payload, j.Retain, j.MaxAttempts = "t", payload(j.ID, size), time.Hour, 1000
	}
	return a.did(event{Call: "enqueue", Queue: queue, IDs: ids, Number: size}, func(*event) error {
		got, err := a.b.Enqueue(context.Background(), broker.NewCall(), queue, jobs)
		for _, e := range got {
			if e.Existing {
				err = errors.Join(err, fmt.Errorf("job %v, which is new, was there", e.ID))
			}
		}
		return err
	})
}

// claim takes up to two jobs.
func (a *actor) claim(queue string, ttl time.Duration) (leases []broker.Lease) {
	if a.b == nil {
		return nil
	}
	a.did(event{Call: "claim", Queue: queue}, func(e *event) error {
		got, err := a.b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: 2, TTL: ttl, Worker: a.name})
		for _, l := range got.Leases {
			e.IDs, e.Tokens = append(e.IDs, l.Job.ID), append(e.Tokens, l.Token)
			leases = append(leases, l)
		}
		return err
	})
	return leases
}

// ack ends each lease by itself, with a job that follows.
func (a *actor) ack(leases []broker.Lease) (all bool) {
	all = true
	for _, l := range leases {
		var next broker.NewJob
		next.MakeID()
		next.Task, next.Payload, next.Retain = "follow", payload(next.ID, 10), time.Hour
		all = a.settle("ack", l, next.ID, broker.Settlement{
			Kind: broker.Ack, Result: l.Job.ID[:], FollowUps: []broker.FollowUp{{Queue: "after", Job: next}},
		}) && all
	}
	return all
}

func (a *actor) settle(name string, l broker.Lease, next broker.ID, s broker.Settlement) bool {
	s.Ref, s.Token = l.Job.Ref(), l.Token
	e := event{Call: name, Queue: l.Job.Queue, IDs: []broker.ID{l.Job.ID}, Tokens: []broker.Token{l.Token}, Follow: next}
	return a.did(e, func(*event) error {
		got, err := a.b.Settle(context.Background(), broker.NewCall(), []broker.Settlement{s})
		if err == nil {
			err = got[0].Err
		}
		return err
	})
}

// work claims two jobs, gives one up, and acks what is there.
func (a *actor) work(queue string) bool {
	if a.b == nil {
		return false
	}
	leases := a.claim(queue, time.Hour)
	if len(leases) > 1 {
		a.settle("nack", leases[0], broker.ID{}, broker.Settlement{Kind: broker.Nack, Error: "later"})
		leases = leases[1:]
	}
	return a.ack(leases) && len(leases) > 0
}

func (a *actor) compact() {
	if a.b == nil {
		return
	}
	a.did(event{Call: "maintain"}, func(*event) error {
		_, err := a.b.Maintain(context.Background())
		return err
	})
	a.did(event{Call: "compact"}, func(*event) error {
		_, err := a.b.Compact(context.Background())
		return err
	})
}

// mend wants that both clients work again, soon: what was wrong has passed.
func (a *actor) mend(p plan, peer *actor) {
	both, begun := []*actor{a, peer}, time.Now()
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for _, x := range both {
		x.did(event{Call: "mend"}, func(*event) error {
			for !x.enqueue("mended", 10, 1) || !x.work("mended") {
				if time.Since(begun) > mending {
					return errors.New("it does not work again")
				}
				for _, y := range both { // each has to notice that the store is poisoned, and to leave
					y.look(p)
				}
				<-again.C
			}
			return nil
		})
	}
}

// look opens the store if it is not open, and asks how it is.
func (a *actor) look(p plan) {
	if a.b == nil {
		a.open(p)
		return
	}
	a.did(event{Call: "look"}, func(*event) error {
		_, err := a.b.Health(context.Background())
		return err
	})
}
