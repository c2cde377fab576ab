package bench

import (
	"slices"
	"time"
)

// Row is one measured operation.
type Row struct {
	Name         string  `json:"name"`
	PerSecond    float64 `json:"per_second"`     // jobs; the median of the rounds
	RawPerSecond float64 `json:"raw_per_second"` // what Raw says, mostly records of the disk alone, read before each round; the median
	Ratio        float64 `json:"ratio"`          // the median of each round's own ratio
	Durability   string  `json:"durability"`     // what an answer had waited for
	SyncsPerJob  float64 `json:"syncs_per_job"`
	P50us        float64 `json:"p50_us"` // of one call, in microseconds; What says of which
	P99us        float64 `json:"p99_us"`
	P999us       float64 `json:"p999_us"`
	N            int     `json:"n"` // jobs in all rounds

	What  string   `json:"what"`             // the operation, in words
	Raw   string   `json:"raw"`              // what the raw reading did
	CPUms *float64 `json:"cpu_ms,omitempty"` // of idle: CPU time of the process
	Share *float64 `json:"share,omitempty"`  // of several processes: the least done over the most
}

// round is one measurement of an operation.
type round struct {
	jobs  int
	took  time.Duration
	syncs int64
	calls []time.Duration // how long calls took, or some of them
	share float64
	raw   float64 // a second, where a round brings its own raw reading
}

func (m *round) rate() float64 { return float64(m.jobs) / m.took.Seconds() }

// rounds gathers the rounds of a row.
type rounds struct {
	rates, raws, ratios, shares []float64
	calls                       []time.Duration
	jobs                        int
	syncs                       int64
}

func (r *rounds) add(m round, raw float64) {
	rate := m.rate()
	r.rates, r.raws, r.ratios = append(r.rates, rate), append(r.raws, raw), append(r.ratios, rate/raw)
	r.shares = append(r.shares, m.share)
	r.calls = append(r.calls, m.calls...)
	r.jobs += m.jobs
	r.syncs += m.syncs
}

// fill sets the figures of a row.
func (r *rounds) fill(row *Row) {
	row.PerSecond, row.RawPerSecond, row.Ratio = median(r.rates), median(r.raws), median(r.ratios)
	row.N = r.jobs
	if r.jobs > 0 {
		row.SyncsPerJob = float64(r.syncs) / float64(r.jobs)
	}
	row.P50us, row.P99us, row.P999us = percentile(r.calls, 0.5), percentile(r.calls, 0.99), percentile(r.calls, 0.999)
}

// median returns the middle of a list, which it sorts; 0 for none.
func median(list []float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	return list[len(list)/2]
}

// percentile returns the value, in microseconds, below which part of the list
// lies; it sorts the list. 0 for none.
func percentile(list []time.Duration, part float64) float64 {
	if len(list) == 0 {
		return 0
	}
	slices.Sort(list)
	i := min(int(float64(len(list))*part), len(list)-1)
	return float64(list[i].Nanoseconds()) / 1e3
}
