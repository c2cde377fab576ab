package main

import (
	"errors"
	"time"
)

const (
	processes   = 4
	throughTime = 2 * time.Second // some workers look for jobs once a second
)

// enqueueByProcesses measures processes with one goroutine each.
func enqueueByProcesses() operation {
	const name = "enqueue_4procs"
	return operation{
		name: name,
		rows: []row{{name: name, what: "4 processes, 1 producer each; share is the least that one did over the most", unit: "jobs/s", batch: 1, faster: true}},
		run: func(t *trial) ([]sample, error) {
			if err := t.prepare(); err != nil {
				return nil, err
			}
			all, _, err := t.children(t.roles(produceRole, 1)...)
			if err != nil {
				return nil, err
			}
			s := t.sample(name, sum(all))
			share := shareOf(all)
			s.Share = &share
			return []sample{s}, nil
		},
	}
}

// through measures producers and workers at once.
func through() operation {
	const name, slots = "through_4x4", 64
	return operation{
		name: name,
		rows: []row{{name: name, what: "4 producer processes (64 goroutines, one job a call) and 4 worker processes (64 slots) at once; jobs started", unit: "jobs/s", batch: slots, faster: true}},
		run: func(t *trial) ([]sample, error) {
			if t.peer.deaf {
				return nil, none("workers notice only what their own process enqueues")
			}
			if err := t.prepare(); err != nil {
				return nil, err
			}
			t.at.Conns = manyConns / (2 * processes)
			roles := append(t.roles(workRole, slots), t.roles(produceRole, slots)...)
			for i := range roles {
				roles[i].For = throughTime
			}
			all, cpu, err := t.children(roles...)
			if err != nil {
				return nil, err
			}
			started := sum(all[:processes])
			if started.Jobs == 0 {
				return nil, errors.New("no job was started")
			}
			produced := sum(all[processes:])
			started.CPU, started.Syncs = started.CPU+produced.CPU+cpu, started.Syncs+produced.Syncs
			return []sample{t.sample(name, started)}, nil
		},
	}
}

func (t *trial) roles(do string, slots int) (all []role) {
	for range processes {
		all = append(all, role{Do: do, Peer: t.peer.name, Place: t.at, For: t.scale.limit, Slots: slots})
	}
	return all
}

// children runs roles at once, and returns their reports and the CPU time of
// the server.
func (t *trial) children(roles ...role) (all []report, server time.Duration, err error) {
	cs, err := spawnAll(roles...)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, endAll(cs)) }()
	server = t.server().cpu()
	for _, c := range cs {
		if err := c.tell(); err != nil {
			return nil, 0, err
		}
	}
	for _, c := range cs {
		r, err := c.report()
		if err != nil {
			return nil, 0, err
		}
		all = append(all, r)
	}
	return all, t.server().cpu() - server, nil
}

// sum adds reports up; they took as long as the longest.
func sum(all []report) (s report) {
	for _, r := range all {
		s.Jobs, s.CPU, s.Syncs, s.Took = s.Jobs+r.Jobs, s.CPU+r.CPU, s.Syncs+r.Syncs, max(s.Took, r.Took)
	}
	return s
}

// shareOf is the least that one did over the most.
func shareOf(all []report) float64 {
	least, most := all[0].Jobs, 0
	for _, r := range all {
		least, most = min(least, r.Jobs), max(most, r.Jobs)
	}
	if most == 0 {
		return 0
	}
	return float64(least) / float64(most)
}
