package jobstate

import (
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/fair"
)

// Claim is a claim of jobs of one queue.
type Claim struct {
	Queue  string
	Tasks  []string // nil: any
	Max    int
	TTL    time.Duration
	Worker string
	Member string // the handle whose end ends the leases; "" for none
	// Bytes are how much the jobs may have together; the first is taken however much
	// it has. 0 means that nobody counts.
	Bytes int64
}

// Ticket is a job as the state knows it, with the places of what it does not
// hold itself: the broker reads those and fills them in.
type Ticket struct {
	Job               broker.Job
	Body, Err, Result Loc
}

// claimed is one job of a claim record.
type claimed struct {
	id                      broker.ID
	epoch, claims, attempts uint32
}

// maxExamine is how many lanes one claim may find blocked.
const maxExamine = 200

// Claim leases up to c.Max ready jobs, best first. The epoch must have been
// opened (see Epoch). It writes nothing when there is nothing to take. more
// says that it stopped because it had found too many lanes blocked, or because
// the next job would have been too many bytes.
func (s *State) Claim(w *Writer, now Now, c Claim) (tickets []Ticket, more bool) {
	q := s.queues[c.Queue]
	if q == nil || q.rests() {
		return nil, false
	}
	s.promote(q, now)
	q.rouse(now)
	p := picker{s: s, q: q, w: w, now: now, room: c.Bytes, counts: c.Bytes > 0}
	wanted := q.wanted(c.Tasks)
	more = p.pick(wanted, c.Max)
	if len(p.jobs) == 0 {
		return nil, more
	}
	expires := satAdd(now.Steady, int64(c.TTL))
	w.begin(recClaim)
	w.str(c.Queue)
	w.str(c.Worker)
	w.str(c.Member)
	w.time(expires)
	w.uint(uint64(len(p.jobs)))
	m := s.memberOf(c.Member)
	tickets = make([]Ticket, len(p.jobs))
	for i, j := range p.jobs {
		was := s.lifeOf(j)
		token := s.nextToken(was)
		r := claimed{j.id, uint32(token >> 32), uint32(token), was.attempts + 1}
		w.id(r.id)
		w.uint(uint64(r.epoch))
		w.uint(uint64(r.claims))
		w.uint(uint64(r.attempts))
		// The lease was begun by pick, so that the next best was found.
		s.finishClaim(j, r, c.Worker, m, expires, w.base)
		tickets[i] = s.ticket(j)
	}
	p.rest(wanted)
	p.write()
	w.end()
	return tickets, more
}

// wanted returns the tasks that a claim names, all of them for nil.
func (q *queue) wanted(names []string) []*task {
	if names == nil {
		return q.order
	}
	tasks := make([]*task, 0, len(names))
	for _, name := range names {
		if t := q.tasks[name]; t != nil && !slices.Contains(tasks, t) {
			tasks = append(tasks, t)
		}
	}
	return tasks
}

// picker takes the best jobs out of their lanes for one claim, and remembers
// what that did to shares and rates.
type picker struct {
	s      *State
	q      *queue
	w      *Writer
	now    Now
	jobs   []*job
	counts bool     // whether there is a bound in bytes,
	room   int64    // and what is left of it
	shares []picked // whose service changed
	meters []*meter // whose rate changed
}

// picked names a tenant that was served.
type picked struct {
	priority int32
	tenant   string
}

// pick lets the lanes of the wanted tasks compete. The best one gives jobs as
// long as it stays ahead of the second best.
func (p *picker) pick(wanted []*task, n int) (more bool) {
	refused := 0
	p.q.recall(nil)
	for len(p.jobs) < n {
		p.q.letFreed()
		best, second := leaders(wanted)
		if best == nil {
			return false
		}
		for len(p.jobs) < n {
			if g := p.s.refuses(best, p.now); g != nil {
				g.turnAway(best)
				if refused++; refused == maxExamine {
					return true
				}
				break
			}
			if p.counts && len(p.jobs) > 0 && int64(best.head.j.body.Len) > p.room {
				return true
			}
			p.take(best)
			p.q.letFreed()
			if best.n == 0 || p.q.shared(best.priority) || best.task.open.best() != best || second != nil && !best.before(second) {
				break
			}
		}
	}
	return false
}

// next returns the lane that a claim of the wanted tasks would serve first, nil
// for none. As a claim does, it parks the lanes that are refused.
func (s *State) next(now Now, q *queue, wanted []*task) *lane {
	q.rouse(now)
	q.recall(nil)
	for range broker.MaxPageExamine {
		q.letFreed()
		best, _ := leaders(wanted)
		if best == nil {
			return nil
		}
		g := s.refuses(best, now)
		if g == nil {
			return best
		}
		g.turnAway(best)
	}
	return nil
}

// take claims the head of a lane that nothing refuses.
func (p *picker) take(l *lane) {
	j := l.head.j
	if p.s.tooLate(j, p.now) {
		p.s.final(p.w, j, finalRec{state: broker.Cancelled, reason: reasonNotStarted})
		return
	}
	for _, m := range l.bind() {
		if m.rule.Running == 0 {
			m.take(p.now.Steady)
			if !slices.Contains(p.meters, m) {
				p.meters = append(p.meters, m)
			}
		}
	}
	l.charge()
	sh := picked{l.priority, l.tenant}
	if !slices.Contains(p.shares, sh) {
		p.shares = append(p.shares, sh)
	}
	l.from = nil
	if p.q.shared(l.priority) {
		p.q.recall(&sh) // it is another tenant's turn now where a limit let this one through
	}
	p.s.beginClaim(j)
	p.jobs = append(p.jobs, j)
	p.room -= int64(j.body.Len)
	for _, m := range l.meters {
		p.q.free(&m.gate) // whoever is next finds out whether there is more room
	}
}

