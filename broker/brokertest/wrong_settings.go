package brokertest

import (
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// wrongSettings are settings that can never be right.
func wrongSettings() map[string]broker.Setting {
	set := func(s broker.Setting, change func(s *broker.Setting)) broker.Setting { change(&s); return s }
	return map[string]broker.Setting{
		"an unknown kind":                 {Kind: "wieght", Name: "x", Weight: 1},
		"no kind":                         {},
		"a limit without a name":          running("", broker.PerQueue, 1),
		"a limit with nothing":            {Kind: broker.LimitSetting, Name: "l"},
		"a limit of no task":              {Kind: broker.LimitSetting, Name: "l", Limit: &broker.Limit{Running: 1}},
		"a limit of a bad task":           running("l", broker.PerQueue, 1, "a b"),
		"a limit of none":                 running("l", broker.PerQueue, 0),
		"a limit below none":              running("l", broker.PerQueue, -1),
		"a limit of an unknown scope":     running("l", "tenants", 1),
		"a limit that is a rate as well":  set(rated("l", broker.PerQueue, 1, time.Second, 0), func(s *broker.Setting) { s.Limit.Running = 1 }),
		"a rate of none":                  rated("l", broker.PerQueue, 0, time.Second, 0),
		"a rate below none":               rated("l", broker.PerQueue, -1, time.Second, 0),
		"a rate without a span":           rated("l", broker.PerQueue, 1, 0, 0),
		"a rate with a negative burst":    rated("l", broker.PerQueue, 1, time.Second, -1),
		"a weight of none":                weight("x", 0),
		"a weight below none":             weight("x", -1),
		"a weight above the most":         weight("x", broker.MaxWeight+1),
		"a capacity of nothing":           capacity("", broker.Capacity{}),
		"a negative capacity":             capacity("", broker.Capacity{Jobs: 5, Bytes: -1}),
		"a capacity of one tenant":        capacity("acme", broker.Capacity{Jobs: 5}),
		"a retention of nothing":          {Kind: broker.RetentionSetting},
		"a retention of a bad task":       retention("a b", broker.Retention{Done: time.Hour}),
		"ageing of no step":               ageing(0),
		"ageing backwards":                ageing(-time.Second),
		"a schedule of no name":           schedule("", "@hourly"),
		"a schedule of no expression":     schedule("s", ""),
		"a schedule of no task":           set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.Job.Task = "" }),
		"a schedule of nothing":           {Kind: broker.ScheduleSetting, Name: "s"},
		"a limit of too many tasks":       running("l", broker.PerQueue, 1, slices.Repeat([]string{"t"}, broker.MaxLimitTasks+1)...),
		"a limit with a long name":        running(strings.Repeat("l", broker.MaxNameBytes+1), broker.PerQueue, 1),
		"a weight of a long tenant":       weight(strings.Repeat("t", broker.MaxTagBytes+1), 1),
		"a schedule of a long expression": schedule("s", strings.Repeat("*", broker.MaxSpecBytes+1)),
		"a schedule of a long zone":       set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.Zone = strings.Repeat("z", broker.MaxTagBytes+1) }),
		"a schedule of too high a cap":    set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.Cap = broker.MaxMissed + 1 }),
		"a weight of bytes":               weight("\xff", 1),
		"a schedule for bytes":            set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.Job.Tenant = "\xff" }),
		"a schedule with a header of bytes": set(schedule("s", "@hourly"), func(s *broker.Setting) {
			s.Schedule.Job.Headers = map[string]string{"h": "\xff"}
		}),
		"a schedule at a time far east": set(schedule("s", "@hourly"), func(s *broker.Setting) {
			s.Schedule.Job.At = time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("x", 30*3600))
		}),
		"a schedule of a negative cap":   set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.Cap = -1 }),
		"a schedule of a negative grace": set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.Grace = -1 }),
		"a schedule of a strange DST":    set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.DST = "bogus" }),
		"a schedule of strange missed":   set(schedule("s", "@hourly"), func(s *broker.Setting) { s.Schedule.Missed = "bogus" }),
	}
}

// scribble changes everything that settings point to.
func scribble(settings []broker.Setting) {
	for _, s := range settings {
		switch s.Kind {
		case broker.LimitSetting:
			s.Limit.Tasks[0], s.Limit.Running, s.Limit.Count = "scribbled", 99, 99
		case broker.CapacitySetting:
			s.Capacity.Jobs = 99
		case broker.RetentionSetting:
			s.Retention.Done = 99
		case broker.ScheduleSetting:
			s.Schedule.Spec, s.Schedule.Job.Payload[0], s.Schedule.Job.Headers["h"] = "scribbled", 'X', "2"
		}
	}
}
