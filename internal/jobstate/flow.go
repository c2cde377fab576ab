package jobstate

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/fair"
	"github.com/spoolq/spool/limit"
)

// What a checkpoint has of a queue's settings and of where its limits and
// shares are (part of the format):
//
//	int64 high; uint64 revision
//	settings uint32 n × (kind, name, int64 due, uint8 paused, declared, operator)   as JSON, "" for none
//	starts   uint32 n × (owner, id, int64 at)
//	turns    uint32 n × (int32 priority, int64 at, uint32 n × (tenant, int64 service))
//	rates    uint32 n × (limit, value, int64 at, int64 debt, uint32 part)
//	groups   uint32 n × (value, id of the holder)

func (s *State) encodeFlow(e *encoder, q *queue) {
	e.i64(q.high)
	e.u64(q.revision)
	e.u32(uint32(len(q.settings)))
	for _, name := range q.settingNames() {
		t := q.settings[name]
		e.str(string(name.kind))
		e.str(name.name)
		e.i64(t.due)
		e.u8(b2u(t.paused))
		e.setting(t.declared)
		e.setting(t.operator)
	}
	q.encodeStarts(e)
	q.encodeTurns(e)
	s.encodeRates(e, q)
	held := slices.Sorted(maps.Keys(q.groups))
	held = slices.DeleteFunc(held, func(value string) bool { return q.groups[value].holder == nil })
	e.u32(uint32(len(held)))
	for _, value := range held {
		e.str(value)
		e.raw(q.groups[value].holder.id[:])
	}
}

func (e *encoder) setting(t *broker.Setting) {
	if t == nil {
		e.str("")
		return
	}
	text, err := json.Marshal(t)
	if err != nil {
		panic("jobstate: a validated setting has no JSON: " + err.Error()) // its types all have
	}
	e.str(string(text))
}

func (q *queue) encodeTurns(e *encoder) {
	turns := slices.DeleteFunc(slices.Sorted(maps.Keys(q.turns)), func(p int32) bool {
		t := q.turns[p]
		return (t.Now == 0 || t.lanes == 0) && len(t.ahead()) == 0
	})
	e.u32(uint32(len(turns)))
	for _, p := range turns {
		t := q.turns[p]
		e.u32(uint32(p))
		e.u64(uint64(t.Now))
		ahead := t.ahead()
		e.u32(uint32(len(ahead)))
		for _, tenant := range ahead {
			e.str(tenant)
			e.u64(uint64(t.shares[tenant].service))
		}
	}
}

// ahead lists the tenants whose service says something.
func (t *turn) ahead() (tenants []string) {
	for tenant, s := range t.shares {
		if !s.behind() {
			tenants = append(tenants, tenant)
		}
	}
	slices.Sort(tenants)
	return tenants
}

func (s *State) encodeRates(e *encoder, q *queue) {
	var used []*meter
	for _, r := range q.rules {
		for _, m := range r.meters {
			if m.used(s.clock) {
				used = append(used, m)
			}
		}
	}
	slices.SortFunc(used, func(a, b *meter) int {
		return cmp.Or(cmp.Compare(a.rule.name, b.rule.name), cmp.Compare(a.value, b.value))
	})
	e.u32(uint32(len(used)))
	for _, m := range used {
		e.str(m.rule.name)
		e.str(m.value)
		e.rate(m.rate)
	}
}

// savedRate is a rate that waits until its limit is in force.
type savedRate struct {
	limit, value string
	rate         limit.State
}

func (s *State) decodeFlow(d *decoder, q *queue) {
	q.high, q.revision = d.i64(), d.u64()
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		name := settingName{broker.SettingKind(d.str()), d.str()}
		t := &setting{due: d.i64(), paused: d.u8() != 0, declared: d.setting(), operator: d.setting()}
		if t.inForce() == nil {
			d.fail("setting without a layer")
			return
		}
		for _, set := range [...]*broker.Setting{t.declared, t.operator} {
			if set != nil && (set.Kind != name.kind || set.Name != name.name) {
				d.fail("setting under another name")
				return
			}
		}
		q.settings[name] = t
	}
	q.decodeStarts(d)
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		t := q.turnOf(int32(d.u32()))
		t.Now = fair.Time(d.u64())
		for k := d.u32(); k > 0 && d.err == nil; k-- {
			tenant := d.str()
			t.serve(t.shareOf(tenant), fair.Time(d.u64()))
		}
	}
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		q.rates = append(q.rates, savedRate{d.str(), d.str(), d.rate()})
	}
	q.holders = map[string]broker.ID{}
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		value := d.str()
		q.holders[value] = d.b16()
	}
}

func (d *decoder) setting() *broker.Setting {
	text := d.str()
	if text == "" {
		return nil
	}
	t := &broker.Setting{}
	if err := json.Unmarshal([]byte(text), t); err != nil {
		d.fail("setting: " + err.Error())
		return nil
	}
	if err := checkSetting(t); err != nil {
		d.fail(err.Error())
		return nil
	}
	return t
}

// governAll puts all settings of a queue in force, once its jobs are in place.
func (s *State) governAll(q *queue) {
	for _, kind := range [...]broker.SettingKind{broker.LimitSetting, broker.WeightSetting, broker.AgeingSetting} {
		s.govern(q, kind)
	}
	for _, r := range q.rates {
		if rule := q.rules[r.limit]; rule != nil {
			rule.meter(r.value).rate = r.rate
		}
	}
	q.rates = nil
}
