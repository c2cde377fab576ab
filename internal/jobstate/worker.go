package jobstate

import (
	"slices"
	"strings"

	"github.com/spoolq/spool/broker"
)

// worker is a registered worker and the handle it works through.
type worker struct {
	broker.Worker
	member *member
}

// Register records a worker, unless it is there just so.
func (s *State) Register(w *Writer, r broker.Worker, memberName string) {
	if old := s.workers[r.ID]; old != nil {
		same := old.member == nil && memberName == "" || old.member != nil && old.member.name == memberName
		if same && old.Name == r.Name && old.Concurrency == r.Concurrency && slices.Equal(old.Queues, r.Queues) && slices.Equal(old.Tasks, r.Tasks) {
			return
		}
	}
	r.StartedAt = nanos(w.base)
	w.begin(recWorker)
	w.text(r.ID)
	w.text(r.Name)
	w.text(r.Host)
	w.uint(uint64(r.PID))
	w.str(memberName)
	w.texts(r.Queues)
	w.texts(r.Tasks)
	w.uint(uint64(r.Concurrency))
	w.time(w.base)
	w.end()
	s.applyWorker(r, memberName)
}

func (s *State) readWorker(r *reader) error {
	b := broker.Worker{ID: string(r.text()), Name: string(r.text()), Host: string(r.text()), PID: int(r.uint())}
	name := string(r.str())
	b.Queues, b.Tasks, b.Concurrency = r.texts(), r.texts(), int(r.uint())
	b.StartedAt = nanos(r.time())
	if r.err == nil {
		s.applyWorker(b, name)
	}
	return r.err
}

func (s *State) applyWorker(b broker.Worker, memberName string) {
	s.workers[b.ID] = &worker{Worker: b, member: s.memberOf(memberName)}
}

// Leave removes a worker's registration.
func (s *State) Leave(w *Writer, id string) {
	if s.workers[id] == nil {
		return
	}
	w.begin(recLeave)
	w.text(id)
	w.end()
	delete(s.workers, id)
}

func (s *State) readLeave(r *reader) error {
	delete(s.workers, string(r.text()))
	return r.err
}

// memberOf returns the handle of that name, nil for "".
func (s *State) memberOf(name string) *member {
	if name == "" {
		return nil
	}
	return s.makeMember(name)
}

func (s *State) makeMember(name string) *member {
	m := s.members[name]
	if m == nil {
		m = &member{name: name}
		s.members[name] = m
	}
	return m
}

