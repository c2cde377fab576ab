package brokertest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// flow is what a queue's settings are, and what they have led to.
type flow struct {
	revision uint64 // the last that was given
	settings map[broker.SettingName]layers
	starts   map[string]start        // the last of each owner
	cursors  map[string]time.Time    // of the schedules, by name; zero for none
	rates    map[bucketName]*big.Rat // when the last claim's interval ends
	rated    map[bucketName]*big.Rat // when each was last claimed
	turns    map[int32]*turn         // by priority
	high     int64                   // the most jobs that it ever held
}

// start is that of a program that declared.
type start struct {
	id broker.ID
	at time.Time
}

// layers are the settings of one kind and name: the operator's is in force
// while there is one.
type layers struct {
	declared, operator *broker.Setting
	paused             bool // of a schedule
}

func (l layers) inForce() *broker.Setting {
	if l.operator != nil {
		return l.operator
	}
	return l.declared
}

// revisions are those of the declared and of the operator's, 0 for none.
func (l layers) revisions() (all [2]uint64) {
	for i, t := range []*broker.Setting{l.declared, l.operator} {
		if t != nil {
			all[i] = t.Revision
		}
	}
	return all
}

// flow returns the flow of a queue, a new one when there is none.
func (s *store) flow(queue string) *flow {
	if s.flows[queue] == nil {
		s.flows[queue] = &flow{
			settings: map[broker.SettingName]layers{}, starts: map[string]start{}, cursors: map[string]time.Time{},
			rates: map[bucketName]*big.Rat{}, rated: map[bucketName]*big.Rat{}, turns: map[int32]*turn{},
		}
	}
	return s.flows[queue]
}

// setting returns the setting in force, or nil.
func (s *store) setting(queue string, kind broker.SettingKind, name string) *broker.Setting {
	return s.flow(queue).settings[broker.SettingName{Kind: kind, Name: name}].inForce()
}

// Configure implements broker.Broker.
func (m *Model) Configure(ctx context.Context, _ broker.Call, queue string, c broker.Change) error {
	if err := checkChange(queue, c); err != nil {
		return err
	}
	if err := m.begin(ctx); err != nil {
		return err
	}
	defer m.s.mu.Unlock()
	now := m.s.flow(queue)
	next := &flow{revision: now.revision, settings: maps.Clone(now.settings)}
	if err := next.checkRevisions(c.Set); err != nil {
		return err
	}
	began := start{c.Start, m.s.now().Add(-c.Age)}
	if c.Declare && m.s.rules.late(now.starts[c.Owner], began) {
		return fmt.Errorf("%w: %s was started again since", broker.ErrConflict, c.Owner)
	}
	m.s.rules.change(next, c)
	if err := next.checkLimits(); err != nil {
		return err
	}
	if err := next.pause(c); err != nil {
		return err
	}
	m.s.rules.resetCursors(now, next.settings)
	now.forgetRates(next.settings)
	m.s.rules.told(m.s, queue, now.settings, next.settings)
	now.revision, now.settings = next.revision, next.settings
	if c.Declare {
		now.starts[c.Owner] = began
	}
	m.s.wake()
	return nil
}

// late reports whether a start is older than the last one that declared.
func late(last, began start) bool {
	return began.at.Before(last.at) && (began.id.IsZero() || began.id != last.id)
}

func checkChange(queue string, c broker.Change) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	return c.Validate()
}

func nameOf(s *broker.Setting) broker.SettingName {
	return broker.SettingName{Kind: s.Kind, Name: s.Name}
}

// checkRevisions compares what a caller saw with what is in force.
func (f *flow) checkRevisions(set []broker.Setting) error {
	for i := range set {
		saw, is := set[i].Revision, uint64(0)
		if now := f.settings[nameOf(&set[i])].inForce(); now != nil {
			is = now.Revision
		}
		if saw != 0 && saw != is {
			return fmt.Errorf("%w: %s %q is at revision %d, not %d", broker.ErrConflict, set[i].Kind, set[i].Name, is, saw)
		}
	}
	return nil
}

// checkLimits counts the limits in force that bind each task.
func (f *flow) checkLimits() error {
	bound := map[string]int{}
	for _, l := range f.settings {
		if now := l.inForce(); now.Kind == broker.LimitSetting {
			for _, task := range slices.Compact(slices.Sorted(slices.Values(now.Limit.Tasks))) {
				if bound[task]++; bound[task] > broker.MaxTaskLimits {
					return fmt.Errorf("%w: more than %d limits bind the task %q", broker.ErrInvalid, broker.MaxTaskLimits, task)
				}
			}
		}
	}
	return nil
}

