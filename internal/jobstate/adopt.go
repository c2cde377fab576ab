package jobstate

import (
	"encoding/json"
	"errors"

	"github.com/spoolq/spool/broker"
)

// Layered is a setting in both its layers, as it moves (and as an adopt record
// has it). Due is a schedule's cursor in nanoseconds, Paused an operator's.
type Layered struct {
	Declared, Operator *broker.Setting
	Due                int64
	Paused             bool
}

// LayeredOf is what a moved setting is.
func LayeredOf(t *broker.MovedSetting) Layered {
	l := Layered{Declared: t.Declared, Operator: t.Operator, Paused: t.Paused}
	if !t.Due.IsZero() {
		l.Due = t.Due.UnixNano()
	}
	return l
}

func (l *Layered) inForce() *broker.Setting {
	if l.Operator != nil {
		return l.Operator
	}
	return l.Declared
}

// Adopt is what becomes of a setting that comes where it is already: what is
// here stays, since whoever set it here did so later.
func Adopt(is, came Layered) Layered {
	after := came
	if is.Declared != nil {
		after.Declared = is.Declared
	}
	if is.Operator != nil {
		after.Operator = is.Operator
	}
	after.Paused = came.Paused || is.Paused
	if !SameInstants(came.inForce().Schedule, after.inForce().Schedule) {
		after.Due = 0
	}
	if SameInstants(is.inForce().Schedule, after.inForce().Schedule) {
		after.Due = max(after.Due, is.Due) // an instant that was enqueued is not enqueued again
	}
	return after
}

// adoptAll takes over settings, starts and a pause. What is here already stays:
// whoever set it here did so later.
func (s *State) adoptAll(w *Writer, q *queue, b *broker.MoveBatch) {
	for i := range b.Settings {
		s.adopt(w, q, &b.Settings[i])
	}
	for _, st := range b.Starts {
		at := satAdd(st.At.UnixNano(), q.move.delta)
		if is, known := q.starts[st.Owner]; !known || is.at < at {
			s.begin(w, q.name, st.Owner, start{st.ID, at})
		}
	}
	if b.Paused {
		s.Pause(w, q.name, true)
	}
}

func (s *State) adopt(w *Writer, q *queue, t *broker.MovedSetting) {
	name := settingName{t.Kind, t.Name}
	a := LayeredOf(t)
	if is := q.settings[name]; is != nil {
		a = Adopt(Layered{is.declared, is.operator, is.due, is.paused}, a)
	}
	text, err := json.Marshal(a)
	if err != nil {
		panic("jobstate: a validated setting has no JSON: " + err.Error()) // its types all have
	}
	w.begin(recAdopt)
	w.str(q.name)
	w.str(string(name.kind))
	w.text(name.name)
	w.text(string(text))
	w.end()
	a.Declared, a.Operator = cloned(a.Declared), cloned(a.Operator)
	s.applyAdopt(q, name, &a, w.base)
}

func cloned(t *broker.Setting) *broker.Setting {
	if t == nil {
		return nil
	}
	return cloneSetting(t)
}

func (s *State) readAdopt(r *reader) error {
	q := s.queues[string(r.str())]
	name := settingName{broker.SettingKind(r.str()), string(r.text())}
	text := r.text()
	if r.err != nil {
		return r.err
	}
	var a Layered
	err := json.Unmarshal(text, &a)
	for _, t := range [...]*broker.Setting{a.Declared, a.Operator} {
		if t == nil || err != nil {
			continue
		}
		if err = checkSetting(t); err == nil && (t.Kind != name.kind || t.Name != name.name) {
			err = errors.New("it has another name than its record")
		}
	}
	if err == nil && (q == nil || a.Declared == nil && a.Operator == nil) {
		err = errors.New("it is nobody's")
	}
	if err != nil {
		r.bad("setting: " + err.Error())
		return r.err
	}
	s.applyAdopt(q, name, &a, r.base)
	return nil
}

// applyAdopt puts a setting in force as it was, its revisions included.
func (s *State) applyAdopt(q *queue, name settingName, a *Layered, at int64) {
	if q.settings[name] == nil && name.kind == broker.CapacitySetting {
		s.capacities++
	}
	q.settings[name] = &setting{declared: a.Declared, operator: a.Operator, due: a.Due, paused: a.Paused}
	for _, t := range [...]*broker.Setting{a.Declared, a.Operator} {
		if t != nil {
			q.revision = max(q.revision, t.Revision)
		}
	}
	s.govern(q, name.kind)
	s.tellSetting(q.name, name, at)
}
