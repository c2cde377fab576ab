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

// join makes a new lane one of its tenant's.
func (q *queue) join(l *lane) {
	has := q.loads[l.tenant]
	if has == nil {
		has = &load{}
		q.loads[l.tenant] = has
	}
	l.load, l.nextOf = has, has.lanes
	if has.lanes != nil {
		has.lanes.prevOf = l
	}
	has.lanes = l
}

// part undoes join when a lane ends.
func (q *queue) part(l *lane) {
	if l.nextOf != nil {
		l.nextOf.prevOf = l.prevOf
	}
	switch {
	case l.prevOf != nil:
		l.prevOf.nextOf = l.nextOf
	case l.nextOf != nil:
		l.load.lanes = l.nextOf
	default:
		delete(q.loads, l.tenant)
	}
}
