package jobstate

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// Now is the moment of a decision, in nanoseconds since 1970.
type Now struct {
	Wall   int64 // the wall clock, which can step; decides about At
	Steady int64 // the broker's clock, which does not; decides about everything else
}

// State is all queues of a store.
type State struct {
	queues  map[string]*queue
	members map[string]*member
	workers map[string]*worker

	mark uint32 // names this State and its numbering in cursors; the only thing in it that is drawn

	seq       uint64 // of the last enqueue
	given     uint64 // how often jobs were claimed, by the totals of all tasks; see nextToken
	lastPlace int64  // of the last job that was ready at once: places never step back

	capacities int   // that are in force: they bind every enqueue
	room       int64 // see Room

	clock    int64            // base of the last frame
	epoch    uint32           // the current one
	holders  map[*member]bool // the handles that claimed in it
	boot     [16]byte         // the boot in which the epoch was opened
	offset   int64            // steady time less the machine's monotonic clock, in that boot
	fresh    int64            // when the epoch began: rates start empty there
	nextDue  [2]int64         // no scheduled job is due before: steady, wall
	leases   heap             // by expiry
	leased   int              // live items of leases
	keeps    heap             // final jobs, by the end of their retention
	kept     int              // live items of keeps
	starts   [2]heap          // waiting jobs with a StartWithin, by that deadline: on the steady clock, and on the wall
	watched  [2]int           // items of starts after the last trim
	uses     uses
	jobs     entries
	lives    lives
	lanes    []*lane       // by number; 0 is nobody's
	unused   []uint32      // numbers of lanes that have ended
	calls    *calls        // that are remembered; nil for none
	answer   []byte        // to write one to
	complete []*job        // completion jobs whose last member has just ended
	spared   map[*job]bool // jobs that a drop of this call made ready; nil outside makeRoom
	changed  func(Change)  // told of each change of a job; may be nil
}

// Change says that a job entered a state.
type Change struct {
	Queue, Task, Worker string
	Tenant, Group       string
	ID                  broker.ID // zero: the queue was paused or resumed, or this is a hint
	State               broker.State
	Reason              string
	At                  int64
	// Setting says that no job changed, but this setting of the queue.
	Setting *broker.SettingName
	// Asked says that the job stays leased, but is to be cancelled.
	Asked bool
	// Hint says that no job changed, but one of the task may be claimable now.
	Hint bool
}

// queue is one queue.
type queue struct {
	name   string
	state  *State
	paused bool
	jobs   index
	tasks  map[string]*task
	order  []*task // tasks by name
	lists  [broker.Cancelled + 1]list
	due    [2]heap // scheduled jobs by due time: steady, wall
	keys   map[keyName]*heldKey
	swept  int // keys there were after the last sweep

	settings   map[settingName]*setting
	starts     map[string]start // by owner
	revision   uint64           // of the last change of a setting
	rev        uint64           // rises whenever limits change: lanes bind anew
	rules      map[string]*rule
	weights    map[string]int
	ageing     time.Duration
	turns      map[int32]*turn
	sweptTurns int // turns there were after the last sweep
	groups     map[string]*group
	wakes      wakes            // rates that lanes wait for
	freed      []*gate          // that have room again
	lent       []*lane          // that gates let through
	loads      map[string]*load // by tenant
	load       load             // of all
	high       int64            // the most jobs that load ever had
	rates      []savedRate      // while a checkpoint is read
	holders    map[string]broker.ID
	move       *move // nil: none that is remembered
}

// load is what a capacity counts.
type load struct {
	jobs, bytes       int64
	ready, readyBytes int64 // of these
	lanes             *lane // of a tenant: the first of them
}

// task is one task of a queue.
type task struct {
	name   string
	queue  *queue
	lanes  map[laneKey]*lane
	last   *lane                       // of the last enqueue
	open   stand                       // its lanes with ready jobs that no gate has refused
	rules  []*rule                     // that bind it, by name
	n      [broker.Cancelled + 1]int64 // jobs by state
	totals broker.Totals
}

// member is a handle on the store: a process, or a part of one, whose death
// ends its leases.
type member struct {
	name  string
	first ref // of its leases
}

