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
		for j := q.lists[broker.Leased].first; j != nil; j = q.lists[broker.Leased].first {
			s.expire(&w, j, reasonExpired)
		}
	}
	clear(s.workers)
	s.epoch++
	s.boot = [16]byte{}
	for _, name := range s.Queues() {
		for _, j := range s.queues[name].inOrder() {
			if err := s.moveAll(&w, j, move); err != nil {
				return err
			}
		}
	}
	s.uses.files, s.uses.last = map[uint32]*Use{}, nil
	s.EachLoc(func(_ broker.Ref, _ string, l Loc) { s.uses.add(l) })
	return nil
}

func (q *queue) inOrder() []*job {
	jobs := make([]*job, 0, len(q.jobs))
	for _, j := range q.jobs {
		jobs = append(jobs, j)
	}
	slices.SortFunc(jobs, bySeq)
	return jobs
}

func (s *State) moveAll(w *Writer, j *job, move func(ref broker.Ref, what string, l Loc) (Loc, bool, error)) (err error) {
	ref, sound := broker.Ref{Queue: j.queue().name, ID: j.id}, true
	if j.ext != nil && !j.ext.err.Zero() {
		if j.ext.err, sound, err = move(ref, "error text", j.ext.err); err != nil {
			return err
		}
		if !sound {
			j.ext.err = Loc{}
		}
	}
	if j.ext != nil && !j.ext.result.Zero() {
		if j.ext.result, sound, err = move(ref, "result", j.ext.result); err != nil {
			return err
		}
		if !sound {
			j.ext.result = Loc{}
			j.flags &^= hasResult
		}
	}
	if j.body, sound, err = move(ref, "payload", j.body); err != nil {
		return err
	}
	if !sound && !j.state.Final() {
		s.final(w, j, finalRec{state: broker.Dead, reason: reasonDamaged})
	}
	return nil
}
