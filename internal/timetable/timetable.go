// Package timetable reads what a schedule of a store means: its expression, zone
// and policies.
package timetable

import (
	"fmt"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
)

// Table is what a schedule's fields mean.
type Table struct {
	cron.Schedule
	CatchUp cron.CatchUp // of instants that nobody saw
}

// Read reads the fields of a schedule. An error comes with the name of the one
// that is wrong, as broker.Schedule has it, and wraps broker.ErrInvalid; an
// expression that never fires is one.
func Read(s *broker.Schedule) (field string, p Table, err error) {
	invalid := func(field string, err error) (string, Table, error) {
		return field, Table{}, fmt.Errorf("%w: %w", broker.ErrInvalid, err)
	}
	dst, err := cron.ParseDST(s.DST)
	if err != nil {
		return invalid("DST", err)
	}
	if _, err := cron.Zone(s.Zone); err != nil {
		return invalid("Zone", err)
	}
	if p.Schedule, err = cron.New(s.Spec, s.Zone, dst); err != nil {
		return invalid("Spec", err)
	}
	if p.CatchUp.Missed, err = cron.ParseMissed(s.Missed); err != nil {
		return invalid("Missed", err)
	}
	p.CatchUp.Cap, p.CatchUp.Grace = s.Cap, s.Grace
	if err := p.CatchUp.Validate(); err != nil {
		return invalid("Cap, Grace", err)
	}
	return "", p, nil
}