// New returns an empty state. changed, which may be nil, is told of each
// change of a job during Apply and decisions; freed is told when a file's last
// needed bytes are gone. Neither may call the State.
func New(changed func(Change), freed func(file uint32)) *State {
	return &State{
		mark:    rand.Uint32(),
		queues:  map[string]*queue{},
		members: map[string]*member{},
		workers: map[string]*worker{},
		holders: map[*member]bool{},
		uses:    uses{files: map[uint32]*Use{}, freed: freed},
		changed: changed,
		lanes:   make([]*lane, 1),
		nextDue: [2]int64{math.MaxInt64, math.MaxInt64},
	}
}

// Tell makes changed, which may be nil, what is told of each change from now on.
func (s *State) Tell(changed func(Change)) { s.changed = changed }

// Uses returns what is still needed of each file. The map is the state's: it
// is read-only, and valid until the next change.
func (s *State) Uses() map[uint32]*Use { return s.uses.files }

// Queues returns the names of all queues, sorted.
func (s *State) Queues() []string {
	names := make([]string, 0, len(s.queues))
	for name := range s.queues {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func (s *State) makeQueue(name string) *queue {
	q := newQueue(s, name)
	s.queues[name] = q
	s.room += queueRoom + int64(len(name))
	return q
}

func newQueue(s *State, name string) *queue {
	return &queue{
		name: name, state: s, tasks: map[string]*task{}, keys: map[keyName]*heldKey{},
		settings: map[settingName]*setting{}, starts: map[string]start{}, rev: 1, rules: map[string]*rule{}, weights: map[string]int{},
		turns: map[int32]*turn{}, groups: map[string]*group{}, loads: map[string]*load{},
	}
}

func (q *queue) makeTask(name string) *task {
	t := &task{name: name, queue: q, lanes: map[laneKey]*lane{}, open: stand{queue: q}}
	q.tasks[name] = t
	q.state.room += taskRoom + int64(len(name))
	i, _ := slices.BinarySearchFunc(q.order, name, func(t *task, name string) int { return strings.Compare(t.name, name) })
	q.order = slices.Insert(q.order, i, t)
	t.rules = q.rulesOf(name)
	return t
}

// laneOf returns the task's lane of k, made when there is none.
func (t *task) laneOf(k laneKey) *lane {
	if l := t.last; l != nil && l.laneKey == k {
		return l
	}
	l := t.lanes[k]
	if l == nil {
		l = t.queue.state.newLane(k, t)
		t.lanes[k] = l
	}
	t.last = l
	return l
}

// newLane makes the lane of a task.
func (s *State) newLane(k laneKey, t *task) *lane {
	l := &lane{laneKey: k, task: t}
	t.queue.join(l)
	t.queue.turnOf(k.priority).lanes++
	s.room += k.room()
	if n := len(s.unused) - 1; n >= 0 {
		l.self = s.unused[n]
		s.unused = s.unused[:n]
		s.lanes[l.self] = l
		return l
	}
	l.self = uint32(len(s.lanes))
	s.lanes = append(s.lanes, l)
	return l
}

// job returns the queue's job of an id, or nil.
func (q *queue) job(id broker.ID) *job { return q.jobs.get(&q.state.jobs, id) }

// enter moves a job to a state: lists, counts, and nothing else.
func (s *State) enter(j *job, to broker.State) {
	l := s.laneOf(j)
	t := l.task
	q := t.queue
	if j.state() != 0 {
		q.lists[j.state()].remove(s, j)
		t.n[j.state()]--
	}
	if was, is := counts(j.state()), counts(to); was != is {
		q.carry(l, j, is)
	}
	if was, is := j.state() == broker.Ready, to == broker.Ready; was != is {
		q.idle(l, j, is)
	}
	j.become(to)
	q.lists[to].push(s, j)
	t.n[to]++
}

// tell reports a change of j.
func (s *State) tell(j *job, worker string, asked bool) {
	if s.changed == nil {
		return
	}
	l := s.laneOf(j)
	s.changed(Change{
		Queue: l.task.queue.name, Task: l.task.name, Tenant: l.tenant, Group: l.group, Worker: worker, ID: j.id,
		State: j.state(), Reason: reasons[j.reason()], At: s.changedAt(j), Asked: asked,
	})
}

// leave takes j out of what its present state has it in, so that it can enter
// another: its items go stale, its lease ends.
func (s *State) leave(j *job) *life {
	l := s.change(j)
	l.ver++
	switch j.state() {
	case broker.Ready:
		s.laneOf(j).gone(j)
	case broker.Leased:
		s.leased--
		s.counted(j, -1)
		s.letGo(j)
		l.lease = lease{}
	case broker.Done, broker.Dead, broker.Cancelled:
		if l.ext != nil && l.ext.keepUntil != 0 {
			s.kept--
			l.ext.keepUntil = 0
		}
	}
	return l
}

// remove forgets a job.
func (s *State) remove(j *job) {
	life := s.leave(j)
	l := s.laneOf(j)
	q := l.task.queue
	q.lists[j.state()].remove(s, j)
	l.task.n[j.state()]--
	if counts(j.state()) {
		q.carry(l, j, false)
	}
	if j.state() == broker.Ready {
		q.idle(l, j, false)
	}
	s.freeGroup(j)
	q.jobs.remove(&s.jobs, j)
	s.uses.drop(j.body)
	if life.ext != nil {
		s.uses.drop(life.ext.err)
		s.uses.drop(life.ext.result)
		s.freeKey(j)
	}
	s.unref(l)
	s.forget(j)
}

// unref ends a job's membership in a lane, and the lane with its last job:
// tenants and groups come and go without end.
func (s *State) unref(l *lane) {
	l.refs--
	if l.refs == 0 {
		delete(l.task.lanes, l.laneKey)
		s.room -= l.room()
		s.lanes[l.self] = nil
		s.unused = append(s.unused, l.self)
		l.unbind()
		l.task.open.forget(l.priority, l.tenant)
		l.task.queue.part(l)
		l.task.queue.ended(l.priority)
		if l.task.last == l {
			l.task.last = nil
		}
	}
}

// promote makes due jobs of q ready, those first that were due first. Only the
// clock moves them: it writes no record, and every process comes to the same
// result.
func (s *State) promote(q *queue, now Now) {
	for {
		steady, wall := q.due[0].top(s), q.due[1].top(s)
		i, it := 0, steady
		if steady == nil || wall != nil && now.Wall-wall.at > now.Steady-steady.at {
			i, it = 1, wall
		}
		if it == nil || it.at > [...]int64{now.Steady, now.Wall}[i] {
			return
		}
		j := s.jobs.at(it.ref)
		q.due[i].pop()
		s.enter(j, broker.Ready)
		s.stand(j)
		s.tell(j, "", false)
	}
}

// promoteAll is promote for every queue. It is cheap while nothing is due.
func (s *State) promoteAll(now Now) {
	if s.nextDue[0] > now.Steady && s.nextDue[1] > now.Wall {
		return
	}
	s.nextDue = [2]int64{math.MaxInt64, math.MaxInt64}
	for _, name := range s.Queues() {
		q := s.queues[name]
		s.promote(q, now)
		for i := range s.nextDue {
			if it := q.due[i].top(s); it != nil {
				s.nextDue[i] = min(s.nextDue[i], it.at)
			}
		}
	}
}

// stand puts a ready job into its lane.
func (s *State) stand(j *job) {
	l := s.laneOf(j)
	if s.holds(j) {
		l.pushFirst(j)
		if !l.isOpen() {
			l.move(&l.task.open) // what the group kept back, its holder may take
		}
	} else {
		l.push(j)
	}
	s.watchStart(j)
}

// watchStart registers the deadline by which a waiting job has to be started.
func (s *State) watchStart(j *job) {
	if l := s.lifeOf(j); l.ext != nil && l.ext.startWithin > 0 && l.attempts == 0 {
		i := b2u(j.flags&byWall != 0)
		h := &s.starts[i]
		h.push(s.item(j, satAdd(l.runAt, l.ext.startWithin)))
		if len(*h) > 2*s.watched[i]+64 {
			h.trim(s, 0)
			s.watched[i] = len(*h)
		}
	}
}

// satAdd adds without overflow.
func satAdd(a, b int64) int64 {
	c := a + b
	if b > 0 && c < a {
		return 1<<63 - 1
	}
	return c
}
