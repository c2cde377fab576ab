package main

import (
	"time"
)

// meter measures what this process uses, and a server beside it.
type meter struct {
	queue  queue
	server *server // nil means none
	cpu    time.Duration
	syncs  int64
	counts counts
	begun  time.Time
}

func newMeter(q queue, s *server) *meter {
	m := &meter{queue: q, server: s}
	m.counts = s.counts()
	m.cpu, m.syncs, m.begun = m.usedCPU(), syncsOf(q), time.Now()
	return m
}

func (m *meter) usedCPU() time.Duration { return ownCPU() + m.server.cpu() }

// read sets the figures of a report that has its jobs.
func (m *meter) read(r *report) {
	r.Took, r.CPU, r.Syncs = time.Since(m.begun), m.usedCPU()-m.cpu, syncsOf(m.queue)-m.syncs
	is := m.server.counts()
	r.Commands, r.Scripts, r.ServerCPU = is.commands-m.counts.commands, is.scripts-m.counts.scripts, is.cpu-m.counts.cpu
}

func syncsOf(q queue) int64 {
	if c, ok := q.(counter); ok {
		return c.syncs()
	}
	return 0
}
