package jobstate

import (
	"slices"

	"github.com/spoolq/spool/broker"
)

// Reset prepares a state for a new store: no handle, no worker and no lease is
// left, the next epoch is above every one that was named, and everything that
// jobs refer to is where move says. move returns the new place and whether the
// bytes are those of the old; a job whose payload is lost becomes dead with
// the reason damaged, an error text or result that is lost is dropped.
func (s *State) Reset(now Now, move func(ref broker.Ref, what string, l Loc) (Loc, bool, error)) error {
	var w Writer // its records go nowhere: the state is stored whole
	w.Reset(nil, 0, 0, now)
	for _, name := range s.Members() {
		s.Gone(&w, name)
	}
	for _, name := range s.Queues() {
		q := s.queues[name]
		for j := s.firstOf(&q.lists[broker.Leased]); j != nil; j = s.firstOf(&q.lists[broker.Leased]) {
			s.expire(&w, j, reasonExpired)
		}
	}
	clear(s.workers)
	s.epoch++
	s.boot = [16]byte{}
	for _, name := range s.Queues() {
		for _, j := range s.queues[name].all() {
			if err := s.moveAll(&w, j, move); err != nil {
				return err
			}
		}
	}
	s.uses.files, s.uses.last = map[uint32]*Use{}, nil
	s.EachLoc(func(_ broker.Ref, _ string, l Loc) { s.uses.add(l) })
	return nil
}

// all returns the queue's jobs by seq, and behind them those that are on their
// way to another store.
func (q *queue) all() []*job {
	jobs := q.inOrder()
	if q.move != nil {
		for _, o := range q.move.out.jobs {
			jobs = append(jobs, o.job)
		}
	}
	return jobs
}

// inOrder returns the queue's jobs by seq. Entries are mostly in that order.
func (q *queue) inOrder() []*job {
	s := q.state
	jobs := make([]*job, 0, q.jobs.len())
	if 4*q.jobs.len() < int(s.jobs.used) {
		jobs = slices.AppendSeq(jobs, q.jobs.all(&s.jobs))
	} else {
		for r := range s.jobs.used {
			if j := s.jobs.at(r + 1); j.order != 0 && s.queueOf(j) == q {
				jobs = append(jobs, j)
			}
		}
	}
	if !slices.IsSortedFunc(jobs, bySeq) {
		slices.SortFunc(jobs, bySeq)
	}
	return jobs
}

func (s *State) moveAll(w *Writer, j *job, move func(ref broker.Ref, what string, l Loc) (Loc, bool, error)) (err error) {
	ref, sound := broker.Ref{Queue: s.queueOf(j).name, ID: j.id}, true
	x := s.extOf(j)
	if x != nil && !x.err.Zero() {
		if x.err, sound, err = move(ref, "error text", x.err); err != nil {
			return err
		}
		if !sound {
			x.err = Loc{}
		}
	}
	if x != nil && !x.result.Zero() {
		if x.result, sound, err = move(ref, "result", x.result); err != nil {
			return err
		}
		if !sound {
			x.result = Loc{}
			j.flags &^= hasResult
		}
	}
	if j.body, sound, err = move(ref, "payload", j.body); err != nil {
		return err
	}
	switch {
	case sound || j.state().Final():
	case j.order == 0: // it is on its way to another store, in no list
		s.setLater(j, false)
		j.flags &^= waitsBatch
		j.become(broker.Dead)
		j.because(reasonDamaged)
	default:
		s.final(w, j, finalRec{state: broker.Dead, reason: reasonDamaged})
	}
	return nil
}
