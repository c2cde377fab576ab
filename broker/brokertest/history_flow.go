package brokertest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// unclear reports whether the contract leaves open what an enqueue of jobs does
// now: when it would drop a job that it also answers with, or a member of a batch
// that waits (is its completion job before or after the new jobs?).
func (p *player) unclear(queue string, jobs []broker.NewJob) bool {
	s := p.m.s
	s.mu.Lock()
	defer s.mu.Unlock()
	dropped, _ := s.toDrop(queue, jobs)
	for _, j := range dropped {
		if c := s.find(broker.Ref{Queue: queue, ID: j.Batch}); c != nil && c.waits != nil {
			return true
		}
	}
	for i := range jobs {
		n := &jobs[i]
		key := s.held(keyName{queue, n.Task, n.Key})
		if slices.ContainsFunc(dropped, func(j *job) bool { return j.ID == n.ID || key != nil && j.ID == key.id }) {
			return true
		}
	}
	return false
}

type configureStep struct {
	client int
	queue  string
	change broker.Change
}

func (s configureStep) String() string {
	text := fmt.Sprintf("client %d: configure %s:", s.client, s.queue)
	if s.change.Declare {
		text += fmt.Sprintf(" %s, started as %d %v ago, declares", s.change.Owner, s.change.Start[0], s.change.Age)
	}
	for i := range s.change.Set {
		text += " " + settingText(&s.change.Set[i])
	}
	if len(s.change.Pause)+len(s.change.Resume) > 0 {
		text += fmt.Sprintf(" pause %v, resume %v", s.change.Pause, s.change.Resume)
	}
	if len(s.change.Undeclare) > 0 {
		text += fmt.Sprintf(" undeclare %v of %s", s.change.Undeclare, s.change.Owner)
	}
	if len(s.change.Clear) > 0 {
		text += fmt.Sprintf(" clear %v", s.change.Clear)
	}
	return text
}

func (s configureStep) do(p *player) {
	err := p.real(s.client).Configure(p.f.ctx, broker.NewCall(), s.queue, s.change)
	modelErr := p.model(s.client).Configure(p.f.ctx, broker.NewCall(), s.queue, s.change)
	p.sameError("configure", err, modelErr)
}

// compareSettings wants that the broker shows the model's settings.
func (p *player) compareSettings(b broker.Broker) {
	got, err := b.Settings(p.f.ctx, "")
	p.f.must("settings", err)
	wanted, err := p.m.Settings(p.f.ctx, "")
	p.f.must("settings of the model", err)
	if g, w := settingsText(got), settingsText(wanted); g != w {
		p.f.Errorf("settings: got\n%swant\n%s", g, w)
	}
}

func settingsText(all []broker.QueueSetting) string {
	var b strings.Builder
	for i := range all {
		fmt.Fprintf(&b, "\t%s: %s\n", all[i].Queue, settingText(&all[i].Setting))
	}
	return b.String()
}

// settingText shows a setting. All cursors that are far away mean never, and
// that of a declared schedule while another is in force means nothing.
func settingText(s *broker.Setting) string {
	c := cloneOwned(s)
	if c.Schedule != nil {
		if c.Schedule.Due = s.Schedule.Due.UTC(); c.Schedule.Due.Year() > 2200 {
			c.Schedule.Due = never
		}
		c.Schedule.Paused = s.Schedule.Paused
	}
	if s.Declared != nil {
		c.Declared = cloneOwned(s.Declared)
	}
	text, err := json.Marshal(c)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// tickStep moves the cursor of a schedule. Which one and from where is decided
// when it is played.
type tickStep struct {
	client   int
	queue    string
	schedule int // of those in force, the one with this number; negative for one that is not there
	due      dueKind
	next     time.Duration // after due, or after now when that is zero; 0 for never
	slots    []slot
	jobs     []broker.NewJob
}

type dueKind int

const (
	dueAsIs dueKind = iota // where the cursor is
	dueZero
	dueWrong
)

func (s tickStep) String() string {
	var jobs []string
	for i, n := range s.jobs {
		jobs = append(jobs, fmt.Sprintf("%d:%s", s.slots[i], jobText(n)))
	}
	return fmt.Sprintf("client %d: tick schedule %d of %s from where it is, zero or elsewhere (%d), on by %v: %s",
		s.client, s.schedule, s.queue, s.due, s.next, strings.Join(jobs, ", "))
}

func (s tickStep) do(p *player) {
	t := broker.Tick{Queue: s.queue, Jobs: p.aged(s.jobs)}
	var cursor time.Time
	if t.Schedule, cursor = p.schedule(s.queue, s.schedule); s.due != dueZero {
		t.Due = cursor
	}
	if s.due == dueWrong {
		t.Due = t.Due.Add(historyUnit / 7)
	}
	switch {
	case s.next == 0:
	case t.Due.IsZero():
		t.Next = p.f.now().Add(s.next - 3*historyUnit)
	default:
		t.Next = t.Due.Add(s.next)
	}
	if t.Due.IsZero() && s.due == dueAsIs {
		t.Jobs = nil
	}
	before := p.known(s.queue, t.Jobs)
	won, now, err := p.real(s.client).Tick(p.f.ctx, broker.NewCall(), t)
	modelWon, modelNow, modelErr := p.model(s.client).Tick(p.f.ctx, broker.NewCall(), t)
	p.sameError("tick", err, modelErr)
	want(p.f, "tick: won", won, modelWon)
	if modelErr == nil {
		p.sameTime("tick: now", now, modelNow)
	}
	for i, known := range p.known(s.queue, t.Jobs) {
		if modelWon && known && !before[i] {
			p.added(s.queue, broker.Enqueued{ID: t.Jobs[i].ID})
		}
	}
}

// known says which of the jobs are there.
func (p *player) known(queue string, jobs []broker.NewJob) (there []bool) {
	p.m.s.mu.Lock()
	defer p.m.s.mu.Unlock()
	for i := range jobs {
		there = append(there, p.m.s.find(broker.Ref{Queue: queue, ID: jobs[i].ID}) != nil)
	}
	return there
}

// schedule finds the n-th schedule of a queue, and its cursor.
func (p *player) schedule(queue string, n int) (name string, cursor time.Time) {
	p.m.s.mu.Lock()
	defer p.m.s.mu.Unlock()
	f := p.m.s.flow(queue)
	var names []string
	for name := range f.settings {
		if name.Kind == broker.ScheduleSetting {
			names = append(names, name.Name)
		}
	}
	if slices.Sort(names); n < 0 || len(names) == 0 {
		return "none", time.Time{}
	}
	name = names[n%len(names)]
	return name, f.cursors[name]
}