// leaders returns the two best lanes, of different tasks.
func leaders(tasks []*task) (best, second *lane) {
	for _, t := range tasks {
		switch l := t.open.best(); {
		case l == nil:
		case best == nil || l.before(best):
			best, second = l, best
		case second == nil || l.before(second):
			second = l
		}
	}
	return best, second
}

// rest forgets who was served how much where nothing is ready any more, or
// nothing that this claim or a live worker would take.
func (p *picker) rest(wanted []*task) {
	var waits, known bool
	for _, sh := range p.shares {
		t := p.q.turnOf(sh.priority)
		if t.busy > 0 && !known {
			waits, known = p.q.waits(wanted), true
		}
		if t.busy == 0 || !waits {
			t.Now = max(t.Now, t.most)
		}
	}
}

// waits reports whether the queue has a ready job of the wanted tasks, or of
// one that a live worker takes.
func (q *queue) waits(wanted []*task) (yes bool) {
	for _, t := range wanted {
		if t.n[broker.Ready] > 0 {
			return true
		}
	}
	for _, t := range q.order {
		if t.n[broker.Ready] > 0 {
			q.state.Listeners(q.name, t.name, func(Listener) bool { yes = true; return false })
		}
		if yes {
			return true
		}
	}
	return false
}

// write adds to the claim's record what became of shares and rates.
func (p *picker) write() {
	p.w.uint(uint64(len(p.shares)))
	for _, sh := range p.shares {
		t := p.q.turnOf(sh.priority)
		p.w.int(int64(sh.priority))
		p.w.uint(uint64(t.Now))
		p.w.str(sh.tenant)
		p.w.uint(uint64(t.shareOf(sh.tenant).service))
	}
	p.w.uint(uint64(len(p.meters)))
	for _, m := range p.meters {
		p.w.str(m.rule.name)
		p.w.str(m.value)
		p.w.rate(m.rate)
	}
}

// readPicked applies what write wrote.
func (s *State) readPicked(r *reader, q *queue) {
	for range r.count(4) {
		priority, at := int32(r.int()), fair.Time(r.uint())
		tenant, service := string(r.str()), fair.Time(r.uint())
		if r.err == nil {
			t := q.turnOf(priority)
			t.Now = at
			t.serve(t.shareOf(tenant), service)
		}
	}
	for range r.count(4) {
		name, value := r.str(), string(r.str())
		rate := r.rate()
		if rule := q.rules[string(name)]; rule != nil && r.err == nil {
			rule.meter(value).rate = rate
		}
	}
}

func (s *State) tooLate(j *job, now Now) bool {
	l := s.lifeOf(j)
	return l.ext != nil && l.ext.startWithin > 0 && l.attempts == 0 && satAdd(l.runAt, l.ext.startWithin) <= clockOf(j, now)
}

// clockOf is the clock that j's due time was given on.
func clockOf(j *job, now Now) int64 {
	if j.flags&byWall != 0 {
		return now.Wall
	}
	return now.Steady
}

// beginClaim takes a waiting job out of where it waits.
func (s *State) beginClaim(j *job) {
	s.leave(j)
	s.enter(j, broker.Leased)
	s.counted(j, 1)
	if s.laneOf(j).ordered {
		s.holdGroup(j)
	}
}

func (s *State) finishClaim(j *job, r claimed, worker string, m *member, expires, at int64) {
	l := s.change(j)
	l.epoch, l.claims, l.attempts = r.epoch, r.claims, r.attempts
	l.changedAt, l.claimedAt, l.ended = at, at, 0
	j.because(reasonNone)
	j.flags &^= cancelAsked
	l.lease.worker = worker
	s.hold(j, m)
	if l.ext != nil {
		s.reword(l.ext, broker.Progress{}, nil)
		if l.ext.hold == broker.HoldUntilStarted {
			s.freeKey(j)
		}
	}
	s.leased++
	s.expireAt(j, expires)
	s.countClaim(j)
	s.tell(j, worker, false)
}

func (s *State) countClaim(j *job) {
	s.taskOf(j).totals.Claimed++
	s.given++
}

// nextToken is the token of the next claim: the epoch times 2³² and the number of
// claims that were ever made in the store. It is larger than any before, not just of
// this job: when a job is gone, and its id is used again, the tokens of the first are
// stale for the second.
func (s *State) nextToken(was *life) broker.Token {
	return max(broker.Token(uint64(s.epoch)<<32+s.given+1), was.token()+1)
}

// expireAt sets the end of j's lease.
func (s *State) expireAt(j *job, at int64) {
	l := s.change(j)
	l.ver++
	l.lease.expires = at
	s.leases.push(s.item(j, at))
	s.leases.trim(s, s.leased)
}

func (s *State) readClaim(r *reader) error {
	queue, worker, name := r.str(), string(r.str()), r.str()
	expires := r.time()
	var m *member
	if r.err == nil {
		m = s.memberOf(string(name))
	}
	for range r.count(19) {
		c := claimed{r.id(), uint32(r.uint()), uint32(r.uint()), uint32(r.uint())}
		j := s.find(r, queue, c.id)
		if j == nil {
			return r.err
		}
		if j.state() != broker.Scheduled && j.state() != broker.Ready {
			r.bad("claim of a job that is " + j.state().String())
			return r.err
		}
		s.beginClaim(j)
		s.finishClaim(j, c, worker, m, expires, r.base)
	}
	if q := s.queues[string(queue)]; q != nil {
		s.readPicked(r, q)
	}
	return r.err
}
