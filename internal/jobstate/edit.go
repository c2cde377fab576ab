package jobstate

import (
	"encoding/json"
	"errors"

	"github.com/spoolq/spool/broker"
)

// edit is a change of one setting in one layer; set nil removes it.
type edit struct {
	name  settingName
	layer layer
	set   *broker.Setting
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
	s.applySet(queue, e, w.base)
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
		s.applySet(queue, e, r.base)
	}
	return r.err
}

func (s *State) applySet(queue string, e edit, at int64) {
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
	if before == nil || now == nil || !SameInstants(before.Schedule, now.Schedule) {
		t.due = 0
	}
	s.govern(q, e.name.kind)
	s.tellSetting(queue, e.name, at)
}

// tellSetting reports a change of a setting.
func (s *State) tellSetting(queue string, name settingName, at int64) {
	if s.changed != nil {
		s.changed(Change{Queue: queue, Setting: &broker.SettingName{Kind: name.kind, Name: name.name}, At: at})
	}
}
