package redisbroker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// settings are what a queue keeps of its settings, as one JSON text: they are
// few, change seldom, and are read by people. A change reads them, decides here,
// and writes them back if they are still the same.
type settings struct {
	Revision uint64           `json:"revision"` // of the last setting that was set
	Layers   []layers         `json:"settings,omitempty"`
	Starts   map[string]start `json:"starts,omitempty"` // the last of each owner that declared

	seen    uint64            // how often they were changed
	now     time.Time         // when they were read, on the broker's clock
	cursors map[string]cursor // of the schedules
}

// layers are the settings of one kind and name: the operator's is in force while
// there is one.
type layers struct {
	Declared *broker.Setting `json:"declared,omitempty"`
	Operator *broker.Setting `json:"operator,omitempty"`
}

// start is that of a program that declared.
type start struct {
	ID broker.ID `json:"id"`
	At time.Time `json:"at"`
}

// cursor is where a schedule is.
type cursor struct {
	paused bool
	due    time.Time
}

func (l *layers) inForce() *broker.Setting {
	if l.Operator != nil {
		return l.Operator
	}
	return l.Declared
}

func (l *layers) name() broker.SettingName {
	t := l.inForce()
	return broker.SettingName{Kind: t.Kind, Name: t.Name}
}

// find returns the layers of a name, nil for none.
func (s *settings) find(n broker.SettingName) *layers {
	for i := range s.Layers {
		if s.Layers[i].name() == n {
			return &s.Layers[i]
		}
	}
	return nil
}

// readSettings reads the settings of a queue; nil when there is no such queue.
func (b *Broker) readSettings(ctx context.Context, queue string) (*settings, error) {
	u, err := b.call(ctx, b.s.settings, queue, newPacker(broker.ID{}))
	if errors.Is(err, errNoQueue) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	s := &settings{now: u.time(), seen: u.uint(6), cursors: map[string]cursor{}}
	if text := u.text(); len(text) > 0 {
		if err := json.Unmarshal(text, s); err != nil {
			return nil, fmt.Errorf("redis: settings of queue %s: %w", queue, err)
		}
	}
	for range u.count() {
		name := u.str()
		c := cursor{paused: u.u8() == 1}
		if ns := int64(u.uint(8)); ns != 0 {
			c.due = time.Unix(0, ns).UTC()
		}
		s.cursors[name] = c
	}
	return s, u.err
}

// Settings implements broker.Inspector.
func (b *Broker) Settings(ctx context.Context, queue string) (all []broker.QueueSetting, err error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	queues, err := b.only(ctx, queue)
	if err != nil || queue != "" && broker.ValidName(queue) != nil {
		return nil, err
	}
	for _, q := range queues {
		s, err := b.readFirst(ctx, q)
		if err != nil {
			return nil, err
		}
		if s == nil {
			continue
		}
		slices.SortFunc(s.Layers, func(a, b layers) int { return compareNames(a.name(), b.name()) })
		for i := range s.Layers {
			l := &s.Layers[i]
			v := *l.inForce()
			if l.Operator != nil {
				v.Declared = l.Declared
			}
			if v.Schedule != nil {
				c := s.cursors[v.Name]
				v.Schedule.Paused, v.Schedule.Due = c.paused, c.due
			}
			all = append(all, broker.QueueSetting{Queue: q, Setting: v})
		}
	}
	return all, nil
}

func compareNames(a, b broker.SettingName) int {
	return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name))
}

// Configure implements broker.Broker.
func (b *Broker) Configure(ctx context.Context, c broker.Call, queue string, change broker.Change) error {
	asked := time.Now()
	if err := jobstate.CheckChange(queue, &change); err != nil {
		return err
	}
	if err := b.alive(ctx); err != nil {
		return err
	}
	for try := 0; ; try++ {
		parts := b.spread.now()[queue]
		var err error
		if parts == nil {
			err = b.configure(ctx, c, queue, asked, &change)
		} else {
			err = b.configureParts(ctx, c, parts, asked, &change)
		}
		if !moved(err) || try == mostMoves {
			return err
		}
	}
}

// configure is Configure for one queue, or part.
func (b *Broker) configure(ctx context.Context, c broker.Call, queue string, asked time.Time, change *broker.Change) error {
	if err := b.ensure(ctx, queue); err != nil {
		return err
	}
	for try := 0; ; try++ {
		s, err := b.readSettings(ctx, queue)
		if err != nil {
			return err
		}
		if s == nil {
			return errNoQueue
		}
		ch := *change
		if waited := b.since(asked); waited > 100*time.Millisecond {
			ch.Age += waited // the weather was bad
		}
		p, refused := s.change(c.ID, queueOf(queue), &ch)
		if refused != nil {
			// A repeat of what took place may be refused now: the script knows it.
			p = s.nothing(c.ID)
		}
		_, err = b.call(ctx, b.s.configure, queue, p)
		if errors.Is(err, broker.ErrConflict) && refused != nil {
			return refused
		}
		if !errors.Is(err, broker.ErrConflict) || try == 20 {
			return err
		}
	}
}

