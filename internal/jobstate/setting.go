package jobstate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"time"

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
	if err := checkChange(queue, c); err != nil {
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
	edits := q.edits(l, c)
	if err := q.checkRules(edits); err != nil {
		return err
	}
	for _, e := range edits {
		s.edit(w, queue, e)
	}
	return nil
}

func checkChange(queue string, c *broker.Change) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if c.Declare {
		if err := broker.ValidName(c.Owner); err != nil {
			return fmt.Errorf("%w: owner %w", broker.ErrInvalid, err)
		}
		if len(c.Clear) > 0 {
			return fmt.Errorf("%w: a declaration clears by leaving out", broker.ErrInvalid)
		}
	}
	seen := map[settingName]bool{}
	for i := range c.Set {
		t := &c.Set[i]
		if err := checkSetting(t); err != nil {
			return err
		}
		name := settingName{t.Kind, t.Name}
		if seen[name] {
			return fmt.Errorf("%w: %s %q is set twice", broker.ErrInvalid, t.Kind, t.Name)
		}
		seen[name] = true
	}
	return nil
}

// checkSetting refuses what can never be right.
func checkSetting(t *broker.Setting) error {
	if err := t.Validate(); err != nil {
		return err
	}
	if t.Kind == broker.LimitSetting && t.Limit.Running == 0 {
		if err := rateOf(t.Limit).Validate(); err != nil {
			return fmt.Errorf("%w: limit %q: %w", broker.ErrInvalid, t.Name, err)
		}
	}
	return nil
}

// edit is a change of one setting in one layer; set nil removes it.
type edit struct {
	name  settingName
	layer layer
	set   *broker.Setting
}

// edits lists what a change does, leaving out what is so already.
func (q *queue) edits(l layer, c *broker.Change) (edits []edit) {
	for i := range c.Set {
		t := c.Set[i]
		name := settingName{t.Kind, t.Name}
		t.Owner, t.Revision, t.Declared = "", 0, nil
		if c.Declare {
			t.Owner = c.Owner
		}
		if t.Schedule != nil {
			sched := *t.Schedule
			sched.Due = time.Time{}
			t.Schedule = &sched
		}
		if old := q.settings[name]; old == nil || !same(*old.at(l), &t) {
			edits = append(edits, edit{name, l, &t})
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
	return edits
}

// same compares settings but for their revision.
func same(a, b *broker.Setting) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Revision, y.Revision = 0, 0
	return reflect.DeepEqual(x, y)
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

// checkRules refuses what would bind a task by too many limits.
func (q *queue) checkRules(edits []edit) error {
	binds := map[string]int{}
	count := func(t *broker.Setting) {
		if t != nil && t.Limit != nil {
			for _, task := range t.Limit.Tasks {
				binds[task]++
			}
		}
	}
	after := map[settingName]setting{}
	for name, t := range q.settings {
		after[name] = *t
	}
	for _, e := range edits {
		t := after[e.name]
		*t.at(e.layer) = e.set
		after[e.name] = t
	}
	for _, t := range after {
		count(t.inForce())
	}
	for task, n := range binds {
		if n > broker.MaxTaskLimits {
			return fmt.Errorf("%w: %d limits would bind task %s, allowed are %d", broker.ErrInvalid, n, task, broker.MaxTaskLimits)
		}
	}
	return nil
}

// edit records one change. The setting travels as JSON: it is rare, and read by
// people.
func (s *State) edit(w *Writer, queue string, e edit) {
	var text []byte
	if e.set != nil {
		var err error
		if text, err = json.Marshal(e.set); err != nil {
			panic("jobstate: a validated setting has no JSON: " + err.Error()) // its types all have
		}
	}
	w.begin(recSet)
	w.str(queue)
	w.byte(byte(e.layer))
	w.str(string(e.name.kind))
	w.str(e.name.name)
	w.text(string(text))
	w.end()
	if e.set != nil {
		e.set = cloneSetting(e.set) // the caller keeps his
	}
	s.applySet(queue, e)
}

// cloneSetting copies a setting whole, as it is stored.
func cloneSetting(t *broker.Setting) *broker.Setting {
	text, err := json.Marshal(t)
	c := &broker.Setting{}
	if err == nil {
		err = json.Unmarshal(text, c)
	}
	if err != nil {
		panic("jobstate: a setting does not survive its JSON: " + err.Error()) // its types all do
	}
	return c
}

func (s *State) readSet(r *reader) error {
	queue := string(r.str())
	e := edit{layer: layer(r.byte()), name: settingName{broker.SettingKind(r.str()), string(r.str())}}
	text := r.text()
	if len(text) > 0 && r.err == nil {
		e.set = &broker.Setting{}
		err := json.Unmarshal(text, e.set)
		if err == nil {
			err = checkSetting(e.set)
		}
		if err == nil && (e.set.Kind != e.name.kind || e.set.Name != e.name.name) {
			err = errors.New("it has another name than its record")
		}
		if err != nil {
			r.bad("setting: " + err.Error())
		}
	}
	if e.layer != declaredLayer && e.layer != operatorLayer {
		r.bad("layer of a setting")
	}
	if r.err == nil {
		s.applySet(queue, e)
	}
	return r.err
}

func (s *State) applySet(queue string, e edit) {
	q := s.queues[queue]
	if q == nil {
		q = s.makeQueue(queue)
	}
	t := q.settings[e.name]
	if t == nil {
		t = &setting{}
		q.settings[e.name] = t
	}
	before := t.inForce()
	*t.at(e.layer) = e.set
	now := t.inForce()
	if e.name.kind == broker.CapacitySetting {
		s.capacities += count(now) - count(before)
	}
	switch {
	case now == nil:
		delete(q.settings, e.name)
	case e.set != nil:
		q.revision++
		e.set.Revision = q.revision
	}
	if before == nil || now == nil || !sameInstants(before.Schedule, now.Schedule) {
		t.due = 0
	}
	s.govern(q, e.name.kind)
}

// sameInstants reports whether two schedules fire at the same instants.
func sameInstants(a, b *broker.Schedule) bool {
	return a == nil || b == nil || a.Spec == b.Spec && a.Zone == b.Zone && a.DST == b.DST
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
			v := *cloneSetting(t.inForce())
			if t.operator != nil && t.declared != nil {
				v.Declared = cloneSetting(t.declared)
			}
			if v.Schedule != nil {
				v.Schedule.Due = nanos(t.due)
			}
			all = append(all, broker.QueueSetting{Queue: name, Setting: v})
		}
	}
	return all
}
