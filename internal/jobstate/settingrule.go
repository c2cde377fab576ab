package jobstate

import (
	"encoding/json"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// CheckChange refuses a change of settings that can never be right.
func CheckChange(queue string, c *broker.Change) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if err := c.Validate(); err != nil {
		return err
	}
	for i := range c.Set {
		if err := checkRate(&c.Set[i]); err != nil {
			return err
		}
	}
	return nil
}

// checkSetting refuses what can never be right.
func checkSetting(t *broker.Setting) error {
	if err := t.Validate(); err != nil {
		return err
	}
	return checkRate(t)
}

func checkRate(t *broker.Setting) error {
	if t.Kind == broker.LimitSetting && t.Limit.Running == 0 {
		if err := rateOf(t.Limit).Validate(); err != nil {
			return fmt.Errorf("%w: limit %q: %w", broker.ErrInvalid, t.Name, err)
		}
	}
	return nil
}

// KeptSetting is what is kept of setting i of a change: without what is kept
// beside it.
func KeptSetting(c *broker.Change, i int) *broker.Setting {
	t := c.Set[i]
	t.Owner, t.Revision, t.Declared = "", 0, nil
	if c.Declare {
		t.Owner = c.Owner
	}
	if t.Schedule != nil {
		sched := *t.Schedule
		sched.Paused, sched.Due = false, time.Time{}
		sched.Job.ClearID()
		t.Schedule = &sched
	}
	return &t
}

// SameSetting compares settings as they are kept, but for their revision.
func SameSetting(a, b *broker.Setting) bool {
	if a == nil || b == nil {
		return a == b
	}
	x, y := *a, *b
	x.Revision, y.Revision = 0, 0
	if reflect.DeepEqual(x, y) {
		return true
	}
	xt, err1 := json.Marshal(&x)
	yt, err2 := json.Marshal(&y)
	return err1 == nil && err2 == nil && string(xt) == string(yt)
}

// SameInstants reports whether two schedules fire at the same instants.
func SameInstants(a, b *broker.Schedule) bool {
	return a == nil || b == nil || a.Spec == b.Spec && a.Zone == b.Zone && a.DST == b.DST
}

// CheckLimits refuses settings in force that would bind a task by too many
// limits.
func CheckLimits(inForce iter.Seq[*broker.Setting]) error {
	binds := map[string][]string{}
	for t := range inForce {
		if t.Limit == nil {
			continue
		}
		for _, task := range slices.Compact(slices.Sorted(slices.Values(t.Limit.Tasks))) {
			binds[task] = append(binds[task], t.Name)
		}
	}
	for task, limits := range binds {
		if len(limits) > broker.MaxTaskLimits {
			slices.Sort(limits)
			return fmt.Errorf("%w: task %s would be bound by %d limits (%s), at most %d may: clear one, or leave the task out of one",
				broker.ErrInvalid, task, len(limits), strings.Join(limits, ", "), broker.MaxTaskLimits)
		}
	}
	return nil
}
