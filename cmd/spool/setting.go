package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// queueFlag names the queue that a setting governs.
type queueFlag struct {
	Queue name `short:"q" default:"default" placeholder:"NAME" help:"Queue that it governs (${default})."`
}

// clearFlags are those of every command that takes a setting back.
type clearFlags struct {
	queueFlag
	Owner name `placeholder:"NAME" help:"Remove what this program declares, instead of what an operator set: for a program that is gone. Its next start declares it again."`
}

// setFlags are those of every command that changes a setting.
type setFlags struct {
	queueFlag
	Revision uint64 `placeholder:"N" help:"Only when the setting is at this revision still, as list shows it."`
}

// settingFlags choose what a list shows.
type settingFlags struct {
	Queue name `short:"q" placeholder:"NAME" help:"Of this queue; of every queue when not given."`
}

// settings are those of one queue in a store that is open.
type settings struct {
	client *spool.Client
	queue  string
}

// withSettings opens the store, calls fn with the settings of a queue, and
// closes it.
func (a *app) withSettings(how access, queue name, fn func(context.Context, *settings) error) error {
	return a.with(how, func(ctx context.Context, c *spool.Client) error {
		return fn(ctx, &settings{c, string(queue)})
	})
}

// find returns the setting in force, nil when there is none.
func (s *settings) find(ctx context.Context, kind broker.SettingKind, named string) (*broker.Setting, error) {
	all, err := s.client.Settings(ctx, s.queue)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(q broker.QueueSetting) bool {
		return q.Queue == s.queue && q.Kind == kind && q.Name == named
	})
	if i < 0 {
		return nil, nil
	}
	return &all[i].Setting, nil
}

// must is find for a setting that has to be there.
func (s *settings) must(ctx context.Context, kind broker.SettingKind, named string) (*broker.Setting, error) {
	found, err := s.find(ctx, kind, named)
	if err == nil && found == nil {
		err = &noSetting{fmt.Sprintf("queue %s has no %s", s.queue, titleOf(kind, named))}
	}
	return found, err
}

// set makes an operator's setting.
func (s *settings) set(ctx context.Context, to broker.Setting) error {
	return s.client.Configure(ctx, s.queue, broker.Change{Set: []broker.Setting{to}})
}

// noSetting says that there is nothing of that name to change.
type noSetting struct{ text string }

func (e *noSetting) Error() string { return e.text }

// set makes a setting of what to makes of the one in force (nil: of none), and
// says what is in force then. What can never be right makes no directory.
func (a *app) set(f *setFlags, kind broker.SettingKind, named string, to func(old *broker.Setting) broker.Setting) error {
	build := func(old *broker.Setting) broker.Setting {
		t := to(old)
		t.Kind, t.Name, t.Revision = kind, named, f.Revision
		return t
	}
	if !utf8.ValidString(named) {
		return usagef("%q is not UTF-8, and settings are kept as JSON", named)
	}
	first := build(nil)
	if err := first.Validate(); err != nil {
		return err
	}
	return a.withSettings(creating, f.Queue, func(ctx context.Context, s *settings) error {
		old, err := s.find(ctx, kind, named)
		if err != nil {
			return err
		}
		if err := s.set(ctx, build(old)); err != nil {
			return err
		}
		return a.inForce(ctx, s, kind, named)
	})
}

// clear takes back an operator's setting, or with --owner what a program
// declares, and says what holds then.
func (a *app) clear(f *clearFlags, kind broker.SettingKind, named string) error {
	return a.withSettings(changing, f.Queue, func(ctx context.Context, s *settings) error {
		old, err := s.must(ctx, kind, named)
		if err != nil {
			return err
		}
		change := broker.Change{Clear: []broker.SettingName{{Kind: kind, Name: named}}}
		if f.Owner != "" {
			change = broker.Change{Owner: string(f.Owner), Undeclare: change.Clear}
		}
		if err := mayClear(s.queue, old, string(f.Owner)); err != nil {
			return err
		}
		if err := s.client.Configure(ctx, s.queue, change); err != nil {
			return err
		}
		if f.Owner != "" {
			a.note("a start of %s declares it again", f.Owner)
		}
		return a.inForce(ctx, s, kind, named)
	})
}

