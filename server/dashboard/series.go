package dashboard

import (
	"encoding/json"
	"math"
	"net/http"
	"strconv"
	"time"
)

// num is a number of a chart: four digits are enough, and NaN is a gap.
type num float64

// MarshalJSON implements json.Marshaler.
func (n num) MarshalJSON() ([]byte, error) {
	f := float64(n)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return []byte("null"), nil
	}
	if f == math.Trunc(f) {
		return strconv.AppendFloat(nil, f, 'f', -1, 64), nil
	}
	return strconv.AppendFloat(nil, f, 'g', 4, 64), nil
}

// chart is the series as the script takes it: columns, oldest first. Rates are
// per second, times of waiting and running in seconds.
type chart struct {
	Now   int64   `json:"now"`   // milliseconds since 1970
	Every int64   `json:"every"` // milliseconds between two samples
	T     []int64 `json:"t"`     // milliseconds since 1970

	Scheduled []int64 `json:"scheduled"`
	Ready     []int64 `json:"ready"`
	Leased    []int64 `json:"leased"`
	Dead      []int64 `json:"dead"`

	Enqueued []num `json:"enqueued"`
	Acked    []num `json:"acked"`
	Failed   []num `json:"failed"`

	Wait    []num `json:"wait"`    // of the oldest ready job
	Run     []num `json:"run"`     // mean, from how many run and how many end
	Longest []num `json:"longest"` // of what runs now
}

// seriesJSON answers with the samples after the instant "since".
func (d *Dashboard) seriesJSON(w http.ResponseWriter, r *http.Request) error {
	d.watched()
	since, _ := strconv.ParseInt(r.URL.Query().Get("since"), 10, 64) // none: all
	b, err := json.Marshal(d.series.chart(r.URL.Query().Get("window") == "day", time.UnixMilli(since)))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(b) // a client that has gone
	return nil
}

// Times over which rates and the mean run time are taken, at least: jobs come in
// bursts, and are settled in batches.
const (
	rateOver = 10 * time.Second
	meanOver = 30 * time.Second
)

func (s *series) chart(day bool, since time.Time) *chart {
	s.mu.Lock()
	defer s.mu.Unlock()
	from, every := &s.recent, sampleEvery
	if day {
		from, every = &s.minutes, time.Minute
	}
	all := from.all()
	c := &chart{Now: now().UnixMilli(), Every: every.Milliseconds(), T: []int64{}}
	for i := range all {
		if x := &all[i]; x.at.UnixMilli() > since.UnixMilli() {
			c.add(x, lastly(all[:i+1], rateOver), lastly(all[:i+1], meanOver))
		}
	}
	return c
}

// lastly returns the last samples that span a time, one more than that where there
// is one.
func lastly(all []sample, span time.Duration) []sample {
	last := len(all) - 1
	from := last
	for from > 0 && all[last].at.Sub(all[from].at) < span {
		from--
	}
	return all[from:]
}

// add adds a column for the sample x. Rates are from the first of fresh to x, the
// mean run time from the first of lately; both end with x.
func (c *chart) add(x *sample, fresh, lately []sample) {
	c.T = append(c.T, x.at.UnixMilli())
	c.Scheduled = append(c.Scheduled, x.sum.Scheduled)
	c.Ready = append(c.Ready, x.sum.Ready)
	c.Leased = append(c.Leased, x.sum.Leased)
	c.Dead = append(c.Dead, x.sum.Dead)
	enqueued, acked, failed := num(math.NaN()), num(math.NaN()), num(math.NaN())
	if len(fresh) > 1 {
		was := &fresh[0]
		per := x.at.Sub(was.at)
		enqueued = rate(x.sum.Totals.Enqueued-was.sum.Totals.Enqueued, per)
		acked = rate(x.sum.Totals.Acked-was.sum.Totals.Acked, per)
		failed = rate(x.sum.Totals.Failed+x.sum.Totals.Expired-was.sum.Totals.Failed-was.sum.Totals.Expired, per)
	}
	c.Enqueued, c.Acked, c.Failed = append(c.Enqueued, enqueued), append(c.Acked, acked), append(c.Failed, failed)
	c.Wait = append(c.Wait, num(x.wait.Seconds()))
	c.Longest = append(c.Longest, num(x.longest.Seconds()))
	c.Run = append(c.Run, meanRun(lately))
}

// rate is n events per second; what shrinks (another store) is none.
func rate(n int64, over time.Duration) num {
	if n < 0 || over <= 0 {
		return 0
	}
	return num(float64(n) / over.Seconds())
}

// meanRun is the mean run time by Little's law: how many run, divided by how many
// end in a second. It is a gap when nothing ended.
func meanRun(lately []sample) num {
	first, last := &lately[0], &lately[len(lately)-1]
	ended := func(s *sample) int64 { return s.sum.Totals.Acked + s.sum.Totals.Failed + s.sum.Totals.Expired }
	per := rate(ended(last)-ended(first), last.at.Sub(first.at))
	if per == 0 {
		return num(math.NaN())
	}
	running := int64(0)
	for i := range lately {
		running += lately[i].sum.Leased
	}
	return num(float64(running)/float64(len(lately))) / per
}
