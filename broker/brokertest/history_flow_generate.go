package brokertest

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// batch makes an enqueue of a completion job and its members, now and then with
// a fault.
func (g *generator) batch() step {
	first := g.slot()
	s := enqueueStep{client: g.client(), slots: []slot{first}}
	for i := range 1 + g.IntN(3) {
		s.slots = append(s.slots, (first+slot((i+1)*len(historyQueues)))%historySlots)
	}
	for i, one := range s.slots {
		n := g.job(one)
		n.Key, n.KeyHold, n.KeyFor, n.KeyRepeat = "", 0, 0, 0
		if i == 0 {
			n.BatchSize, n.Delay = uint32(len(s.slots)-1), 0
		} else {
			n.Batch, n.BatchOrdinal = first.ref().ID, uint32(i-1)
		}
		s.jobs = append(s.jobs, n)
	}
	switch last := len(s.jobs) - 1; g.IntN(16) {
	case 0: // one too few
		s.jobs[0].BatchSize++
	case 1: // two have one number, or it is out of range
		s.jobs[last].BatchOrdinal = pick[uint32](g, 0, uint32(last))
		if last == 1 {
			s.jobs[last].BatchOrdinal = 1
		}
	case 2: // of a batch that nobody knows
		s.jobs[last].Batch = broker.ID{1}
	case 3:
		s.jobs[g.IntN(last+1)].Key = "k"
	case 4, 5, 6, 7: // the completion job stands last
		s.jobs[0], s.jobs[last] = s.jobs[last], s.jobs[0]
		s.slots[0], s.slots[last] = s.slots[last], s.slots[0]
	}
	return s
}

// configure makes a change of settings. What two owners declare is never the
// same: whose it is then is clear, whether it is a change is not.
func (g *generator) configure() step {
	s := configureStep{client: g.client(), queue: g.slot().ref().Queue}
	if g.IntN(3) == 0 {
		odd := g.IntN(2)
		s.change.Declare, s.change.Owner = true, []string{"p", "q"}[odd]
		s.change.Set = g.someSettings(g.IntN(6), odd)
		if g.IntN(3) > 0 {
			s.change.Start, s.change.Age = pick(g, broker.ID{1}, broker.ID{1}, broker.ID{2}), pick(g, 0, historyUnit, 3*historyUnit, 90*historyUnit)
		}
		return s
	}
	s.change.Set = g.someSettings(g.IntN(4), 0)
	for range g.IntN(3) {
		c := g.setting(0)
		if name := (broker.SettingName{Kind: c.Kind, Name: c.Name}); !named(s.change.Set, name) {
			s.change.Clear = append(s.change.Clear, name)
		}
	}
	if g.IntN(3) == 0 {
		c := g.setting(0)
		if name := nameOf(&c); !named(s.change.Set, name) {
			s.change.Undeclare, s.change.Owner = append(s.change.Undeclare, name), pick(g, "p", "q")
		}
	}
	if g.IntN(3) == 0 {
		s.change.Pause = pick(g, []string{"s"}, []string{"s"}, []string{"s", "s2"}, nil)
		if g.IntN(3) == 0 {
			s.change.Pause, s.change.Resume = s.change.Resume, s.change.Pause
		}
		if g.IntN(3) > 0 { // of what is there then
			s.change.Clear, s.change.Undeclare = nil, nil
			s.change.Set = append(s.change.Set[:0:0], g.schedule(0))
			s.change.Set[0].Name = "s"
		}
	}
	for i := range s.change.Set {
		if g.IntN(6) == 0 {
			s.change.Set[i].Revision = uint64(1 + g.IntN(9))
		}
	}
	return s
}

// someSettings makes up to n settings of different names.
func (g *generator) someSettings(n, odd int) (all []broker.Setting) {
	for range n {
		if s := g.setting(odd); !named(all, nameOf(&s)) {
			all = append(all, s)
		}
	}
	return all
}

