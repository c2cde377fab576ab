package filebroker

import (
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
)

// commitStateless is commit for a handle that has not loaded the state: it finds
// the end of the log, and asks the last frame whether something binds every
// enqueue, and CONTROL for the clock. Where that is not enough each op gets
// errNeedsState, and nothing is done. LOCK and mu are held.
func (b *handle) commitStateless(ops []*op) (wait waits, err error) {
	if damage(b.broken) {
		return nobody, b.broken
	}
	now, ok, err := b.endOfLog()
	if err != nil {
		return nobody, err
	}
	ops = needState(ops, !ok)
	if len(ops) == 0 {
		return nobody, nil
	}
	if ops, err = b.admit(ops); err != nil {
		return nobody, err
	}
	body, at, file := b.log.Body()
	b.w.Reset(body, uint32(file), at, now)
	for _, o := range ops {
		o.stateless(now)
	}
	if b.w.Count() == 0 {
		return nobody, nil
	}
	epoch, _ := b.log.Last()
	if _, err := b.log.Append(b.w.Body(), journal.FrameHeader{Count: b.w.Count(), Epoch: epoch, Adds: adds(ops)}); err != nil {
		b.ring.take()
		return nobody, err
	}
	b.stats.Commits.add(time.Since(b.began))
	if b.cfg.Sync == SyncAlways {
		return some, nil
	}
	b.syncSoon()
	return nobody, nil
}

// stateless reports whether this handle does without the state.
func (b *handle) stateless() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.s == nil
}

// needState turns away the ops that need the state, which may be all, and
// returns the others.
func needState(ops []*op, all bool) (rest []*op) {
	for _, o := range ops {
		if all || o.stateless == nil {
			rare.Reached(rare.StateNeeded)
			o.err = errNeedsState
		} else {
			rest = append(rest, o)
		}
	}
	return rest
}

// endOfLog puts the read position at the end of the log and reads the clocks.
// Not ok when only who knows the state may append there.
func (b *handle) endOfLog() (now jobstate.Now, ok bool, err error) {
	if b.log.GenerationChanged() {
		if _, err := b.log.Refresh(); err != nil {
			return now, false, err
		}
	}
	if ok, err := b.log.Advance(); err != nil || !ok {
		return now, false, err
	}
	offset, ok := b.log.Clock()
	if _, stateful := b.log.Last(); stateful || !ok || !b.log.StateKnown() {
		return now, false, nil
	}
	return jobstate.Now{Wall: b.sys.Wall().UnixNano(), Steady: int64(b.sys.Monotonic()) + offset}, true, nil
}

// shareClock tells those who have not loaded the state what the clock is, once
// the last frame tells them, too, whether they may do without. LOCK and mu are
// held.
func (b *handle) shareClock() {
	offset, ok := b.s.Offset(b.boot)
	if _, stateful := b.log.Last(); ok && stateful == b.s.Binds() {
		b.log.SetClock(offset)
	}
}

// spend drops the state that a recovery left when there is no need for it. LOCK
// and mu are held.
func (b *handle) spend(ops []*op) {
	for _, o := range ops {
		if o.stateless == nil {
			return
		}
	}
	if _, ok := b.log.Clock(); ok && !b.s.Binds() && len(ops) > 0 {
		rare.Reached(rare.SpareStateDropped)
		b.s, b.lazy.spare = nil, false
	}
}

// enqueueStateless is the part of an enqueue in a commit without the state.
func (b *handle) enqueueStateless(now jobstate.Now, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	answers, err := jobstate.EnqueueStateless(&b.w, now, queue, jobs)
	if err == nil {
		for i := range jobs {
			b.ring.add(queue, jobs[i].Task)
		}
	}
	return answers, err
}
