package spool

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// declaration is what a worker's code says of the store's settings, by queue.
type declaration map[string][]broker.Setting

// add adds settings, or only their queue when there are none.
func (d declaration) add(queue string, settings ...broker.Setting) {
	if _, known := d[queue]; !known {
		d[queue] = nil
	}
	for _, s := range settings {
		d.set(queue, s)
	}
}

// set adds a setting; limits of one name become one, for the tasks of both.
func (d declaration) set(queue string, s broker.Setting) {
	for i := range d[queue] {
		o := &d[queue][i]
		if o.Kind != s.Kind || o.Name != s.Name {
			continue
		}
		if s.Limit != nil && o.Limit != nil {
			rule := *s.Limit
			rule.Tasks = slices.Compact(slices.Sorted(slices.Values(slices.Concat(o.Limit.Tasks, rule.Tasks))))
			s.Limit = &rule
		}
		*o = s
		return
	}
	d[queue] = append(d[queue], s)
}

// declaration returns what w declares.
func (w *Worker) declaration(handlers map[string]*taskHandler) declaration {
	d := declaration{}
	for _, name := range slices.Sorted(maps.Keys(handlers)) {
		h := handlers[name]
		if name != "" {
			d.add(h.queue) // also to say that there is nothing any more
		}
		for i := range h.limits {
			d.add(h.queue, h.limits[i].setting(h.task))
		}
	}
	for i := range w.cfg.Queues {
		if own := w.cfg.Queues[i].settings(); len(own) > 0 {
			d.add(w.cfg.Queues[i].Name, own...)
		}
	}
	for _, s := range w.schedules {
		d.add(s.Queue, s.Setting)
	}
	return d
}

// checkBuckets refuses a handler whose limits share a bucket with those of
// another and say something else.
func (w *Worker) checkBuckets(added *taskHandler) error {
	for i := range added.limits {
		l := &added.limits[i]
		for _, h := range w.handlers {
			for j := range h.limits {
				o := &h.limits[j]
				switch {
				case o.bucket != l.bucket:
				case !reflect.DeepEqual(o.Limit, l.Limit):
					return fmt.Errorf("its limit %s is another one than that of task %s", l.bucket, h.task)
				case h.queue != added.queue:
					return fmt.Errorf("its limit %s is shared with task %s, but a limit belongs to one queue: they are in %s and %s", l.bucket, h.task, added.queue, h.queue)
				}
			}
		}
	}
	return nil
}

// scheduleSettings checks the configured schedules.
func (cfg *WorkerConfig) scheduleSettings(c *Client) (all []broker.QueueSetting, err error) {
	for i := range cfg.Schedules {
		queue, set, err := cfg.Schedules[i].setting(c)
		if err != nil {
			return nil, fmt.Errorf("field Schedules[%d]: %w", i, err)
		}
		for j, o := range all {
			if o.Queue == queue && o.Name == set.Name {
				return nil, fmt.Errorf("field Schedules[%d]: schedule %q: Name: Schedules[%d] has it in queue %s, too", i, set.Name, j, queue)
			}
		}
		all = append(all, broker.QueueSetting{Queue: queue, Setting: set})
	}
	return all, nil
}

// declarations are what the running workers of a client declare. An owner's set
// is declared whole, so workers of one name declare what all of them say.
type declarations struct {
	turn chan struct{} // its token is held by who declares
	mu   sync.Mutex
	of   map[*run]declaration
}

func newDeclarations() *declarations {
	return &declarations{turn: make(chan struct{}, 1), of: map[*run]declaration{}}
}

// set says what a run declares; nil forgets it (in the store it stays until
// another start).
func (d *declarations) set(r *run, own declaration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of[r] = own; own == nil {
		delete(d.of, r)
	}
}

// named joins what the runs of r's name declare; r's own decides. It is declared
// as that of the last of them that was started.
func (d *declarations) named(r *run) (all declaration, last *run) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all, last = declaration{}, r
	for o, set := range d.of {
		if o != r && o.cfg.Name == r.cfg.Name {
			all.addAll(set)
			if o.started.After(last.started) {
				last = o
			}
		}
	}
	all.addAll(d.of[r])
	return all, last
}

// declare replaces in the store what the worker's name had declared by what is
// declared now, queue by queue. A queue for which the name has nothing to say
// any more is told so; one for which a later start of the name has declared, in
// whichever process, is left to that.
func (r *run) declare(ctx context.Context, own declaration) error {
	all := r.client.declared
	all.set(r, own)
	select {
	case all.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-all.turn }()
	set, last := all.named(r)
	settings, err := r.client.Settings(ctx, "")
	if err != nil {
		return fmt.Errorf("read settings: %w", err)
	}
	for _, s := range settings {
		if s.Owner == r.cfg.Name || s.Declared != nil && s.Declared.Owner == r.cfg.Name {
			set.add(s.Queue)
		}
		r.warnOfTakeover(set[s.Queue], &s)
	}
	for _, queue := range slices.Sorted(maps.Keys(set)) {
		change := broker.Change{Declare: true, Owner: r.cfg.Name, Set: set[queue], Start: last.id, Age: time.Since(last.started)}
		err := r.client.Configure(ctx, queue, change)
		if errors.Is(err, ErrConflict) {
			r.log.Info("a later start of this worker's name has declared the settings of the queue: they stay", "worker", r.cfg.Name, "queue", queue)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// warnOfTakeover says which other program is about to lose its setting old to one
// of the same name that is declared now.
func (r *run) warnOfTakeover(set []broker.Setting, old *broker.QueueSetting) {
	owner := old.Owner
	if old.Declared != nil {
		owner = old.Declared.Owner
	}
	if owner == "" || owner == r.cfg.Name {
		return
	}
	for _, s := range set {
		if s.Kind == old.Kind && s.Name == old.Name {
			r.log.Warn("a setting that another program declared is taken over: the last start decides, so give one of the two another name",
				"setting", string(s.Kind)+" "+s.Name, "queue", old.Queue, "worker", r.cfg.Name, "of", owner)
		}
	}
}

func (d declaration) addAll(o declaration) {
	for queue, set := range o {
		d.add(queue, set...)
	}
}
