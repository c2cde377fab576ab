package main

import (
	"errors"
	"time"

	"github.com/spoolq/spool/cron"
	"github.com/spoolq/spool/internal/text"
)

// instantFlags say when a schedule fires.
type instantFlags struct {
	Zone exact    `placeholder:"ZONE" help:"Time zone by its IANA name, as Europe/Paris; UTC when not given."`
	DST  cron.DST `name:"dst" placeholder:"POLICY" help:"Where the zone's clock is moved: wall (a time that does not exist is skipped, one that comes twice fires once) or vixie (a fixed time that does not exist fires right after; a pace such as */5 follows elapsed time); wall when not given."`
}

// parse reads an expression and the flags beside it.
func (f *instantFlags) parse(expr exact) (cron.Schedule, error) {
	s, err := cron.New(string(expr), string(f.Zone), f.DST)
	switch {
	case errors.Is(err, cron.ErrNever):
		return s, usagef("the expression %q never fires: no day of any year matches it", string(expr))
	case err != nil:
		return s, usagef("%v", err)
	}
	return s, nil
}

// plainWords says when a schedule fires, for a person to check.
func plainWords(s cron.Schedule) string {
	words := s.Expr().Describe()
	if s.Expr().Interval() > 0 {
		return words
	}
	words += ", " + s.Zone() + " time"
	if s.Zone() != "UTC" {
		words += ", DST policy " + s.DST().String()
	}
	return words
}

type scheduleNextCmd struct {
	Expr exact `arg:"" help:"Five fields (minute, hour, day of month, month, day of week), six with seconds in front, @daily and the like, or @every 5m; in quotes."`
	instantFlags
	After *instant `placeholder:"TIME" help:"The instants after this time; now when not given."`
	Count int      `short:"n" default:"5" placeholder:"N" help:"So many of them, up to 1000 (${default})."`
}

// Help is shown by spool schedule next --help.
func (*scheduleNextCmd) Help() string {
	return "Needs no store. Says in plain words what the expression means, and lists the coming instants, with a note where a change of the zone's clock skips or repeats one. " +
		"--json prints one array of objects with at and, where there is one, note."
}

// Run lists the coming instants of an expression.
func (c *scheduleNextCmd) Run(a *app) error {
	s, err := c.parse(c.Expr)
	if err != nil {
		return err
	}
	if c.Count < 1 || c.Count > 1000 {
		return usagef("--count is %d: 1 to 1000 would do", c.Count)
	}
	after := a.now()
	if c.After != nil {
		after = time.Time(*c.After)
	}
	ticks := []cron.Tick{}
	for t := range s.Ticks(after) {
		if ticks = append(ticks, t); len(ticks) == c.Count {
			break
		}
	}
	if a.json {
		return a.object(ticks)
	}
	return a.ticks(s, ticks, c.Count)
}

// ticks prints instants for people.
func (a *app) ticks(s cron.Schedule, ticks []cron.Tick, wanted int) error {
	if err := a.printf("%s", text.Safe(plainWords(s))); err != nil {
		return err
	}
	loc, err := cron.Zone(s.Zone())
	if err != nil {
		return err
	}
	if len(ticks) > 0 {
		w := a.table("UTC", "THERE", "NOTE")
		for _, t := range ticks {
			layout := time.RFC3339
			if t.At.Nanosecond() > 0 {
				layout = "2006-01-02T15:04:05.000Z07:00"
			}
			row(w, t.At.Format(layout), t.At.In(loc).Format("Mon 2006-01-02 15:04:05 -0700"), text.Safe(t.Note))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	if len(ticks) < wanted {
		a.note("it does not fire again after that")
	}
	return nil
}
