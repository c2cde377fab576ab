package jobstate

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

type settingName struct {
	kind broker.SettingKind
	name string
}

// setting is a record of the store in its two layers. What an operator set
// wins over what code declared.
type setting struct {
	declared, operator *broker.Setting
	paused             bool // of a schedule: an operator stopped it
	// The cursor of a schedule: the next instant in nanoseconds since 1970; 0 is
	// not set yet, never when the expression has no more.
	due int64
}

const never = 1<<63 - 1

func (t *setting) inForce() *broker.Setting {
	if t.operator != nil {
		return t.operator
	}
	return t.declared
}

// layer says which of the two a record is about (part of the format).
type layer byte

const (
	declaredLayer layer = 1 + iota
	operatorLayer
)

func (t *setting) at(l layer) **broker.Setting {
	if l == declaredLayer {
		return &t.declared
	}
	return &t.operator
}

// Configure makes a change of a queue's settings. An error means that nothing
// was written.
func (s *State) Configure(w *Writer, queue string, c *broker.Change) error {
	if err := CheckChange(queue, c); err != nil {
		return err
	}
	q := s.queues[queue]
	if q == nil {
		q = newQueue(s, queue) // to look at; applying makes it
	}
	l := operatorLayer
	if c.Declare {
		l = declaredLayer
	}
	for i := range c.Set {
		t := &c.Set[i]
		if is := q.revisionOf(settingName{t.Kind, t.Name}); t.Revision != 0 && t.Revision != is {
			return fmt.Errorf("%w: %s %q is at revision %d, not %d", broker.ErrConflict, t.Kind, t.Name, is, t.Revision)
		}
	}
	began := w.base - int64(c.Age)
	if c.Declare {
		if last, known := q.starts[c.Owner]; known && began < last.at && (c.Start.IsZero() || c.Start != last.id) {
			return fmt.Errorf("%w: a later start of %s has declared the settings of queue %s", broker.ErrConflict, c.Owner, queue)
		}
	}
	edits := q.edits(l, c)
	after := q.edited(edits)
	if err := CheckLimits(inForce(after)); err != nil {
		return err
	}
	for _, name := range slices.Concat(c.Pause, c.Resume) {
		if _, there := after[settingName{broker.ScheduleSetting, name}]; !there {
			return fmt.Errorf("%w: queue %s has no schedule %.64q", broker.ErrConflict, queue, name)
		}
	}
	for _, e := range edits {
		s.edit(w, queue, e)
	}
	if c.Declare {
		s.begin(w, queue, c.Owner, start{c.Start, began})
	}
	for _, name := range c.Pause {
		s.stop(w, queue, name, true)
	}
	for _, name := range c.Resume {
		s.stop(w, queue, name, false)
	}
	return nil
}

// edits lists what a change does, leaving out what is so already.
func (q *queue) edits(l layer, c *broker.Change) (edits []edit) {
	for i := range c.Set {
		t := KeptSetting(c, i)
		name := settingName{t.Kind, t.Name}
		if old := q.settings[name]; old == nil || !SameSetting(*old.at(l), t) {
			edits = append(edits, edit{name, l, t})
		}
	}
	if c.Declare {
		for _, name := range q.settingNames() {
			d := q.settings[name].declared
			left := d != nil && d.Owner == c.Owner && !slices.ContainsFunc(c.Set, func(t broker.Setting) bool { return t.Kind == name.kind && t.Name == name.name })
			if left {
				edits = append(edits, edit{name: name, layer: declaredLayer})
			}
		}
	}
	for _, n := range c.Clear {
		name := settingName{n.Kind, n.Name}
		if old := q.settings[name]; old != nil && old.operator != nil {
			edits = append(edits, edit{name: name, layer: operatorLayer})
		}
	}
	for _, n := range c.Undeclare {
		name := settingName{n.Kind, n.Name}
		if old := q.settings[name]; old != nil && old.declared != nil && old.declared.Owner == c.Owner {
			edits = append(edits, edit{name: name, layer: declaredLayer})
		}
	}
	return edits
}

func (q *queue) settingNames() []settingName {
	return slices.SortedFunc(maps.Keys(q.settings), func(a, b settingName) int {
		return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.name, b.name))
	})
}

func (q *queue) revisionOf(name settingName) uint64 {
	if t := q.settings[name]; t != nil {
		return t.inForce().Revision
	}
	return 0
}

// inForce lists the settings that are.
func inForce(all map[settingName]setting) iter.Seq[*broker.Setting] {
	return func(yield func(*broker.Setting) bool) {
		for _, t := range all {
			if !yield(t.inForce()) {
				return
			}
		}
	}
}

// edited is what a queue's settings are once edits are made.
func (q *queue) edited(edits []edit) map[settingName]setting {
	after := map[settingName]setting{}
	for name, t := range q.settings {
		after[name] = *t
	}
	for _, e := range edits {
		t := after[e.name]
		*t.at(e.layer) = e.set
		if after[e.name] = t; t.inForce() == nil {
			delete(after, e.name)
		}
	}
	return after
}

// govern puts the settings of a kind in force.
func (s *State) govern(q *queue, kind broker.SettingKind) {
	switch kind {
	case broker.LimitSetting:
		s.setRules(q)
	case broker.WeightSetting:
		clear(q.weights)
		for name, t := range q.settings {
			if name.kind == kind {
				q.weights[name.name] = t.inForce().Weight
			}
		}
	case broker.AgeingSetting:
		q.ageing = 0
		if t := q.settings[settingName{kind, ""}]; t != nil {
			q.ageing = t.inForce().Ageing
		}
	}
	s.hint(q, nil)
}

// retention is how long the task's jobs are kept that end in a state, 0 for
// the default.
func (t *task) retention(state broker.State) int64 {
	for _, name := range [...]string{t.name, ""} {
		o := t.queue.settings[settingName{broker.RetentionSetting, name}]
		if o == nil {
			continue
		}
		r := o.inForce().Retention
		switch state {
		case broker.Done:
			return int64(r.Done)
		case broker.Dead:
			return int64(r.Dead)
		}
		return int64(r.Cancelled)
	}
	return 0
}

// Settings returns what is in force in a queue, or in all for "".
func (s *State) Settings(queue string) (all []broker.QueueSetting) {
	for _, name := range s.Queues() {
		if queue != "" && queue != name {
			continue
		}
		q := s.queues[name]
		for _, n := range q.settingNames() {
			t := q.settings[n]
			v := copyOf(t.inForce())
			if t.operator != nil && t.declared != nil {
				d := copyOf(t.declared)
				v.Declared = &d
			}
			if v.Schedule != nil {
				v.Schedule.Paused, v.Schedule.Due = t.paused, nanos(t.due)
			}
			all = append(all, broker.QueueSetting{Queue: name, Setting: v})
		}
	}
	return all
}

// copyOf copies a setting whole, so that the reader may change what he gets.
func copyOf(t *broker.Setting) broker.Setting {
	c := *t
	if t.Limit != nil {
		l := *t.Limit
		l.Tasks = slices.Clone(l.Tasks)
		c.Limit = &l
	}
	if t.Capacity != nil {
		room := *t.Capacity
		c.Capacity = &room
	}
	if t.Retention != nil {
		keep := *t.Retention
		c.Retention = &keep
	}
	if t.Schedule != nil {
		s := *t.Schedule
		s.Job.Payload, s.Job.Headers = slices.Clone(s.Job.Payload), maps.Clone(s.Job.Headers)
		c.Schedule = &s
	}
	return c
}
