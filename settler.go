package spool

import (
	"errors"
	"fmt"
	"slices"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/rare"
)

// settleLoop settles finished jobs: always all that have gathered while the
// last call was on its way. A call that fails is made again until it succeeds
// or the run is over; meanwhile the leases are kept by the heartbeats. A hook
// that ends the goroutine ends the loop: another goes on where it stopped.
func (r *run) settleLoop() {
	over := false
	defer func() {
		if !over {
			r.loops.Go(r.settleLoop)
		}
	}()
	var pause pause
	for {
		r.reportSettled()
		if len(r.batch) == 0 {
			risen(r.unsent)
			if r.batch = r.takeFinished(); len(r.batch) > 0 {
				r.sendNotes(r.batch)
				continue
			}
			select {
			case <-r.ready:
				continue
			case <-r.ctx.Done():
				over = true
				return
			}
		}
		err := r.settle(r.batch)
		if err == nil {
			r.batch = nil
			pause.reset()
		} else if r.ctx.Err() != nil {
			over = true
			return
		}
		r.fault("settle", err)
		if err != nil {
			rare.Reached(rare.SettleRepeated)
			pause.after(r.ctx, faultMin, faultMax)
		}
	}
}

// unsent counts the jobs that wait to be settled.
func (r *run) unsent() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.finished)
}

// takeFinished takes as many as one call may hold.
func (r *run) takeFinished() []*work {
	r.mu.Lock()
	defer r.mu.Unlock()
	jobs, bytes, n := 0, 0, 0
	for _, w := range r.finished {
		s := &w.settlement
		jobs += 1 + len(s.FollowUps)
		bytes += len(s.Result) + len(s.Error)
		for i := range s.FollowUps {
			bytes += s.FollowUps[i].Job.Size()
		}
		if n > 0 && (jobs > r.client.caps.MaxBatch || bytes > r.client.caps.MaxBytes) {
			break
		}
		n++
	}
	batch := r.finished[:n:n]
	if r.finished = r.finished[n:]; len(r.finished) == 0 {
		r.finished = nil
	}
	return batch
}

// settle settles a batch. When the broker refuses the call for what is in it,
// each is settled alone, so that one cannot hold up the others.
func (r *run) settle(batch []*work) error {
	if slices.ContainsFunc(batch, isDone) { // a fault came between single settlements
		batch = slices.DeleteFunc(slices.Clone(batch), isDone)
	}
	if len(batch) == 0 {
		return nil
	}
	answers, err := r.settleCall(batch)
	if err == nil {
		r.settled(batch, answers)
		return nil
	}
	if errors.Is(err, ErrUnknown) {
		for _, w := range batch {
			w.unknown = true
		}
	}
	if !refused(err) {
		return err
	}
	if len(batch) > 1 {
		rare.Reached(rare.SettledAlone)
		for _, w := range batch {
			if err := r.settle([]*work{w}); err != nil {
				return err
			}
		}
		return nil
	}
	w := batch[0]
	if w.settlement.Result == nil && w.settlement.FollowUps == nil {
		r.settled(batch, []broker.Settled{{Err: err}})
		return nil
	}
	// The result or the follow-ups cannot be stored: a failed attempt.
	rare.Reached(rare.AckRefused)
	w.outcome.Err = fmt.Errorf("ack: %w", err)
	w.settlement.Result, w.settlement.FollowUps = nil, nil
	w.fail(w.outcome.Err.Error(), w.outcome.Err)
	w.settlement.Kind, w.settlement.Error = broker.Nack, w.failure
	return r.settle(batch)
}

func isDone(w *work) bool { return w.done }

func refused(err error) bool { return errors.Is(err, ErrInvalid) || errors.Is(err, ErrTooLarge) }

func (r *run) settleCall(batch []*work) (answers []broker.Settled, err error) {
	settlements := make([]broker.Settlement, len(batch))
	for i, w := range batch {
		settlements[i] = w.settlement
	}
	err = r.client.repeat(r.ctx, func(call broker.Call) (err error) {
		answers, err = r.client.broker.Settle(r.ctx, call, settlements)
		return err
	})
	if err == nil && len(answers) != len(batch) {
		err = fmt.Errorf("%d answers came back for %d settlements", len(answers), len(batch))
	}
	return answers, err
}

// settled forgets the leases of a batch.
func (r *run) settled(batch []*work, answers []broker.Settled) {
	r.mu.Lock()
	for _, w := range batch {
		r.unhold(w)
	}
	r.unsettled -= len(batch)
	r.freeLocked()
	r.mu.Unlock()
	notify(r.poke)
	for i, w := range batch {
		w.outcome.State = answers[i].State
		switch err := answers[i].Err; {
		case errors.Is(err, ErrNotFound) && w.unknown && w.outcome.Kind == broker.Ack:
			rare.Reached(rare.AckUnknown)
			w.outcome.State = Done // by the call whose reply was lost, and dropped since
		case err != nil:
			w.refuse(err)
		}
		w.done = true
		r.unreported = append(r.unreported, w)
	}
}

// reportSettled reports each run that is settled.
func (r *run) reportSettled() {
	for len(r.unreported) > 0 {
		w := r.unreported[0]
		r.unreported = r.unreported[1:]
		r.report(w)
	}
	r.unreported = nil
}

// sendNotes sends what handlers noted since the last heartbeat, in as few calls
// as it takes. Notes are not worth holding up settlements for: what fails is
// lost.
func (r *run) sendNotes(batch []*work) {
	for len(batch) > 0 {
		req, room := broker.ExtendRequest{TTL: r.cfg.LeaseTTL}, r.client.caps.MaxBytes
		for len(batch) > 0 && len(req.Leases) < maxBeatJobs {
			if w := batch[0]; w.hasNotes() {
				x, fits := w.extensionWithin(&room)
				if !fits && len(req.Leases) > 0 { // they go with the next call
					break
				}
				req.Leases = append(req.Leases, x)
			}
			batch = batch[1:]
		}
		if len(req.Leases) == 0 {
			return
		}
		if _, err := r.client.broker.Extend(r.ctx, req); err != nil && r.ctx.Err() == nil {
			r.fault("extend", err)
		}
	}
}
