package jobstate

import "github.com/spoolq/spool/broker"

// counts reports whether jobs of a state count towards a capacity.
func counts(s broker.State) bool {
	return s == broker.Scheduled || s == broker.Ready || s == broker.Leased
}

// carry adds a job to what its queue and tenant have, or takes it off.
func (q *queue) carry(l *lane, j *job, on bool) {
	n, bytes := int64(1), int64(j.body.Len)
	if !on {
		n, bytes = -n, -bytes
	}
	q.load.jobs += n
	q.load.bytes += bytes
	l.load.jobs += n
	l.load.bytes += bytes
	q.high = max(q.high, q.load.jobs)
}

// idle notes that a job became ready, or is not any more.
func (q *queue) idle(l *lane, j *job, on bool) {
	n, bytes := int64(1), int64(j.body.Len)
	if !on {
		n, bytes = -n, -bytes
	}
	for _, l := range [...]*load{&q.load, l.load} {
		l.ready += n
		l.readyBytes += bytes
	}
}

// loadOf returns what a tenant has, for a new lane of it.
func (q *queue) loadOf(tenant string) *load {
	l := q.loads[tenant]
	if l == nil {
		l = &load{}
		q.loads[tenant] = l
	}
	l.lanes++
	return l
}

// unload undoes loadOf when a lane ends.
func (q *queue) unload(tenant string) {
	if l := q.loads[tenant]; l != nil {
		if l.lanes--; l.lanes == 0 {
			delete(q.loads, tenant)
		}
	}
}
