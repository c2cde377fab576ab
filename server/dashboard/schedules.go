package dashboard

import (
	"net/http"
	"net/url"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/cron"
)

// nextShown is how many instants of a schedule the page shows.
const nextShown = 5

type scheduleRow struct {
	Queue, Name string
	Spec        string
	Words       string
	Zone        string
	Policy      string // what is not the default
	Task        string
	Layer       string
	Declared    string // what code declares, when an operator's wins
	Paused      bool
	State       string
	Due         time.Time
	Next        []time.Time
	Bad         string // why it has no instants
}

func (d *Dashboard) schedules(w http.ResponseWriter, r *http.Request) error {
	settings, err := d.settings()
	if err != nil {
		return err
	}
	var rows []scheduleRow
	for i := range settings {
		if s := &settings[i]; s.Kind == broker.ScheduleSetting && s.Schedule != nil {
			rows = append(rows, scheduleOf(s, now()))
		}
	}
	p := d.page(r, "schedules", "Schedules", rows)
	p.Live = true
	return d.render(w, http.StatusOK, "schedules", p)
}

func scheduleOf(s *broker.QueueSetting, now time.Time) scheduleRow {
	x := s.Schedule
	row := scheduleRow{
		Queue: s.Queue, Name: s.Name, Spec: safe(x.Spec, false), Zone: safe(x.Zone, false), Task: x.Job.Task, Layer: layerOf(s.Owner),
		Paused: x.Paused, Due: x.Due, Policy: policyOf(x),
	}
	if s.Declared != nil && s.Declared.Schedule != nil {
		row.Declared = safe(s.Declared.Schedule.Spec, false) + ", " + layerOf(s.Declared.Owner)
	}
	if row.Zone == "" {
		row.Zone = "UTC"
	}
	dst, err := cron.ParseDST(x.DST)
	if err == nil {
		var c cron.Schedule
		if c, err = cron.New(x.Spec, x.Zone, dst); err == nil {
			row.Words = c.Expr().Describe()
			row.instants(c, now)
		}
	}
	if err != nil {
		row.Bad = safe(err.Error(), false)
	}
	row.State = stateOfSchedule(x, err != nil, now)
	return row
}

// instants fills in the next ones, in the schedule's own zone.
func (row *scheduleRow) instants(c cron.Schedule, now time.Time) {
	loc, err := time.LoadLocation(c.Zone())
	if err != nil {
		loc = time.UTC
	}
	for at := now; len(row.Next) < nextShown; {
		next, ok := c.Next(at)
		if !ok {
			return
		}
		row.Next = append(row.Next, next.In(loc))
		at = next
	}
}

// stateOfSchedule says what becomes of a schedule.
func stateOfSchedule(x *broker.Schedule, bad bool, now time.Time) string {
	switch {
	case x.Paused:
		return "paused"
	case bad:
		return "cannot fire"
	case x.Due.IsZero():
		return "no scheduler has seen it yet"
	case x.Due.Year() >= broker.MaxTime.Year():
		return "never fires again"
	case now.Sub(x.Due) > 5*time.Second:
		return "overdue: no scheduler runs"
	}
	return "active"
}

func policyOf(x *broker.Schedule) string {
	s := ""
	add := func(words string) {
		if s != "" {
			s += ", "
		}
		s += words
	}
	if x.DST != "" && x.DST != cron.Wall.String() {
		add("dst " + x.DST)
	}
	if x.Missed != "" && x.Missed != cron.Latest.String() {
		add("missed: " + x.Missed)
	}
	return s
}

// actOnSchedule pauses, resumes or triggers a schedule.
func (d *Dashboard) actOnSchedule(w http.ResponseWriter, r *http.Request) error {
	queue, err := queueOf(r)
	if err != nil {
		return err
	}
	name, did := r.PathValue("name"), lastSegment(r)
	switch did {
	case "pause":
		err = d.client.PauseSchedule(r.Context(), queue, name)
	case "resume":
		err = d.client.ResumeSchedule(r.Context(), queue, name)
	case "trigger":
		_, err = d.client.TriggerSchedule(r.Context(), queue, name)
	}
	d.record(r, did+" schedule", queue, 0, err, "schedule", name)
	d.snap.forget()
	if err != nil {
		return err
	}
	if did != "trigger" {
		did += "-schedule"
	}
	redirect(w, r, "schedules?"+withFlash(url.Values{}, did, 0).Encode())
	return nil
}
