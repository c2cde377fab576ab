package jobstate

import (
	"encoding/json"
	"errors"

	"github.com/spoolq/spool/broker"
)

// adopted is a setting that arrives, in both its layers, as an adopt record has
// it.
type adopted struct {
	Declared, Operator *broker.Setting
	Due                int64
	Paused             bool
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
	a := adopted{Declared: t.Declared, Operator: t.Operator, Paused: t.Paused}
	if !t.Due.IsZero() {
		a.Due = t.Due.UnixNano()
	}
	if is := q.settings[name]; is != nil {
		came := setting{declared: a.Declared, operator: a.Operator}
		if is.declared != nil {
			a.Declared = is.declared
		}
		if is.operator != nil {
			a.Operator = is.operator
		}
		a.Paused = a.Paused || is.paused
		after := setting{declared: a.Declared, operator: a.Operator}
		if !sameInstants(came.inForce().Schedule, after.inForce().Schedule) {
			a.Due = 0
		}
		if sameInstants(is.inForce().Schedule, after.inForce().Schedule) {
			a.Due = max(a.Due, is.due) // an instant that was enqueued is not enqueued again
		}
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
	var a adopted
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
func (s *State) applyAdopt(q *queue, name settingName, a *adopted, at int64) {
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