// mayClear says who has a setting, when there is nothing of that owner ("" is
// an operator) to take back.
func mayClear(queue string, t *broker.Setting, owner string) error {
	declarer := t.Owner
	if t.Declared != nil {
		declarer = t.Declared.Owner
	}
	what := fmt.Sprintf("%s of queue %s", titleOf(t.Kind, t.Name), queue)
	switch {
	case owner == declarer || owner == "" && t.Owner == "":
		return nil
	case owner == "":
		return usagef("%s is declared by the code of %s: change it there, or set another over it; when that program is gone, --owner=%s removes the declaration", what, declarer, declarer)
	case declarer == "":
		return usagef("%s is declared by no program, an operator set it: without --owner it is taken back", what)
	}
	return usagef("%s is declared by %s, not by %s", what, declarer, owner)
}

// inForce says what holds after a change: the setting, or that there is none.
func (a *app) inForce(ctx context.Context, s *settings, kind broker.SettingKind, named string) error {
	now, err := s.find(ctx, kind, named)
	switch {
	case err != nil:
		return err
	case a.json && now == nil:
		return a.object(settingView{Queue: s.queue, Kind: kind, Name: named})
	case a.json:
		return a.object(newSettingView(s.queue, now))
	case now == nil:
		return a.printf("queue %s has no %s any more", s.queue, titleOf(kind, named))
	}
	return a.printf("queue %s, %s: %s (%s)", s.queue, titleOf(kind, named), text.Safe(gistOf(now)), byWhom(now))
}

// listSettings prints the settings of a kind.
func (a *app) listSettings(f *settingFlags, kind broker.SettingKind) error {
	return a.withSettings(reading, f.Queue, func(ctx context.Context, s *settings) error {
		all, err := s.client.Settings(ctx, s.queue)
		if err != nil {
			return err
		}
		all = slices.DeleteFunc(all, func(q broker.QueueSetting) bool { return q.Kind != kind })
		if a.json {
			for i := range all {
				if err := a.object(newSettingView(all[i].Queue, &all[i].Setting)); err != nil {
					return err
				}
			}
			return nil
		}
		if len(all) == 0 {
			a.note("no %s is set", kinds[kind].title)
			return nil
		}
		if kind == broker.ScheduleSetting {
			return a.schedules(all)
		}
		w := a.table("QUEUE", kinds[kind].column, "SETTING", "BY", "REVISION", "DECLARED")
		for i := range all {
			t, declared := &all[i].Setting, "-"
			if t.Declared != nil {
				declared = gistOf(t.Declared) + " by " + t.Declared.Owner
			}
			row(w, all[i].Queue, text.Safe(shownName(t)), text.Safe(gistOf(t)), text.Safe(cmp.Or(t.Owner, operator)), fmt.Sprint(t.Revision), text.Safe(declared))
		}
		return w.Flush()
	})
}

// operator stands where a setting has no owner.
const operator = "operator"

// byWhom says whose setting it is.
func byWhom(t *broker.Setting) string {
	switch {
	case t.Owner != "":
		return fmt.Sprintf("declared by %s, revision %d", t.Owner, t.Revision)
	case t.Declared != nil:
		return fmt.Sprintf("set by an operator, revision %d, over what %s declares", t.Revision, t.Declared.Owner)
	}
	return fmt.Sprintf("set by an operator, revision %d", t.Revision)
}

// kinds says how each kind of setting is shown.
var kinds = map[broker.SettingKind]struct{ title, column, unnamed string }{
	broker.LimitSetting:     {"limit", "LIMIT", ""},
	broker.WeightSetting:    {"weight", "TENANT", `""`},
	broker.CapacitySetting:  {"capacity", "OF", "the queue"},
	broker.RetentionSetting: {"retention", "TASK", "every task"},
	broker.AgeingSetting:    {"ageing", "OF", "the queue"},
	broker.ScheduleSetting:  {"schedule", "SCHEDULE", ""},
}

// shownName is what the column of a list's second place says.
func shownName(t *broker.Setting) string {
	if t.Kind == broker.CapacitySetting && t.Name == broker.TenantCapacity {
		return "each tenant"
	}
	return cmp.Or(t.Name, kinds[t.Kind].unnamed)
}

// titleOf names a setting in a sentence.
func titleOf(kind broker.SettingKind, named string) string {
	t := &broker.Setting{Kind: kind, Name: named}
	switch kind {
	case broker.LimitSetting, broker.ScheduleSetting:
		return kinds[kind].title + " " + text.Safe(named)
	case broker.WeightSetting:
		return fmt.Sprintf("weight of tenant %q", named)
	case broker.RetentionSetting:
		if named != "" {
			return "retention of task " + named
		}
	}
	return kinds[kind].title + " of " + shownName(t)
}
