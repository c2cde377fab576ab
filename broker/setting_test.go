package broker_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

func scheduled(change func(s *broker.Schedule)) broker.Setting {
	s := broker.Schedule{
		Spec: "@hourly", Zone: "Europe/Paris", DST: "vixie", Missed: "skip", Cap: 3, Grace: time.Hour,
		Job: broker.NewJob{Task: "t", Payload: []byte("\xff"), Tenant: "ä", Group: "g\x00", Key: "k\u2028", Headers: map[string]string{"h": "<1>"}},
	}
	change(&s)
	return broker.Setting{Kind: broker.ScheduleSetting, Name: "s", Schedule: &s}
}

func TestSettingThatIsValidSurvivesItsJSON(t *testing.T) {
	for _, s := range []broker.Setting{
		scheduled(func(*broker.Schedule) {}),
		scheduled(func(s *broker.Schedule) { s.Zone, s.DST, s.Missed, s.Cap, s.Grace = "", "", "", 0, 0 }),
		scheduled(func(s *broker.Schedule) { s.DST, s.Missed = "wall", "latest" }),
		scheduled(func(s *broker.Schedule) { s.Missed = "all" }),
		{Kind: broker.WeightSetting, Name: "ü\x00\ufffd", Weight: 1},
	} {
		if err := s.Validate(); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var got broker.Setting
		if err := json.Unmarshal(text, &got); err != nil || !reflect.DeepEqual(got, s) {
			t.Errorf("%s reads as %+v, %v", text, got, err)
		}
	}
}

func TestSettingThatCannotBeKeptIsRefusedByField(t *testing.T) {
	const bytes = "x\xff"
	far := time.Date(2026, 3, 1, 12, 0, 0, 0, time.FixedZone("x", 30*3600))
	for _, c := range []struct {
		field string
		s     broker.Setting
	}{
		{"tenant", broker.Setting{Kind: broker.WeightSetting, Name: bytes, Weight: 1}},
		{"name", broker.Setting{Kind: broker.LimitSetting, Name: bytes, Limit: &broker.Limit{Tasks: []string{"t"}, Running: 1}}},
		{"task", broker.Setting{Kind: broker.LimitSetting, Name: "l", Limit: &broker.Limit{Tasks: []string{bytes}, Running: 1}}},
		{"task", broker.Setting{Kind: broker.RetentionSetting, Name: bytes, Retention: &broker.Retention{Done: 1}}},
		{`retention "t": has no retention`, broker.Setting{Kind: broker.RetentionSetting, Name: "t"}},
		{"retention of the queue: a retention is at most 100 years", broker.Setting{Kind: broker.RetentionSetting, Retention: &broker.Retention{Dead: broker.MaxDelay + 1}}},
		{"ageing of the queue: the step is 0s, it has to be above 0", broker.Setting{Kind: broker.AgeingSetting}},
		{"ageing of the queue: the step is 876000h0m0.000000001s, it has to be above 0 and at most 100 years", broker.Setting{Kind: broker.AgeingSetting, Ageing: broker.MaxDelay + 1}},
		{"expression", scheduled(func(s *broker.Schedule) { s.Spec = bytes })},
		{"zone", scheduled(func(s *broker.Schedule) { s.Zone = bytes })},
		{"task", scheduled(func(s *broker.Schedule) { s.Job.Task = bytes })},
		{"tenant", scheduled(func(s *broker.Schedule) { s.Job.Tenant = bytes })},
		{"group", scheduled(func(s *broker.Schedule) { s.Job.Group = bytes })},
		{"key", scheduled(func(s *broker.Schedule) { s.Job.Key = bytes })},
		{"header", scheduled(func(s *broker.Schedule) { s.Job.Headers = map[string]string{bytes: ""} })},
		{"header", scheduled(func(s *broker.Schedule) { s.Job.Headers = map[string]string{"h": bytes} })},
		{"time", scheduled(func(s *broker.Schedule) { s.Job.At = far })},
		{"delay", scheduled(func(s *broker.Schedule) { s.Job.Delay = 1 })},
		{"batch", scheduled(func(s *broker.Schedule) { s.Job.BatchSize = 1 })},
		{"batch", scheduled(func(s *broker.Schedule) { s.Job.Batch = broker.NewID() })},
		{"1 to 1000", scheduled(func(s *broker.Schedule) { s.Cap = -1 })},
		{"1 minute", scheduled(func(s *broker.Schedule) { s.Grace = -1 })},
		{"wall (or nothing) and vixie", scheduled(func(s *broker.Schedule) { s.DST = "Wall" })},
		{"latest (or nothing), all and skip", scheduled(func(s *broker.Schedule) { s.Missed = bytes })},
	} {
		if err := c.s.Validate(); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), c.field) {
			t.Errorf("of the %s: %v", c.field, err)
		}
	}
}

func TestASettingWithAFieldOfAnotherKindIsRefused(t *testing.T) {
	far := broker.Schedule{Spec: "@hourly", Job: broker.NewJob{Task: "t", At: time.Date(20_000, 1, 1, 0, 0, 0, 0, time.UTC)}} // has no JSON
	weight := broker.Setting{Kind: broker.WeightSetting, Name: "x", Weight: 2}
	for field, add := range map[string]func(s *broker.Setting){
		"limit":     func(s *broker.Setting) { s.Limit = &broker.Limit{Tasks: []string{"t"}, Running: 1} },
		"capacity":  func(s *broker.Setting) { s.Capacity = &broker.Capacity{Jobs: 1} },
		"retention": func(s *broker.Setting) { s.Retention = &broker.Retention{} },
		"ageing":    func(s *broker.Setting) { s.Ageing = 1 },
		"schedule":  func(s *broker.Setting) { s.Schedule = &far },
	} {
		s := weight
		add(&s)
		c := broker.Change{Set: []broker.Setting{s}}
		if err := c.Validate(); !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("with a %s: %v", field, err)
		}
	}
	c := broker.Change{Set: []broker.Setting{weight}}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	s := scheduled(func(*broker.Schedule) {})
	s.Weight = 1
	c.Set = []broker.Setting{s}
	if err := c.Validate(); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("a schedule with a weight: %v", err)
	}
}
