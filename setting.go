package spool

import (
	"context"
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/timetable"
)

// Settings returns the settings in force of a queue (limits, weights, capacities,
// retentions, ageing, schedules), sorted; queue "" means all.
func (c *Client) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	return c.broker.Settings(ctx, queue)
}

// Configure changes the settings of one queue, all or none, and durably. What it
// sets is an operator's, and holds, in place of what code declares, until it is
// cleared (Change.Clear). ErrInvalid is returned for a setting that can never be
// right, ErrConflict when a Revision given is not the current one, or a schedule
// to be paused or resumed is not there.
func (c *Client) Configure(ctx context.Context, queue string, change broker.Change) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("configure: %w: queue name %w", ErrInvalid, err)
	}
	for i := range change.Set {
		if s := change.Set[i].Schedule; s != nil {
			if _, _, err := timetable.Read(s); err != nil {
				return fmt.Errorf("configure %s: schedule %q: %w", queue, change.Set[i].Name, err)
			}
		}
	}
	asked := time.Now()
	err := c.repeat(ctx, func(call broker.Call) error {
		now := change
		if now.Declare {
			now.Age += time.Since(asked)
		}
		return c.broker.Configure(ctx, call, queue, now)
	})
	if err != nil {
		return fmt.Errorf("configure %s: %w", queue, err)
	}
	return nil
}
