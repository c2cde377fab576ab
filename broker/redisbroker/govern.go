package redisbroker

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// pack packs the settings as lua/govern.lua reads them. old are those before.
func (s *settings) pack(p packer, old *settings, c *broker.Change, told []broker.SettingName) (packer, error) {
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	limits := s.limits()
	p = p.u48(old.seen).u48(old.seen + 1).text(text).text(limits).str(string(s.capacities()))
	p = p.f64(s.ageing()).pairs(s.weights()).pairs(s.retentions()).flag(string(limits) != string(old.limits()))
	var list packer
	n := 0
	say := func(name string, what byte) { list, n = list.str(name).u8(what), n+1 }
	for i := range old.Layers {
		if t := old.Layers[i].inForce(); t.Schedule != nil && s.find(broker.SettingName{Kind: t.Kind, Name: t.Name}) == nil {
			say(t.Name, 0)
		}
	}
	for i := range s.Layers {
		t := s.Layers[i].inForce()
		if t.Schedule == nil {
			continue
		}
		was := old.find(broker.SettingName{Kind: t.Kind, Name: t.Name})
		if was == nil || !jobstate.SameInstants(was.inForce().Schedule, t.Schedule) {
			say(t.Name, 1)
		}
	}
	stopped := func(names []string, on bool, what byte) {
		for _, name := range names {
			say(name, what)
			if n := (broker.SettingName{Kind: broker.ScheduleSetting, Name: name}); old.cursors[name].paused != on {
				told = append(told, n)
			}
		}
	}
	stopped(c.Pause, true, 2)
	stopped(c.Resume, false, 3)
	p = append(p.u32(n), list...).u32(len(told))
	for _, name := range told {
		p = p.str(string(name.Kind)).str(name.Name)
	}
	return p, nil
}

func (p packer) pairs(m map[string]string) packer {
	p = p.u32(len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		p = p.str(name).str(m[name])
	}
	return p
}

func (s *settings) each(kind broker.SettingKind, fn func(t *broker.Setting)) {
	for i := range s.Layers {
		if t := s.Layers[i].inForce(); t.Kind == kind {
			fn(t)
		}
	}
}

func (s *settings) weights() map[string]string {
	m := map[string]string{}
	s.each(broker.WeightSetting, func(t *broker.Setting) { m[t.Name] = fmt.Sprint(t.Weight) })
	return m
}

func (s *settings) retentions() map[string]string {
	m := map[string]string{}
	s.each(broker.RetentionSetting, func(t *broker.Setting) {
		us := func(d time.Duration) float64 {
			if d < 0 {
				return -1
			}
			return float64(micros(d))
		}
		m[t.Name] = string(packer(nil).f64(us(t.Retention.Done)).f64(us(t.Retention.Dead)).f64(us(t.Retention.Cancelled)))
	})
	return m
}

func (s *settings) ageing() (step float64) {
	s.each(broker.AgeingSetting, func(t *broker.Setting) { step = float64(t.Ageing) / 1000 })
	return step
}

func (s *settings) capacities() packer {
	var of [2]broker.Capacity
	any := false
	s.each(broker.CapacitySetting, func(t *broker.Setting) {
		any = true
		of[len(t.Name)/len(broker.TenantCapacity)] = *t.Capacity
	})
	if !any {
		return nil
	}
	var p packer
	for _, c := range of {
		p = p.f64(float64(c.Jobs)).f64(float64(c.Bytes)).flag(c.DropOldest)
	}
	return p
}

// limits packs the limits in force, by name: name, scope, most running, count;
// then as microseconds and parts of one, 1000 × count of which are one: what a
// claim takes, what may be taken at once besides, and the full burst; tasks.
func (s *settings) limits() packer {
	var list []*broker.Setting
	s.each(broker.LimitSetting, func(t *broker.Setting) { list = append(list, t) })
	if len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b *broker.Setting) int { return cmp.Compare(a.Name, b.Name) })
	p := packer(nil).u32(len(list))
	for _, t := range list {
		l := t.Limit
		per := map[broker.Scope]byte{broker.PerTenant: 1, broker.PerGroup: 2}[l.Per]
		p = p.str(t.Name).u8(per).u64(int64(l.Running)).u64(l.Count)
		burst := cmp.Or(l.Burst, l.Count)
		for _, n := range []int64{1, burst - 1, burst} {
			p = p.span(n, l)
		}
		tasks := slices.Compact(slices.Sorted(slices.Values(l.Tasks)))
		p = p.u16(len(tasks))
		for _, task := range tasks {
			p = p.str(task)
		}
	}
	return p
}

// span packs how long n claims of a rate take: microseconds, and parts of one,
// 1000 × count of which are one.
func (p packer) span(n int64, l *broker.Limit) packer {
	if l.Count == 0 {
		return p.u64(0).u64(0)
	}
	unit := uint64(l.Count) * 1000
	hi, lo := bits.Mul64(uint64(n), uint64(l.Every))
	us, part := bits.Div64(hi, lo, unit)
	return p.u64(int64(us)).u64(int64(part))
}