// change makes a change that was checked.
func (f *flow) change(c broker.Change) {
	for name, l := range f.settings {
		if c.Declare && l.declared != nil && l.declared.Owner == c.Owner && !slices.ContainsFunc(c.Set, func(s broker.Setting) bool { return nameOf(&s) == name }) {
			l.declared = nil
			f.put(name, l)
		}
	}
	for i := range c.Set {
		set, l := cloneSetting(&c.Set[i]), f.settings[nameOf(&c.Set[i])]
		if c.Declare {
			set.Owner = c.Owner
			l.declared = f.revise(l.declared, set)
		} else {
			l.operator = f.revise(l.operator, set)
		}
		f.put(nameOf(set), l)
	}
	for _, name := range c.Clear {
		l := f.settings[name]
		l.operator = nil
		f.put(name, l)
	}
	for _, name := range c.Undeclare {
		if l := f.settings[name]; l.declared != nil && l.declared.Owner == c.Owner {
			l.declared = nil
			f.put(name, l)
		}
	}
}

// pause stops schedules and lets others go on, all of which have to be there.
func (f *flow) pause(c broker.Change) error {
	for i, name := range slices.Concat(c.Pause, c.Resume) {
		schedule := broker.SettingName{Kind: broker.ScheduleSetting, Name: name}
		l, there := f.settings[schedule]
		if !there {
			return fmt.Errorf("%w: there is no schedule %q", broker.ErrConflict, name)
		}
		l.paused = i < len(c.Pause)
		f.settings[schedule] = l
	}
	return nil
}

func (f *flow) put(name broker.SettingName, l layers) {
	f.settings[name] = l
	if l.inForce() == nil {
		delete(f.settings, name)
	}
}

// revise gives set the next revision, or that of old if nothing changes.
func (f *flow) revise(old, set *broker.Setting) *broker.Setting {
	if old != nil && reflect.DeepEqual(cloneSetting(old), cloneSetting(set)) {
		set.Revision = old.Revision
		return set
	}
	f.revision++
	set.Revision = f.revision
	return set
}

// resetCursors forgets the cursor of each schedule that is gone, or whose
// instants are others, in what comes next.
func (f *flow) resetCursors(next map[broker.SettingName]layers) {
	for name := range f.cursors {
		schedule := broker.SettingName{Kind: broker.ScheduleSetting, Name: name}
		if was, is := f.settings[schedule].inForce(), next[schedule].inForce(); is == nil ||
			was.Schedule.Spec != is.Schedule.Spec || was.Schedule.Zone != is.Schedule.Zone || was.Schedule.DST != is.Schedule.DST {
			delete(f.cursors, name)
		}
	}
}

// cloneSetting copies what says what a setting does: nothing of its owner,
// revision or cursor, and of no other kind.
func cloneSetting(s *broker.Setting) *broker.Setting {
	c := &broker.Setting{Kind: s.Kind, Name: s.Name}
	switch s.Kind {
	case broker.LimitSetting:
		l := *s.Limit
		l.Tasks = slices.Clone(l.Tasks)
		c.Limit = &l
	case broker.WeightSetting:
		c.Weight = s.Weight
	case broker.CapacitySetting:
		capacity := *s.Capacity
		c.Capacity = &capacity
	case broker.RetentionSetting:
		r := *s.Retention
		c.Retention = &r
	case broker.AgeingSetting:
		c.Ageing = s.Ageing
	case broker.ScheduleSetting:
		sched := *s.Schedule
		sched.Due, sched.Paused = time.Time{}, false
		sched.Job.Payload, sched.Job.Headers = bytes.Clone(sched.Job.Payload), maps.Clone(sched.Job.Headers)
		c.Schedule = &sched
	}
	return c
}

// Settings implements broker.Inspector.
func (m *Model) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	var all []broker.QueueSetting
	for q, f := range m.s.flows {
		for name, l := range f.settings {
			if queue != "" && q != queue {
				continue
			}
			set := cloneOwned(l.inForce())
			if l.operator != nil && l.declared != nil {
				set.Declared = cloneOwned(l.declared)
			}
			if set.Schedule != nil {
				set.Schedule.Due, set.Schedule.Paused = f.cursors[name.Name], l.paused
			}
			all = append(all, broker.QueueSetting{Queue: q, Setting: *set})
		}
	}
	slices.SortFunc(all, func(a, b broker.QueueSetting) int {
		return cmp.Or(strings.Compare(a.Queue, b.Queue), strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return all, nil
}

func cloneOwned(s *broker.Setting) *broker.Setting {
	c := cloneSetting(s)
	c.Owner, c.Revision = s.Owner, s.Revision
	return c
}

// retention is what holds for j where it says nothing itself.
func (s *store) retention(j *job) broker.Retention {
	for _, name := range []string{j.Task, ""} {
		if set := s.setting(j.Queue, broker.RetentionSetting, name); set != nil {
			return *set.Retention
		}
	}
	return broker.Retention{}
}