func named(all []broker.Setting, name broker.SettingName) bool {
	for i := range all {
		if nameOf(&all[i]) == name {
			return true
		}
	}
	return false
}

// setting makes one setting. Those of odd 1 differ from all those of odd 0.
func (g *generator) setting(odd int) broker.Setting {
	switch g.theme {
	case aboutLimits:
		return g.limit(odd)
	case aboutTurns:
		return pick(g, g.weight, g.weight, g.ageing)(odd)
	case aboutStock:
		return pick(g, g.capacity, g.capacity, g.capacity, g.retention)(odd)
	case aboutTicks:
		return g.schedule(odd)
	}
	return pick(g, g.limit, g.limit, g.weight, g.ageing, g.capacity, g.retention, g.schedule)(odd)
}

func (g *generator) weight(odd int) broker.Setting {
	return broker.Setting{Kind: broker.WeightSetting, Name: pick(g, historyTenants...), Weight: pick(g, 1, 3, 7, 1001) + odd}
}

func (g *generator) ageing(odd int) broker.Setting {
	step := pick(g, time.Microsecond, historyUnit, 3*historyUnit, broker.MaxDelay-1)
	return broker.Setting{Kind: broker.AgeingSetting, Ageing: step + time.Duration(odd)}
}

func (g *generator) capacity(odd int) broker.Setting {
	return broker.Setting{Kind: broker.CapacitySetting, Name: pick(g, "", "", broker.TenantCapacity), Capacity: &broker.Capacity{
		Jobs: int64(pick(g, 2, 5, 7, 9) + odd), DropOldest: g.IntN(3) > 0,
	}}
}

func (g *generator) retention(odd int) broker.Setting {
	keep := func() time.Duration { return pick(g, 0, -1, historyUnit, time.Second) + time.Duration(odd) }
	return broker.Setting{Kind: broker.RetentionSetting, Name: pick(g, "", "t"), Retention: &broker.Retention{
		Done: keep(), Dead: keep(), Cancelled: keep(),
	}}
}

func (g *generator) schedule(odd int) broker.Setting {
	return broker.Setting{Kind: broker.ScheduleSetting, Name: pick(g, "s", "s", "s2"), Schedule: &broker.Schedule{
		Spec: pick(g, "@hourly", "@daily") + []string{"", " "}[odd], Zone: pick(g, "", "", "UTC"), DST: pick(g, "", "", "vixie"),
		Job: broker.NewJob{Task: "t", Priority: pick[int32](g, 0, 5), Payload: []byte("tick")},
	}}
}

// limit makes a limit. Its name says whether it is a rate, and its scope.
func (g *generator) limit(odd int) broker.Setting {
	per := pick(g, broker.PerQueue, broker.PerTenant, broker.PerGroup)
	l := &broker.Limit{Tasks: pick(g, historyTasks, historyTasks[:1], historyTasks[1:]), Per: per}
	name := "running-" + string(per)
	if l.Running = pick(g, 1, 1, 3) + odd; g.IntN(2) == 0 {
		name, l.Running = "rate-"+string(per), 0
		l.Count, l.Burst = int64(1+g.IntN(3)), int64(g.IntN(4))
		l.Every = pick(g, historyUnit, 3*historyUnit, 7*historyUnit, time.Second) + time.Duration(odd)
	}
	return broker.Setting{Kind: broker.LimitSetting, Name: name, Limit: l}
}

func (g *generator) tick() step {
	first := g.slot()
	s := tickStep{client: g.client(), queue: first.ref().Queue, schedule: g.IntN(9) - 1,
		due: pick(g, dueAsIs, dueAsIs, dueAsIs, dueAsIs, dueZero, dueWrong)}
	if g.IntN(6) > 0 {
		s.next = historyUnit + g.units(5)
	}
	for i := range g.IntN(3) {
		one := (first + slot(i*len(historyQueues))) % historySlots
		s.slots, s.jobs = append(s.slots, one), append(s.jobs, g.job(one))
	}
	return s
}
