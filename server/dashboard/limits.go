package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// settingRow is a setting in force.
type settingRow struct {
	Queue    string
	Name     string
	Link     string // of a tenant's jobs
	Gist     string // what it says
	Tasks    string // of a limit
	Layer    string // whose it is
	Declared string // what code declares, when an operator's wins
	Use      string // how much of it is used, where the store tells
	Used     int64  // in per cent
	Meter    bool   // Used means something
}

type limitsBody struct {
	Limits, Tenants, Capacities, Retentions, Ageings []settingRow
	None                                             bool
}

// layerOf names who set something.
func layerOf(owner string) string {
	if owner == "" {
		return "operator"
	}
	return "declared by " + safe(owner, false)
}

func (d *Dashboard) limits(w http.ResponseWriter, r *http.Request) error {
	settings, err := d.settings()
	if err != nil {
		return err
	}
	counts, err := d.counts()
	if err != nil {
		return err
	}
	b := limitsBody{None: true}
	for i := range settings {
		s := &settings[i]
		row := settingRow{Queue: s.Queue, Name: line(s.Name), Gist: gistOf(&s.Setting), Layer: layerOf(s.Owner)}
		if s.Declared != nil {
			row.Declared = gistOf(s.Declared) + ", " + layerOf(s.Declared.Owner)
		}
		if s.Kind == broker.WeightSetting {
			row.Link = queueLink(s.Queue, url.Values{"tenant": {s.Name}})
		}
		row.use(s, counts)
		into := map[broker.SettingKind]*[]settingRow{
			broker.LimitSetting: &b.Limits, broker.WeightSetting: &b.Tenants, broker.CapacitySetting: &b.Capacities,
			broker.RetentionSetting: &b.Retentions, broker.AgeingSetting: &b.Ageings,
		}[s.Kind]
		if into != nil {
			*into = append(*into, row)
			b.None = false
		}
	}
	p := d.page(r, "limits", "Limits", &b)
	p.Live = true
	return d.render(w, http.StatusOK, "limits", p)
}

// gistOf is a setting in a few words.
func gistOf(s *broker.Setting) string {
	switch {
	case s.Limit != nil:
		return limitGist(s.Limit)
	case s.Capacity != nil:
		return capacityGist(s.Capacity)
	case s.Retention != nil:
		return fmt.Sprintf("done %s, dead %s, cancelled %s",
			keepText(s.Retention.Done, "default"), keepText(s.Retention.Dead, "for ever"), keepText(s.Retention.Cancelled, "default"))
	case s.Ageing > 0:
		return "one priority higher for each " + text.Span(s.Ageing) + " of waiting"
	case s.Schedule != nil:
		return safe(s.Schedule.Spec, false)
	}
	return "weight " + strconv.Itoa(s.Weight)
}

func limitGist(l *broker.Limit) string {
	s := fmt.Sprintf("%s running", text.Count(int64(l.Running)))
	if l.Running == 0 {
		s = fmt.Sprintf("%s in %s", text.Count(l.Count), text.Span(l.Every))
		if l.Burst > 0 {
			s += ", burst " + text.Count(l.Burst)
		}
	}
	if l.Per != broker.PerQueue {
		s += ", each " + safe(string(l.Per), false)
	}
	return s
}

func capacityGist(c *broker.Capacity) string {
	var parts []string
	if c.Jobs > 0 {
		parts = append(parts, text.Plural(c.Jobs, "job", "jobs"))
	}
	if c.Bytes > 0 {
		parts = append(parts, text.Bytes(c.Bytes))
	}
	if c.DropOldest {
		parts = append(parts, "drops the oldest")
	}
	return strings.Join(parts, ", ")
}

func keepText(d time.Duration, zero string) string {
	switch {
	case d == 0:
		return zero
	case d < 0:
		return "not kept"
	}
	return text.Span(d)
}

// use fills in how much of a setting is used, as far as kept numbers tell.
func (row *settingRow) use(s *broker.QueueSetting, counts []broker.Count) {
	switch {
	case s.Limit != nil:
		row.Tasks = names(s.Limit.Tasks, "")
		leased := int64(0)
		for i := range counts {
			if c := &counts[i]; c.Queue == s.Queue && slices.Contains(s.Limit.Tasks, c.Task) {
				leased += c.Leased
			}
		}
		if s.Limit.Running > 0 {
			row.Use = text.Count(leased) + " running"
		}
		if s.Limit.Running > 0 && s.Limit.Per == broker.PerQueue {
			row.Use = text.Count(leased) + " of " + text.Count(int64(s.Limit.Running)) + " running"
			row.Used, row.Meter = leased*100/int64(s.Limit.Running), true
		}
	case s.Capacity != nil && s.Name == "":
		for i := range counts {
			if c := &counts[i]; c.Queue == s.Queue {
				q := queueRow{queueCounts: queueCounts{Sum: broker.Count{Depth: c.Depth, Bytes: c.Bytes}}, Capacity: s.Capacity}
				row.Use = fmt.Sprintf("%s, %s; high water %s", text.Plural(c.Depth, "job", "jobs"), text.Bytes(c.Bytes), text.Count(c.HighWater))
				row.Used, row.Meter = q.Used(), true
				return
			}
		}
	}
}
