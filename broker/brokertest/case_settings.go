package brokertest

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

var settingRules = []rule{
	{"a setting of every kind is in force as it was set", func(f *fixture) {
		want(f, "settings of a new store", len(f.settings("")), 0)
		all := everyKind()
		f.set(all...)
		f.wantSettings("all", all...)
		for _, s := range f.settings(queue) {
			if s.Queue != queue || s.Owner != "" || s.Revision == 0 || s.Declared != nil {
				f.Errorf("%s", settingText(&s.Setting))
			}
		}
		f.clear(all[2:]...)
		f.wantSettings("two are left", all[:2]...)
		f.clear(all...)
		f.wantSettings("none is left")
	}},
	{"settings are sorted by queue, kind and name, and can be had for one queue", func(f *fixture) {
		for _, q := range []string{"b", "a", "a-b", "B"} {
			c := broker.Change{Set: []broker.Setting{weight("y", 1), weight("x", 1), weight("", 2), ageing(time.Second), weight("x\x00", 1)}}
			f.must("configure", f.b.Configure(f.ctx, broker.NewCall(), q, c))
		}
		var got, wanted []string
		for _, s := range f.settings("") {
			got = append(got, s.Queue+" "+string(s.Kind)+" "+s.Name)
		}
		for _, q := range []string{"B", "a", "a-b", "b"} {
			wanted = append(wanted, q+" ageing ", q+" weight ", q+" weight x", q+" weight x\x00", q+" weight y")
		}
		want(f, "order", strings.Join(got, ","), strings.Join(wanted, ","))
		want(f, "settings of one queue", len(f.settings("a")), 5)
		want(f, "settings of a queue that nobody knows", len(f.settings("nobody")), 0)
	}},
	{"a change with a setting that can never be right is refused whole", func(f *fixture) {
		f.set(weight("old", 2))
		for what, s := range wrongSettings() {
			err := f.change(broker.Change{
				Set:   []broker.Setting{weight("new", 3), s},
				Clear: []broker.SettingName{{Kind: broker.WeightSetting, Name: "old"}},
			})
			f.wantErr(what, err, broker.ErrInvalid)
			f.wantErr(what+", declared", f.change(broker.Change{Declare: true, Owner: "p", Set: []broker.Setting{weight("new", 3), s}}), broker.ErrInvalid)
			f.wantSettings(what, weight("old", 2))
		}
		for _, name := range []string{"", ".", "a b"} {
			err := f.b.Configure(f.ctx, broker.NewCall(), name, broker.Change{Set: []broker.Setting{weight("x", 1)}})
			f.wantErr("queue "+name, err, broker.ErrInvalid)
		}
		f.wantErr("set and cleared", f.change(broker.Change{
			Set: []broker.Setting{weight("old", 3)}, Clear: []broker.SettingName{{Kind: broker.WeightSetting, Name: "old"}},
		}), broker.ErrInvalid)
		f.wantErr("a declaration without an owner", f.change(broker.Change{Declare: true, Set: []broker.Setting{weight("x", 1)}}), broker.ErrInvalid)
	}},
	{"an operator's setting is in force until it is cleared", func(f *fixture) {
		f.declare("p", weight("x", 2), weight("y", 3))
		declared := f.inForce(broker.WeightSetting, "x")
		want(f, "owner of the declared one", declared.Owner, "p")
		f.set(weight("x", 9))
		s := f.inForce(broker.WeightSetting, "x")
		want(f, "weight", s.Weight, 9)
		want(f, "owner", s.Owner, "")
		if s.Declared == nil || s.Declared.Weight != 2 || s.Declared.Owner != "p" || s.Declared.Revision != declared.Revision {
			f.Errorf("declared below it: %s, want %s", settingText(&s), settingText(&declared))
		}
		f.declare("p", weight("x", 4), weight("y", 3))
		s = f.inForce(broker.WeightSetting, "x")
		want(f, "weight after another declaration", s.Weight, 9)
		if s.Declared == nil || s.Declared.Weight != 4 {
			f.Errorf("declared below it: %s", settingText(&s))
		}
		f.clear(weight("x", 0))
		f.wantSettings("cleared", weight("x", 4), weight("y", 3))
		want(f, "owner", f.inForce(broker.WeightSetting, "x").Owner, "p")
	}},
	{"an operator's setting stays when the declared one goes", func(f *fixture) {
		f.declare("p", weight("x", 2))
		f.set(weight("x", 9))
		f.declare("p")
		f.wantSettings("nothing is declared", weight("x", 9))
		if s := f.inForce(broker.WeightSetting, "x"); s.Declared != nil {
			f.Errorf("declared below it: %s", settingText(&s))
		}
		f.clear(weight("x", 0))
		f.wantSettings("cleared")
	}},
	{"clearing what an operator never set changes nothing", func(f *fixture) {
		f.clear(weight("x", 0), schedule("none", ""))
		f.declare("p", weight("x", 2))
		f.clear(weight("x", 0))
		f.wantSettings("a declared one", weight("x", 2))
	}},
	{"a declaration replaces what its owner had declared, and nothing else", func(f *fixture) {
		f.declare("p", weight("a", 1), weight("b", 2))
		f.declare("q", weight("c", 3))
		f.set(weight("d", 4))
		f.declare("p", weight("b", 5), weight("e", 6))
		f.wantSettings("declared again", weight("b", 5), weight("c", 3), weight("d", 4), weight("e", 6))
		f.declare("p")
		f.wantSettings("nothing of one owner", weight("c", 3), weight("d", 4))
		f.declare("r")
		f.wantSettings("nothing of an owner that had nothing", weight("c", 3), weight("d", 4))
	}},
	{"what an owner declares can be removed by name, and comes back with its next declaration", func(f *fixture) {
		undeclare := func(owner string, of ...broker.Setting) error {
			c := broker.Change{Owner: owner}
			for i := range of {
				c.Undeclare = append(c.Undeclare, nameOf(&of[i]))
			}
			return f.change(c)
		}
		f.declare("p", weight("x", 2), weight("y", 3), weight("z", 4))
		f.set(weight("y", 9))
		f.must("of another owner", undeclare("q", weight("x", 0), weight("none", 0)))
		f.wantSettings("of another owner", weight("x", 2), weight("y", 9), weight("z", 4))
		f.must("undeclare", undeclare("p", weight("x", 0), weight("y", 0)))
		f.wantSettings("what an operator set stays", weight("y", 9), weight("z", 4))
		f.clear(weight("y", 0))
		f.wantSettings("nothing is below it", weight("z", 4))
		f.declare("p", weight("x", 2), weight("z", 4))
		f.wantSettings("declared again", weight("x", 2), weight("z", 4))
		f.wantErr("of nobody", undeclare("", weight("x", 0)), broker.ErrInvalid)
		f.wantErr("in a declaration", f.change(broker.Change{Declare: true, Owner: "p", Undeclare: []broker.SettingName{{Kind: broker.WeightSetting, Name: "x"}}}), broker.ErrInvalid)
		f.wantSettings("refused", weight("x", 2), weight("z", 4))
	}},
	{"versions of a program deployed over each other end with the last one's settings", func(f *fixture) {
		old := []broker.Setting{running("slots", broker.PerQueue, 2), weight("x", 2)}
		next := []broker.Setting{running("slots", broker.PerQueue, 5), weight("y", 3)}
		for range 3 {
			f.declare("p", old...)
			f.wantSettings("back", old...)
			f.declare("p", next...)
			f.wantSettings("forward", next...)
		}
	}},
	{"the last start of an owner wins, however late an older one declares", func(f *fixture) {
		started := func(owner string, id byte, age time.Duration, settings ...broker.Setting) error {
			return f.change(broker.Change{Declare: true, Owner: owner, Start: broker.ID{id}, Age: age, Set: settings})
		}
		const long = 1000 * time.Hour // so that the time that the case takes decides nothing
		f.must("the second start", started("p", 2, long, weight("x", 2)))
		f.wantErr("the first, late", started("p", 1, 2*long, weight("x", 1), weight("y", 1)), broker.ErrConflict)
		f.wantErr("with nothing", started("p", 1, 2*long), broker.ErrConflict)
		f.wantSettings("refused", weight("x", 2))
		f.must("of another owner", started("q", 1, 2*long, weight("y", 1)))
		f.must("the second again, which looks older", started("p", 2, 3*long, weight("x", 3)))
		f.must("the second again", started("p", 2, long))
		f.wantErr("the first, when there is nothing", started("p", 1, 2*long, weight("x", 1)), broker.ErrConflict)
		f.wantSettings("nothing of one owner", weight("y", 1))
		f.set(weight("x", 9))
		f.must("the third", started("p", 3, long/2, weight("x", 4)))
		f.wantErr("the second is the former one now", started("p", 2, long, weight("x", 2)), broker.ErrConflict)
		f.declare("p", weight("x", 5))
		f.wantErr("the third after one that has no name", started("p", 3, long/2, weight("x", 4)), broker.ErrConflict)
		f.clear(weight("x", 0))
		f.wantSettings("in the end", weight("x", 5), weight("y", 1))
		f.wantErr("a start to come", started("p", 4, -long), broker.ErrInvalid)
		f.wantErr("a start of long ago", started("p", 4, broker.MaxDelay+1), broker.ErrInvalid)
		if !f.h.Reopen {
			return
		}
		f.must("close", f.b.Close())
		f.b = f.open()
		f.wantErr("the third, after a restart", started("p", 3, long/2, weight("x", 4)), broker.ErrConflict)
	}},
	{"the last declaration of a name wins, and it belongs to its owner", func(f *fixture) {
		f.declare("p", weight("x", 2), weight("y", 2))
		f.declare("q", weight("x", 3))
		f.wantSettings("taken over", weight("x", 3), weight("y", 2))
		want(f, "owner", f.inForce(broker.WeightSetting, "x").Owner, "q")
		f.declare("p", weight("y", 2))
		f.wantSettings("the former owner has dropped it", weight("x", 3), weight("y", 2))
		f.declare("p", weight("x", 4), weight("y", 2))
		f.declare("q")
		f.wantSettings("taken back", weight("x", 4), weight("y", 2))
	}},
	{"a revision rises with each change, and only then", func(f *fixture) {
		revision := func(name string) uint64 { return f.inForce(broker.WeightSetting, name).Revision }
		f.declare("p", weight("x", 2), weight("y", 2))
		x, y := revision("x"), revision("y")
		if x == 0 || x == y {
			f.Errorf("revisions %d and %d", x, y)
		}
		f.declare("p", weight("y", 2), weight("x", 2))
		want(f, "of an unchanged redeclaration", revision("x"), x)
		f.declare("p", weight("x", 3), weight("y", 2))
		if now := revision("x"); now <= max(x, y) {
			f.Errorf("revision %d after a change, was %d", now, x)
		}
		want(f, "of what did not change", revision("y"), y)
		x = revision("x")
		f.set(weight("x", 4))
		if now := revision("x"); now <= x {
			f.Errorf("revision %d after an operator's change, was %d", now, x)
		}
		x = revision("x")
		f.declare("p")
		f.clear(weight("x", 0))
		f.set(weight("x", 4))
		if now := revision("x"); now <= x {
			f.Errorf("revision %d of a setting that came again, was %d", now, x)
		}
	}},
	{"a change of what the caller did not see is refused whole", func(f *fixture) {
		f.set(weight("x", 2), weight("y", 2))
		seen := f.inForce(broker.WeightSetting, "x").Revision
		at := func(n int, revision uint64) broker.Setting {
			s := weight("x", n)
			s.Revision = revision
			return s
		}
		f.set(at(3, seen))
		f.wantSettings("seen", weight("x", 3), weight("y", 2))
		f.wantErr("stale", f.change(broker.Change{Set: []broker.Setting{weight("y", 9), at(4, seen)}}), broker.ErrConflict)
		f.wantErr("made up", f.change(broker.Change{Set: []broker.Setting{at(4, 1<<40)}}), broker.ErrConflict)
		f.wantSettings("refused", weight("x", 3), weight("y", 2))
		other := weight("none", 1)
		other.Revision = seen
		f.wantErr("of a setting that is not there", f.change(broker.Change{Set: []broker.Setting{other}}), broker.ErrConflict)
		f.set(at(5, 0))
		f.wantSettings("whatever it is", weight("x", 5), weight("y", 2))
	}},
	{"an operator can change a declared setting that was seen", func(f *fixture) {
		f.declare("p", weight("x", 2))
		s := weight("x", 3)
		s.Revision = f.inForce(broker.WeightSetting, "x").Revision
		f.set(s)
		f.wantSettings("changed", weight("x", 3))
		s.Weight = 4
		f.wantErr("changed meanwhile", f.change(broker.Change{Set: []broker.Setting{s}}), broker.ErrConflict)
	}},
	{"no more than four limits bind a task", func(f *fixture) {
		var all []broker.Setting
		for i := range broker.MaxTaskLimits {
			all = append(all, running(fmt.Sprint("l", i), broker.PerQueue, 5, "t", "u"))
		}
		f.declare("p", all...)
		f.wantErr("a fifth, set", f.change(broker.Change{Set: []broker.Setting{weight("x", 1), running("l9", broker.PerQueue, 5, "v", "u")}}), broker.ErrInvalid)
		f.wantErr("a fifth, of another owner", f.change(broker.Change{Declare: true, Owner: "q", Set: []broker.Setting{running("l9", broker.PerQueue, 5)}}), broker.ErrInvalid)
		f.wantErr("five at once", f.change(broker.Change{Declare: true, Owner: "p", Set: append(all, running("l9", broker.PerQueue, 5))}), broker.ErrInvalid)
		f.wantSettings("refused", all...)
		f.set(running("l0", broker.PerQueue, 7, "t", "u"), running("l8", broker.PerQueue, 5, "v"))
		f.declare("p", all[1:]...)
		f.clear(all[0])
		f.set(running("l9", broker.PerQueue, 5))
	}},
	{"a change that is too large is refused whole", func(f *fixture) {
		many := make([]broker.Setting, broker.MaxChangeSettings+1)
		for i := range many {
			many[i] = weight(fmt.Sprint(i), 2)
		}
		f.wantErr("one too many", f.change(broker.Change{Set: many}), broker.ErrInvalid)
		f.wantErr("one too many to clear", f.change(broker.Change{Clear: make([]broker.SettingName, broker.MaxChangeSettings+1)}), broker.ErrInvalid)
		f.wantErr("a long owner", f.change(broker.Change{Declare: true, Owner: strings.Repeat("o", broker.MaxNameBytes+1)}), broker.ErrInvalid)
		large := make([]broker.Setting, 10)
		for i := range large {
			large[i] = schedule(fmt.Sprint("s", i), "@hourly")
			large[i].Schedule.Job.Payload = make([]byte, 700<<10)
		}
		f.wantErr("too many bytes", f.change(broker.Change{Set: large}), broker.ErrTooLarge)
		f.wantSettings("refused")
		f.set(large[:8]...)
		f.set(many[1:]...)
		want(f, "settings", len(f.settings(queue)), 8+broker.MaxChangeSettings)
	}},
	{"the caller owns what it gave and what it got", func(f *fixture) {
		given := everyKind()
		f.set(given...)
		scribble(given)
		f.wantSettings("what was given has changed", everyKind()...)
		var got []broker.Setting
		for _, s := range f.settings(queue) {
			got = append(got, s.Setting)
		}
		scribble(got)
		f.wantSettings("what was got has changed", everyKind()...)
	}},
	{"another client sees and obeys a setting at once", func(f *fixture) {
		other := f.open()
		f.set(running("slots", broker.PerQueue, 1))
		f.addMany(3)
		want(f, "leases", len(f.take(other, broker.ClaimRequest{}).Leases), 1)
		all, err := other.Settings(f.ctx, "")
		f.must("settings", err)
		exactly(f, "settings", all, 1)
	}},
	{"a queue's settings govern no other queue", func(f *fixture) {
		f.set(running("slots", broker.PerQueue, 1), capacity("", broker.Capacity{Jobs: 1}))
		f.add("other", plain(), plain())
		want(f, "leases of the other", len(f.take(f.b, broker.ClaimRequest{Queues: []string{"other"}}).Leases), 2)
	}},
	{"settings come before the first job, and add no row to the counts", func(f *fixture) {
		f.set(everyKind()...)
		counts, err := f.b.Counts(f.ctx, "")
		f.must("counts", err)
		want(f, "rows of counts", len(counts), 0)
		want(f, "leases", len(f.take(f.b, broker.ClaimRequest{}).Leases), 0)
	}},
	{"settings outlive the last client", func(f *fixture) {
		if !f.h.Reopen {
			f.Skipf("this store ends with its clients")
		}
		f.declare("p", everyKind()...)
		f.set(weight("acme", 8), weight("z", 2))
		f.pause("nightly")
		before := settingsText(f.settings(""))
		for range 2 {
			f.must("close", f.b.Close())
			f.b = f.open()
			want(f, "settings", settingsText(f.settings("")), before)
		}
		want(f, "a tick of what is paused", f.tickTo("nightly", time.Time{}, f.now().Add(time.Hour)), false)
		f.declare("p", everyKind()...)
		want(f, "settings after an unchanged redeclaration", settingsText(f.settings("")), before)
	}},
	{"a closed client refuses, and one whose context has ended changes nothing", func(f *fixture) {
		b := f.open()
		f.must("close", b.Close())
		ended, cancel := context.WithCancel(f.ctx)
		cancel()
		for _, c := range []struct {
			b    broker.Broker
			ctx  context.Context
			want error
		}{{b, f.ctx, broker.ErrClosed}, {f.b, ended, context.Canceled}} {
			f.wantErr("configure", c.b.Configure(c.ctx, broker.NewCall(), queue, broker.Change{Set: []broker.Setting{weight("x", 2)}}), c.want)
			_, err := c.b.Settings(c.ctx, "")
			f.wantErr("settings", err, c.want)
			_, _, err = c.b.Tick(c.ctx, broker.NewCall(), broker.Tick{Queue: queue, Schedule: "s", Next: f.now()})
			f.wantErr("tick", err, c.want)
		}
		f.wantSettings("after all")
	}},
}
