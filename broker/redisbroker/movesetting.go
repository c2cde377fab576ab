package redisbroker

import (
	"context"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// movedSettings are the settings of a batch, as it keeps them.
type movedSettings struct {
	Settings []broker.MovedSetting `json:"settings,omitempty"`
	Starts   []broker.MovedStart   `json:"starts,omitempty"`
}

// layered is a setting with its cursor.
func (s *settings) layered(l *layers) jobstate.Layered {
	a := jobstate.Layered{Declared: l.Declared, Operator: l.Operator}
	if c, ok := s.cursors[l.name().Name]; ok && l.name().Kind == broker.ScheduleSetting {
		a.Paused = c.paused
		if !c.due.IsZero() {
			a.Due = c.due.UnixNano()
		}
	}
	return a
}

// leaveSettings takes the settings of a queue that has no jobs left.
func (b *Broker) leaveSettings(ctx context.Context, c broker.Call, r *broker.MoveTake) error {
	s, err := b.readSettings(ctx, r.Queue)
	if err != nil {
		return err
	}
	if s == nil {
		return errNoQueue
	}
	slices.SortFunc(s.Layers, func(a, b layers) int { return compareNames(a.name(), b.name()) })
	leave, stay := s.Layers[:min(len(s.Layers), broker.MaxMoveJobs)], s.Layers[min(len(s.Layers), broker.MaxMoveJobs):]
	var out movedSettings
	var told []broker.SettingName
	for i := range leave {
		name, l := leave[i].name(), s.layered(&leave[i])
		t := broker.MovedSetting{Kind: name.Kind, Name: name.Name, Declared: l.Declared, Operator: l.Operator, Paused: l.Paused}
		if l.Due != 0 {
			t.Due = s.cursors[name.Name].due
		}
		out.Settings, told = append(out.Settings, t), append(told, name)
	}
	next := settings{Revision: s.Revision, Layers: stay, Starts: s.Starts}
	if len(stay) == 0 {
		for _, owner := range slices.Sorted(maps.Keys(s.Starts)) {
			out.Starts = append(out.Starts, broker.MovedStart{Owner: owner, ID: s.Starts[owner].ID, At: s.Starts[owner].At})
		}
		next.Starts = nil
	}
	text, err := json.Marshal(&out)
	if err != nil {
		return err
	}
	p := newPacker(c.ID).id(r.ID).u8(byte(broker.Leaving)).u64(int64(r.Batch)).id(r.Runner).u64(micros(jobstate.MoveLasts(r.TTL)))
	p, err = next.pack(p.flag(len(stay) == 0).u8(0).text(text), s, &broker.Change{}, told)
	if err != nil {
		return err
	}
	_, err = b.call(ctx, b.s.adopt, r.Queue, p.u32(0))
	return err // a job that came meanwhile goes first: it is taken next
}

// adoptSettings puts in force what a batch has of settings, as its last part.
func (b *Broker) adoptSettings(ctx context.Context, c broker.Call, r *broker.MovePut, m *moveRec) error {
	s, err := b.readSettings(ctx, r.Queue)
	if err != nil {
		return err
	}
	if s == nil {
		return errNoQueue
	}
	next := settings{Revision: s.Revision, Layers: slices.Clone(s.Layers), Starts: maps.Clone(s.Starts)}
	var told []broker.SettingName
	var cursors packer
	n := 0
	for i := range r.Batch.Settings {
		t := &r.Batch.Settings[i]
		a := jobstate.LayeredOf(t)
		name := broker.SettingName{Kind: t.Kind, Name: t.Name}
		l := next.find(name)
		if l == nil {
			next.Layers = append(next.Layers, layers{})
			l = &next.Layers[len(next.Layers)-1]
		} else {
			a = jobstate.Adopt(s.layered(l), a)
		}
		*l = layers{a.Declared, a.Operator}
		for _, set := range [...]*broker.Setting{a.Declared, a.Operator} {
			if set != nil {
				next.Revision = max(next.Revision, set.Revision)
			}
		}
		told = append(told, name)
		if t.Kind == broker.ScheduleSetting {
			cursors, n = cursors.str(t.Name).flag(a.Paused).u64(a.Due), n+1
		}
	}
	for _, st := range r.Batch.Starts {
		at := instant(uint64(m.micros(st.At, down)))
		if is, known := next.Starts[st.Owner]; !known || is.At.Before(at) {
			if next.Starts == nil {
				next.Starts = map[string]start{}
			}
			next.Starts[st.Owner] = start{st.ID, at}
		}
	}
	p := newPacker(c.ID).id(r.ID).u8(byte(broker.Arriving)).u64(int64(r.Batch.Number)).id(broker.ID{}).u64(0)
	p, err = next.pack(p.u8(0).flag(r.Batch.Paused).text(nil), s, &broker.Change{}, told)
	if err != nil {
		return err
	}
	_, err = b.call(ctx, b.s.adopt, r.Queue, append(p.u32(n), cursors...))
	return err
}
