// Package notify wakes what waits inside one process for a change of the
// state: idle claims, awaited jobs, watchers. Every wake-up is a hint: who is
// woken looks again. The brokers feed it with the changes of their State.
package notify

import (
	"context"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// Hub holds everything that waits. Its methods, and those of what it hands
// out, are called with the broker's mutex held, but for Claim.Wait; the channels
// are not guarded.
type Hub struct {
	idle     []*Claim
	awaits   map[broker.Ref][]chan<- struct{}
	watchers map[*Watcher]struct{} // of jobs
	settings map[*Watcher]struct{} // of settings
}

// Claim is an idle claim.
type Claim struct {
	woken  chan struct{} // gets one value when there may be something to take
	queues []string
	tasks  []string
	hint   jobstate.Change // what it was woken for
	idle   bool
}

// Wait waits until the claim is woken, over has a value, ctx ends or closed is
// closed. It is called without the broker's mutex.
func (c *Claim) Wait(ctx context.Context, closed <-chan struct{}, over <-chan time.Time) {
	select {
	case <-c.woken:
	case <-over:
	case <-ctx.Done():
	case <-closed:
	}
}

// Changed passes a change on to those whom it concerns, and says whether an
// idle claim was woken for it.
func (h *Hub) Changed(c jobstate.Change) (woken bool) {
	if c.Setting != nil {
		for w := range h.settings {
			w.offer(c)
		}
		return false
	}
	if len(h.idle) > 0 {
		switch {
		case c.Hint:
			woken = h.wakeOne(c)
		case c.ID.IsZero():
			h.WakeQueue(c.Queue)
		case c.State == broker.Ready || c.State == broker.Scheduled:
			woken = h.wakeOne(c)
		}
	}
	if c.State.Final() && len(h.awaits) > 0 {
		ref := broker.Ref{Queue: c.Queue, ID: c.ID}
		for _, ch := range h.awaits[ref] {
			poke(ch)
		}
	}
	for w := range h.watchers {
		w.offer(c)
	}
	return woken
}

func poke(ch chan<- struct{}) {
	select {
	case ch <- struct{}{}:
	default:
	}
}

// Idle registers a claim that found too little.
func (h *Hub) Idle(queues, tasks []string) *Claim {
	c := &Claim{woken: make(chan struct{}, 1), queues: queues, tasks: tasks, idle: true}
	h.idle = append(h.idle, c)
	return c
}

// Done ends a registration. A wake-up that it did not use goes to another.
func (h *Hub) Done(c *Claim) {
	if c.idle {
		h.idle = slices.DeleteFunc(h.idle, func(o *Claim) bool { return o == c })
		c.idle = false
	}
	select {
	case <-c.woken:
		if c.hint.Queue != "" {
			h.wakeOne(c.hint)
		}
	default:
	}
}

// Idles returns the number of idle claims.
func (h *Hub) Idles() int { return len(h.idle) }

// wakeOne wakes one idle claim that wants the hint's queue and task.
func (h *Hub) wakeOne(hint jobstate.Change) bool {
	for i, c := range h.idle {
		if c.wants(hint.Queue, hint.Task) {
			h.idle = slices.Delete(h.idle, i, i+1)
			c.idle, c.hint = false, hint
			poke(c.woken)
			return true
		}
	}
	return false
}

// WakeQueue wakes all idle claims that listen to a queue.
func (h *Hub) WakeQueue(queue string) {
	h.idle = slices.DeleteFunc(h.idle, func(c *Claim) bool {
		if c.queues != nil && !slices.Contains(c.queues, queue) {
			return false
		}
		c.idle, c.hint = false, jobstate.Change{}
		poke(c.woken)
		return true
	})
}

// WakeAll wakes every idle claim.
func (h *Hub) WakeAll() {
	for _, c := range h.idle {
		c.idle, c.hint = false, jobstate.Change{}
		poke(c.woken)
	}
	h.idle = nil
}

func (c *Claim) wants(queue, task string) bool {
	return (c.queues == nil || slices.Contains(c.queues, queue)) && (c.tasks == nil || slices.Contains(c.tasks, task))
}

// Await registers a channel to be poked when one of the jobs becomes final.
// The function returned ends that.
func (h *Hub) Await(refs []broker.Ref, ch chan<- struct{}) (stop func()) {
	if h.awaits == nil {
		h.awaits = map[broker.Ref][]chan<- struct{}{}
	}
	for _, r := range refs {
		h.awaits[r] = append(h.awaits[r], ch)
	}
	return func() {
		for _, r := range refs {
			left := slices.DeleteFunc(h.awaits[r], func(o chan<- struct{}) bool { return o == ch })
			if len(left) == 0 {
				delete(h.awaits, r)
			} else {
				h.awaits[r] = left
			}
		}
	}
}

// Awaiting reports whether anyone in this process waits for a job to end.
func (h *Hub) Awaiting() bool { return len(h.awaits) > 0 || len(h.watchers) > 0 }

// Governed reports whether anyone in this process watches settings.
func (h *Hub) Governed() bool { return len(h.settings) > 0 }

// Watcher passes events to a reader, and drops what that is too slow for.
type Watcher struct {
	c chan broker.Event
	f broker.Filter
}

// Watch registers a watcher for what f chooses.
func (h *Hub) Watch(f broker.Filter) (*Watcher, <-chan broker.Event) {
	all := &h.watchers
	if f.Settings {
		all = &h.settings
	}
	if *all == nil {
		*all = map[*Watcher]struct{}{}
	}
	w := &Watcher{c: make(chan broker.Event, 1024), f: f}
	(*all)[w] = struct{}{}
	return w, w.c
}

// Unwatch ends a watcher and closes its channel.
func (h *Hub) Unwatch(w *Watcher) {
	all := h.watchers
	if w.f.Settings {
		all = h.settings
	}
	if _, ok := all[w]; ok {
		delete(all, w)
		close(w.c)
	}
}

// Close ends all watchers and wakes everyone.
func (h *Hub) Close() {
	for _, all := range []map[*Watcher]struct{}{h.watchers, h.settings} {
		for w := range all {
			h.Unwatch(w)
		}
	}
	h.WakeAll()
	for _, list := range h.awaits {
		for _, ch := range list {
			poke(ch)
		}
	}
}

func (w *Watcher) offer(c jobstate.Change) {
	f := &w.f
	if c.Setting != nil {
		if f.Queue == "" || f.Queue == c.Queue {
			w.send(broker.Event{Queue: c.Queue, Setting: c.Setting, At: time.Unix(0, c.At).UTC()})
		}
		return
	}
	if c.ID.IsZero() || f.Queue != "" && f.Queue != c.Queue || f.Task != "" && f.Task != c.Task ||
		f.Tenant != "" && f.Tenant != c.Tenant || f.Group != "" && f.Group != c.Group ||
		f.Reason != "" && f.Reason != c.Reason ||
		len(f.States) > 0 && !slices.Contains(f.States, c.State) || len(f.IDs) > 0 && !slices.Contains(f.IDs, c.ID) {
		return
	}
	w.send(broker.Event{Queue: c.Queue, ID: c.ID, Task: c.Task, State: c.State, Reason: c.Reason, Worker: c.Worker, At: time.Unix(0, c.At).UTC()})
}

func (w *Watcher) send(e broker.Event) {
	select {
	case w.c <- e:
	default:
	}
}