// nothing is a call that changes nothing unless it was made before.
func (s *settings) nothing(id broker.ID) packer {
	const never = 1<<48 - 1 // no queue is at that revision
	return newPacker(id).u48(never).u48(never).text(nil).text(nil).str("").f64(0)
}

// change decides what becomes of the settings and packs it.
func (s *settings) change(id broker.ID, queue string, c *broker.Change) (packer, error) {
	for i := range c.Set {
		t := &c.Set[i]
		is := uint64(0)
		if l := s.find(broker.SettingName{Kind: t.Kind, Name: t.Name}); l != nil {
			is = l.inForce().Revision
		}
		if t.Revision != 0 && t.Revision != is {
			return nil, fmt.Errorf("%w: %s %q is at revision %d, not %d", broker.ErrConflict, t.Kind, t.Name, is, t.Revision)
		}
	}
	began := s.now.Add(-c.Age)
	if last, known := s.Starts[c.Owner]; c.Declare && known && began.Before(last.At) && (c.Start.IsZero() || c.Start != last.ID) {
		return nil, fmt.Errorf("%w: a later start of %s has declared the settings of queue %s", broker.ErrConflict, c.Owner, queue)
	}
	next := settings{Revision: s.Revision, Layers: slices.Clone(s.Layers), Starts: maps.Clone(s.Starts)}
	told := next.edit(c)
	if err := jobstate.CheckLimits(next.inForce()); err != nil {
		return nil, err
	}
	for _, name := range slices.Concat(c.Pause, c.Resume) {
		if next.find(broker.SettingName{Kind: broker.ScheduleSetting, Name: name}) == nil {
			return nil, fmt.Errorf("%w: queue %s has no schedule %.64q", broker.ErrConflict, queue, name)
		}
	}
	if c.Declare {
		next.began(c.Owner, start{c.Start, began}, s.now)
	}
	return next.pack(newPacker(id), s, c, told)
}

// began records the start of an owner. Those that left nothing and are long past
// are forgotten.
func (s *settings) began(owner string, st start, now time.Time) {
	owners := map[string]bool{owner: true}
	for _, l := range s.Layers {
		if l.Declared != nil {
			owners[l.Declared.Owner] = true
		}
	}
	if s.Starts == nil {
		s.Starts = map[string]start{}
	}
	s.Starts[owner] = st
	maps.DeleteFunc(s.Starts, func(o string, st start) bool { return !owners[o] && now.Sub(st.At) > broker.StartKept })
}

// edit makes a change, and names what it changed.
func (s *settings) edit(c *broker.Change) (told []broker.SettingName) {
	put := func(name broker.SettingName, declared bool, t *broker.Setting) {
		l := s.find(name)
		if l == nil {
			if t == nil {
				return
			}
			s.Layers = append(s.Layers, layers{})
			l = &s.Layers[len(s.Layers)-1]
		}
		at := &l.Operator
		if declared {
			at = &l.Declared
		}
		if jobstate.SameSetting(*at, t) {
			return
		}
		if t != nil {
			s.Revision++
			t.Revision = s.Revision
		}
		*at = t
		told = append(told, name)
		s.Layers = slices.DeleteFunc(s.Layers, func(l layers) bool { return l.inForce() == nil })
	}
	for i := range c.Set {
		t := jobstate.KeptSetting(c, i)
		put(broker.SettingName{Kind: t.Kind, Name: t.Name}, c.Declare, t)
	}
	if c.Declare {
		for _, l := range slices.Clone(s.Layers) {
			name := l.name()
			if l.Declared != nil && l.Declared.Owner == c.Owner && !slices.ContainsFunc(c.Set, func(t broker.Setting) bool { return t.Kind == name.Kind && t.Name == name.Name }) {
				put(name, true, nil)
			}
		}
	}
	for _, name := range c.Clear {
		put(name, false, nil)
	}
	for _, name := range c.Undeclare {
		if l := s.find(name); l != nil && l.Declared != nil && l.Declared.Owner == c.Owner {
			put(name, true, nil)
		}
	}
	return told
}

// inForce lists the settings that are.
func (s *settings) inForce() iter.Seq[*broker.Setting] {
	return func(yield func(*broker.Setting) bool) {
		for i := range s.Layers {
			if !yield(s.Layers[i].inForce()) {
				return
			}
		}
	}
}