// Members returns the names of the handles that claimed or registered workers
// and have not gone, sorted.
func (s *State) Members() []string {
	names := make([]string, 0, len(s.members))
	for name := range s.members {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Knows reports whether a handle's end has something to end.
func (s *State) Knows(member string) bool { return s.members[member] != nil }

// Registered reports whether a worker is registered through a handle.
func (s *State) Registered(member string) bool {
	for _, wk := range s.workers {
		if wk.member != nil && wk.member.name == member {
			return true
		}
	}
	return false
}

// Gone records that a handle ended: its leases expire and its workers leave.
func (s *State) Gone(w *Writer, name string) {
	m := s.members[name]
	if m == nil {
		return
	}
	var held []*job
	for r := m.first; r != 0; r = s.leaseOf(r).next {
		held = append(held, s.jobs.at(r))
	}
	slices.SortFunc(held, bySeq)
	for _, j := range held {
		s.expire(w, j, reasonWorkerDied)
	}
	w.begin(recGone)
	w.str(name)
	w.end()
	s.applyGone(name)
}

func (s *State) readGone(r *reader) error {
	name := string(r.str())
	if r.err == nil {
		s.applyGone(name)
	}
	return r.err
}

func (s *State) applyGone(name string) {
	m := s.members[name]
	if m == nil {
		return
	}
	for id, wk := range s.workers {
		if wk.member == m {
			delete(s.workers, id)
		}
	}
	delete(s.holders, m)
	delete(s.members, name)
}

// Epoch is what a handle has to know before it claims.
type Epoch struct {
	Number  uint32
	Boot    [16]byte // the boot in which it was opened
	Offset  int64    // the broker's clock less the machine's monotonic clock, in that boot
	Holders []string // the handles that claimed in it, sorted
}

// Epoch returns the current epoch; Number 0 means none.
func (s *State) Epoch() Epoch {
	e := Epoch{Number: s.epoch, Boot: s.boot, Offset: s.offset}
	for m := range s.holders {
		e.Holders = append(e.Holders, m.name)
	}
	slices.Sort(e.Holders)
	return e
}

// EpochNumber returns the number of the current epoch; 0 means none.
func (s *State) EpochNumber() uint32 { return s.epoch }

// Holds reports whether a handle has joined the current epoch.
func (s *State) Holds(memberName string) bool {
	m := s.members[memberName]
	return m != nil && s.holders[m]
}

// OpenEpoch starts a new epoch, or joins the current one when number is its
// number, for a handle. forgot says that claims of the last one may be
// forgotten, so that every rate starts with an empty bucket.
func (s *State) OpenEpoch(w *Writer, number uint32, member string, boot [16]byte, offset int64, forgot bool) {
	w.begin(recEpoch)
	w.uint(uint64(number))
	w.str(member)
	w.raw(boot[:])
	w.int(offset)
	w.byte(b2u(forgot))
	w.end()
	s.applyEpoch(number, member, boot, offset)
	if forgot {
		s.fresh = w.base
	}
}

func (s *State) readEpoch(r *reader) error {
	number, name := uint32(r.uint()), string(r.str())
	boot := [16]byte(r.take(16))
	offset, forgot := r.int(), r.byte() != 0
	if r.err == nil {
		s.applyEpoch(number, name, boot, offset)
		if forgot {
			s.fresh = r.base
		}
	}
	return r.err
}

func (s *State) applyEpoch(number uint32, name string, boot [16]byte, offset int64) {
	if number != s.epoch {
		clear(s.holders)
	}
	s.epoch, s.boot, s.offset = number, boot, offset
	if name != "" {
		s.holders[s.makeMember(name)] = true
	}
}

// Workers returns the registered workers that listen to queue ("" for all),
// sorted by name and id, with the number of leases they hold.
func (s *State) Workers(queue string) []broker.Worker {
	held := map[string]int{}
	for _, q := range s.queues {
		for j := s.firstOf(&q.lists[broker.Leased]); j != nil; j = s.nextOf(j) {
			held[s.lifeOf(j).lease.worker]++
		}
	}
	var all []broker.Worker
	for _, wk := range s.workers {
		if queue == "" || wk.listens(queue) {
			b := wk.Worker
			b.Queues, b.Tasks = slices.Clone(b.Queues), slices.Clone(b.Tasks)
			b.Leases = held[b.ID]
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b broker.Worker) int {
		return 2*strings.Compare(a.Name, b.Name) + strings.Compare(a.ID, b.ID)
	})
	return all
}

func (wk *worker) listens(queue string) bool {
	return len(wk.Queues) == 0 || slices.Contains(wk.Queues, queue)
}

func (wk *worker) handles(task string) bool {
	return len(wk.Tasks) == 0 || slices.Contains(wk.Tasks, task)
}

// Listener says through which handle a job could be claimed.
type Listener struct {
	Member string
	Worker string
}

// Listeners calls fn for each registered worker that would take jobs of the
// queue and task, until fn returns false.
func (s *State) Listeners(queue, task string, fn func(Listener) bool) {
	for id, wk := range s.workers {
		if wk.listens(queue) && wk.handles(task) {
			l := Listener{Worker: id}
			if wk.member != nil {
				l.Member = wk.member.name
			}
			if !fn(l) {
				return
			}
		}
	}
}
