package crash

import "github.com/spoolq/spool/broker"

// state compares a job's state with what was acknowledged of it, or else with
// what somebody had called for when he was killed.
func (j *judge) state(got *broker.Job, h *history) {
	if c, ok := h.command(broker.DeleteJobs); ok && c.acked {
		j.wrong(&j.WrongState, "job %s was deleted (%d changed) and is there, %v", got.ID, c.changed, got.State)
		return
	}
	_, requeued := h.command(broker.RequeueJobs)
	ends := h.final()
	if len(ends) == 0 || requeued && got.State == broker.Cancelled {
		j.unsettled(got, h)
		return
	}
	last := ends[len(ends)-1]
	acks := map[broker.Token]bool{}
	for _, e := range ends {
		if e.kind == broker.Ack.String() {
			acks[e.token] = true
		}
	}
	if len(acks) > 1 {
		j.wrong(&j.AckedTwice, "job %s was acked with %d tokens", got.ID, len(acks))
	}
	switch {
	case acks[last.token] && (h.largest() > last.token || got.Token > last.token):
		j.wrong(&j.RanAgainAfterAck, "job %s was acked with token %v and has token %v now", got.ID, last.token, max(got.Token, h.largest()))
	case got.Token != last.token:
		j.wrong(&j.WrongState, "job %s was settled as %v with token %v and has token %v now", got.ID, last.state, last.token, got.Token)
	case got.State != last.state:
		j.wrong(&j.WrongState, "job %s was settled as %v and is %v", got.ID, last.state, got.State)
	case len(ends) > len(acks) && len(acks) > 0:
		j.wrong(&j.WrongState, "job %s was both acked and ended otherwise", got.ID)
	}
}

// unsettled judges a job whose end nobody was told of.
func (j *judge) unsettled(got *broker.Job, h *history) {
	cancel, cancelTried := h.command(broker.CancelJobs)
	requeue, requeueTried := h.command(broker.RequeueJobs)
	if cancel.acked && cancel.changed != 1 || requeue.acked && requeue.changed != 1 {
		j.wrong(&j.WrongState, "a command for job %s alone says that it changed %d and %d jobs", got.ID, cancel.changed, requeue.changed)
	}
	last := func(k broker.SettleKind) bool { return h.triedFor(k, got.Token) }
	spent := got.Attempt >= got.MaxAttempts
	fits := false
	switch got.State {
	case broker.Scheduled:
		fits = h.kind == later && !cancel.acked && !requeue.acked
	case broker.Done:
		fits = last(broker.Ack)
	case broker.Dead:
		fits = last(broker.Bury) || spent && (last(broker.Nack) || got.Reason == broker.ReasonCrashed)
	case broker.Cancelled:
		fits = last(broker.Cancel) || cancelTried && !requeue.acked
	}
	switch {
	case fits:
	case !got.State.Final() && (h.kind != later || requeueTried):
		j.wrong(&j.Stuck, "job %s (%s) is still %v, attempt %d", got.ID, h.kind, got.State, got.Attempt)
	default:
		j.wrong(&j.WrongState, "job %s (%s) is %v (%s), token %v, attempt %d, and nobody asked for that", got.ID, h.kind, got.State, got.Reason, got.Token, got.Attempt)
	}
}

// count adds a job to the recount.
func (j *judge) count(got *broker.Job, state broker.State) {
	p := place{got.Queue, got.Task}
	c := j.recount[p]
	if c == nil {
		c = &broker.Count{}
		j.recount[p] = c
	}
	switch state {
	case broker.Scheduled:
		c.Scheduled++
		j.Waiting++
	case broker.Ready:
		c.Ready++
	case broker.Leased:
		c.Leased++
	case broker.Done:
		c.Done++
		j.Done++
	case broker.Dead:
		c.Dead++
		j.Dead++
	case broker.Cancelled:
		c.Cancelled++
		j.Cancelled++
	}
}

// counters compares the store's kept numbers with the recount, and its totals
// with what they must add up to.
func (j *judge) counters(counts []broker.Count) {
	var all broker.Totals
	for _, c := range counts {
		recount := j.recount[place{c.Queue, c.Task}]
		if recount == nil {
			recount = &broker.Count{}
		}
		delete(j.recount, place{c.Queue, c.Task})
		jobs := int64(0)
		for _, s := range broker.States {
			jobs += recount.Of(s)
			if c.Of(s) != recount.Of(s) {
				j.wrong(&j.WrongCounter, "queue %s, task %s: the counter of %v says %d, and %d are there", c.Queue, c.Task, s, c.Of(s), recount.Of(s))
			}
		}
		t := c.Totals
		if t.Enqueued != jobs+t.Deleted || t.Acked != recount.Done || t.Died != recount.Dead || t.Cancelled < recount.Cancelled {
			j.wrong(&j.WrongCounter, "queue %s, task %s: the totals %+v do not add up to the %d jobs there: %d done, %d dead, %d cancelled", c.Queue, c.Task, t, jobs, recount.Done, recount.Dead, recount.Cancelled)
		}
		all.Claimed += t.Claimed
		all.Expired += t.Expired
		all.Deleted += t.Deleted
	}
	for p := range j.recount {
		j.wrong(&j.WrongCounter, "queue %s, task %s has jobs and no counters", p.queue, p.task)
	}
	if int(all.Claimed) < j.Claims || int(all.Deleted) != j.Deleted {
		j.wrong(&j.WrongCounter, "the totals say %d claims and %d deletions; noted are %d or more, and %d", all.Claimed, all.Deleted, j.Claims, j.Deleted)
	}
	j.Redelivered = int(all.Expired)
}
