package spool

import (
	"context"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// flow returns the broker's part about time and flow.
func (c *Client) flow() (broker.Flow, error) {
	f, ok := c.broker.(broker.Flow)
	if !ok {
		return nil, fmt.Errorf("%w: broker %q has no settings, limits and schedules", ErrUnsupported, c.caps.Broker)
	}
	return f, nil
}

// Settings returns the settings in force of a queue (limits, weights, capacities,
// retentions, ageing, schedules), sorted; queue "" means all.
func (c *Client) Settings(ctx context.Context, queue string) ([]broker.QueueSetting, error) {
	f, err := c.flow()
	if err != nil {
		return nil, err
	}
	return f.Settings(ctx, queue)
}

// Configure changes the settings of one queue, all or none, and durably. What it
// sets is an operator's, and holds, in place of what code declares, until it is
// cleared (Change.Clear). ErrInvalid is returned for a setting that can never be
// right, ErrConflict when a Revision given is not the current one.
func (c *Client) Configure(ctx context.Context, queue string, change broker.Change) error {
	f, err := c.flow()
	if err != nil {
		return err
	}
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("configure: %w: queue name %w", ErrInvalid, err)
	}
	for i := range change.Set {
		if s := change.Set[i].Schedule; s != nil {
			if _, _, err := instants(s); err != nil {
				return fmt.Errorf("configure %s: schedule %q: %w", queue, change.Set[i].Name, err)
			}
		}
	}
	err = c.repeat(ctx, func(call broker.Call) error { return f.Configure(ctx, call, queue, change) })
	if err != nil {
		return fmt.Errorf("configure %s: %w", queue, err)
	}
	return nil
}
