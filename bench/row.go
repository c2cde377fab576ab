package main

import (
	"slices"
	"time"
)

// row is a line of the table: one figure of one operation.
type row struct {
	name   string
	what   string
	unit   string
	batch  int  // records per sync of the ceilings; 0 means that they say nothing
	faster bool // a larger figure is better
}

// sample is one figure of one run.
type sample struct {
	Row   string  `json:"row"`
	Peer  string  `json:"peer"`
	Run   int     `json:"run"`
	Value float64 `json:"value"`
	ceiling
	CPU      float64  `json:"cpu_us,omitempty"`    // per job, in microseconds, servers included
	Commands float64  `json:"commands,omitempty"`  // per job, that a Redis server ran, those in scripts, too
	Scripts  float64  `json:"scripts,omitempty"`   // per job
	Server   float64  `json:"server_us,omitempty"` // of CPU, what a Redis server used
	Syncs    *float64 `json:"syncs,omitempty"`     // per job, of peers that count them
	Share    *float64 `json:"share,omitempty"`     // the least that a process did over the most
	Jobs     int      `json:"jobs,omitempty"`      // of an operation that was made smaller for this peer
	None     string   `json:"none,omitempty"`      // why the peer has no such operation
	Fault    string   `json:"fault,omitempty"`     // why there is no figure
}

// spread is a median and what lies around it.
type spread struct{ median, low, high float64 }

func spreadOf(list []float64) spread {
	if len(list) == 0 {
		return spread{}
	}
	s := slices.Sorted(slices.Values(list))
	mid := s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (s[len(s)/2-1] + mid) / 2
	}
	return spread{mid, s[0], s[len(s)-1]}
}

// percentile returns the value below which that part of the list lies.
func percentile(list []time.Duration, part float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(list))
	return s[min(int(part*float64(len(s))), len(s)-1)]
}

// cell is all runs of one row and one peer.
type cell struct {
	row                       *row
	peer                      string
	value                     spread
	ofZero                    spread // the medians of each run's own ratio
	ofGrow                    spread
	cpu                       float64
	commands, scripts, server float64
	syncs                     *float64
	share                     *float64
	jobs                      int
	none, fault               string
}

// cells gathers samples, in the order of rows, and in each the best first.
func cells(rows []row, samples []sample) []cell {
	byKey := map[[2]string][]sample{}
	var order []string
	for _, s := range samples {
		key := [2]string{s.Row, s.Peer}
		byKey[key] = append(byKey[key], s)
		if !slices.Contains(order, s.Peer) {
			order = append(order, s.Peer)
		}
	}
	var all []cell
	for i := range rows {
		begin := len(all)
		for _, p := range order {
			if list := byKey[[2]string{rows[i].name, p}]; len(list) > 0 {
				all = append(all, newCell(&rows[i], p, list))
			}
		}
		slices.SortStableFunc(all[begin:], compareCells)
	}
	return all
}

func newCell(r *row, peer string, list []sample) cell {
	c := cell{row: r, peer: peer}
	var values, zero, grow, cpu, commands, scripts, server, syncs, shares []float64
	for _, s := range list {
		if c.jobs = max(c.jobs, s.Jobs); s.None != "" || s.Fault != "" {
			c.none, c.fault = s.None, s.Fault
			continue
		}
		values, cpu = append(values, s.Value), append(cpu, s.CPU)
		commands, scripts, server = append(commands, s.Commands), append(scripts, s.Scripts), append(server, s.Server)
		if s.Zero > 0 && s.Grow > 0 {
			zero, grow = append(zero, s.Value/s.Zero), append(grow, s.Value/s.Grow)
		}
		if s.Syncs != nil {
			syncs = append(syncs, *s.Syncs)
		}
		if s.Share != nil {
			shares = append(shares, *s.Share)
		}
	}
	c.value, c.ofZero, c.ofGrow, c.cpu = spreadOf(values), spreadOf(zero), spreadOf(grow), spreadOf(cpu).median
	c.commands, c.scripts, c.server = spreadOf(commands).median, spreadOf(scripts).median, spreadOf(server).median
	c.syncs, c.share = medianOf(syncs), medianOf(shares)
	return c
}

func medianOf(list []float64) *float64 {
	if len(list) == 0 {
		return nil
	}
	m := spreadOf(list).median
	return &m
}

// measured reports whether the cell has a figure.
func (c *cell) measured() bool { return c.value != spread{} }

func compareCells(a, b cell) int {
	switch am, bm := a.measured(), b.measured(); {
	case am && !bm:
		return -1
	case !am && bm:
		return 1
	case a.value.median == b.value.median:
		return 0
	case (a.value.median > b.value.median) == a.row.faster:
		return -1
	}
	return 1
}
