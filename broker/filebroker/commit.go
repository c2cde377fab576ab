package filebroker

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/rare"
)

const (
	// maxBehind is how much of the log may be read while holding LOCK.
	maxBehind = 256 << 10
	// maxUpkeep is how many due jobs a commit sees to beside its own calls.
	maxUpkeep = 256
	// patience is how long LOCK may be waited for before it is reported.
	patience = 2 * time.Second
	// youngBoot is how long after a boot claims are synced before they are
	// answered: a job that crashes the machine has to run out of attempts.
	youngBoot = time.Minute
)

// lead makes one commit. The first is the caller's own: it goes on inline as
// long as the lock is free, and leaves the waiting to a goroutine otherwise, so
// that a caller can leave on its context. own is the caller's op, nil for a
// goroutine: one that does not wait for the disk leaves the sync to another.
func (b *handle) lead(own *op) {
	b.queue.muster()
	waiting, ok := b.commitPending(own == nil)
	if !ok {
		b.background(func() { b.lead(nil) })
		return
	}
	sync, lead := b.queue.committed(waiting)
	if lead {
		b.background(func() { b.lead(nil) })
	}
	switch {
	case sync && own != nil && own.free:
		b.background(b.sync)
	case sync:
		b.sync()
	}
}

// commitPending makes one commit of what is pending, and returns those that
// wait for the disk. Not ok when that would have to wait, and patient is false.
func (b *handle) commitPending(patient bool) (waiting []*op, ok bool) {
	if !patient && !b.lazy.gate.TryRLock() {
		return nil, false
	}
	if patient {
		b.lazy.gate.RLock()
	}
	defer b.lazy.gate.RUnlock()
	b.readForward()
	free, err := b.log.TryLock()
	if err == nil && !free {
		if !patient {
			return nil, false
		}
		err = b.lock()
	}
	if err != nil {
		b.finish(b.queue.take(), public(err))
		return nil, true
	}
	return b.locked(), true
}

// sync makes durable what committed ops wait for, and answers them.
func (b *handle) sync() {
	ops := b.queue.takeWritten()
	began := time.Now()
	own, err := b.log.SyncTo(b.log.Pos())
	if own {
		b.stats.Syncs.add(time.Since(began))
	}
	b.finish(ops, public(err))
	sync, lead := b.queue.synced(len(ops))
	if lead {
		b.background(func() { b.lead(nil) })
	}
	if sync {
		b.background(b.sync)
	}
}

// background runs fn in a goroutine that Close waits for.
func (b *handle) background(fn func()) { b.wg.Go(fn) }

// watchdog reports a process that keeps LOCK for long, until it is stopped: by
// whoever waits for LOCK, when the wait is over.
func (b *handle) watchdog() (stop func()) {
	var mu sync.Mutex
	var timer *time.Timer
	over := false
	mu.Lock()
	defer mu.Unlock()
	timer = time.AfterFunc(patience, func() {
		mu.Lock()
		defer mu.Unlock()
		if !over && !b.reportHolder() {
			timer.Reset(patience / 2)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		timer.Stop()
	}
}

// reportHolder says who keeps LOCK. It reports nothing, and returns false, when
// that is one who has it for a moment: many do, on a machine that is busy.
func (b *handle) reportHolder() bool {
	pid, since, ok := b.log.Holder()
	switch {
	case !ok:
		rare.Reached(rare.HolderUnknown)
		b.slg.Warn("the store's lock is held by a process that did not say who it is")
	case since < patience/2:
		return false
	default:
		rare.Reached(rare.HolderReported)
		b.slg.Warn("a process holds the store's lock; stop or continue it", "pid", pid, "for", since.Round(time.Millisecond))
	}
	return true
}

// lock waits for LOCK, and reports who holds it when that takes long.
func (b *handle) lock() error {
	defer b.watchdog()()
	for round := 0; ; round++ {
		if err := b.log.Lock(); err != nil {
			return err
		}
		if round == 2 || b.log.Behind() <= maxBehind || b.stateless() {
			return nil
		}
		b.log.Unlock()
		b.readForward()
	}
}

// locked makes one commit; LOCK is held, and free when it returns. It answers
// the ops that do not wait for the disk, and returns the others.
func (b *handle) locked() (waiting []*op) {
	b.mu.Lock()
	b.began = time.Now()
	ops := b.queue.take()
	wait, err := b.commit(ops)
	ring := b.targets(b.ring.take())
	if !b.log.Durable().Before(b.log.Pos()) {
		wait = nobody
	}
	b.mu.Unlock()
	b.log.Unlock()
	b.bells.ring(b, ring)
	if err != nil || wait == nobody {
		b.finish(ops, public(err))
		return nil
	}
	if wait == everybody {
		return ops
	}
	answered, waiting := ops[:0:0], ops[:0]
	for _, o := range ops {
		if o.free {
			answered = append(answered, o)
		} else {
			waiting = append(waiting, o)
		}
	}
	b.finish(answered, nil)
	return waiting
}

// waits says who of a commit waits for the disk.
type waits int

const (
	nobody    waits = iota
	some            // those that are not free
	everybody       // the epoch is not durable yet, which it has to be before any of its leases
)

// finish answers ops. An err of the commit is the answer of each that has none
// of its own.
func (b *handle) finish(ops []*op, err error) {
	if err == nil {
		err = b.log.Poisoned()
		if err != nil {
			err = public(err)
		}
	}
	for _, o := range ops {
		if o.err == nil {
			o.err = err
		}
		close(o.done)
	}
}

// commit decides ops and appends what they write as one frame; LOCK and mu are
// held.
func (b *handle) commit(ops []*op) (wait waits, err error) {
	if b.lazy.spare {
		b.spend(ops)
	}
	if b.s == nil {
		return b.commitStateless(ops)
	}
	wait, err = b.commitStateful(ops)
	if err == nil {
		b.shareClock()
	}
	return wait, err
}

func (b *handle) commitStateful(ops []*op) (wait waits, err error) {
	if err := b.catchUp(); err != nil {
		return nobody, err
	}
	ops, err = b.admit(ops)
	if err != nil {
		return nobody, err
	}
	body, at, file := b.log.Body()
	now := b.now()
	b.w.Reset(body, uint32(file), at, now)
	b.ring.on = true
	epoch := b.s.EpochNumber()
	fresh := b.decide(ops, now)
	b.ring.on = false
	switch {
	case fresh || claims(ops) && b.log.Durable().Before(b.epochEnd):
		wait = everybody
	case b.cfg.Sync == SyncAlways && slices.ContainsFunc(ops, func(o *op) bool { return !o.free }):
		wait = some
	}
	if b.w.Count() == 0 {
		return wait, nil
	}
	if err := b.append(); err != nil {
		return nobody, err
	}
	if b.s.EpochNumber() != epoch {
		b.epochEnd = b.log.Pos()
	}
	for _, o := range ops {
		if o.after != nil {
			o.after()
		}
	}
	if wait == nobody {
		b.syncSoon()
	}
	return wait, nil
}

// decide runs the ops against the state, after what is due, and says whether
// an epoch was opened, which has to be durable before any of its leases.
func (b *handle) decide(ops []*op, now jobstate.Now) (fresh bool) {
	leases := claims(ops)
	_, ours := b.s.Offset(b.boot)
	if !ours || leases && !b.s.Holds(b.member.name) {
		fresh = b.openEpoch(now, leases)
	}
	b.s.Upkeep(&b.w, now, maxUpkeep, b.mayLive)
	if !ours { // a lease that was over by then has expired
		b.endLastBoot()
	}
	for _, o := range ops {
		o.decided = true
		o.decide(now)
	}
	return fresh || leases && b.sys.Monotonic() < youngBoot
}

// endLastBoot ends what handles held before the machine was restarted, of whose life
// signs the power cut left nothing: in this boot nobody is known to the state yet.
func (b *handle) endLastBoot() {
	for _, name := range b.s.Members() {
		if !b.mayLive(name) {
			rare.Reached(rare.BootEnded)
			b.s.Gone(&b.w, name)
		}
	}
}

// claims reports whether ops hand out leases.
func claims(ops []*op) bool { return slices.ContainsFunc(ops, func(o *op) bool { return o.claims }) }

// openEpoch joins the current epoch when a live handle holds it, and opens the
// next one otherwise: a power cut may have forgotten claims of the last one,
// and their tokens must not be given out again.
func (b *handle) openEpoch(now jobstate.Now, claims bool) (fresh bool) {
	e := b.s.Epoch()
	name := ""
	if claims {
		name = b.member.name
	}
	if e.Boot == b.boot {
		for _, holder := range e.Holders {
			if lives, _ := b.alive(holder); lives && holder != b.member.name { // one more epoch is none too many
				rare.Reached(rare.EpochJoined)
				b.s.OpenEpoch(&b.w, e.Number, name, e.Boot, e.Offset, false)
				return false
			}
		}
	}
	rare.Reached(rare.EpochOpened)
	offset := e.Offset
	if e.Boot != b.boot {
		offset = now.Steady - int64(b.sys.Monotonic())
	}
	// What the page cache holds outlives processes, but neither a restart of the
	// machine nor a write that failed.
	forgot := e.Number > 0 && (e.Boot != b.boot || b.lossy)
	if forgot {
		rare.Reached(rare.EpochForgot)
	}
	b.lossy = false
	b.s.OpenEpoch(&b.w, e.Number+1, name, b.boot, offset, forgot)
	return true
}

// admit makes room for the frame, and turns enqueues away while the disk is
// full. It returns the ops that go on.
func (b *handle) admit(ops []*op) ([]*op, error) {
	size, class := 4096, journal.Settle
	for _, o := range ops {
		size += o.size
		if o.class == journal.Enqueue {
			class = journal.Enqueue
		}
	}
	err := b.log.Reserve(size, class, adds(ops))
	if class == journal.Settle && errors.Is(err, journal.ErrDiskFull) && slices.ContainsFunc(ops, func(o *op) bool { return o.scrapes }) {
		rare.Reached(rare.ScrapedRoom)
		return ops, nil // the frame may be smaller than was said
	}
	if !errors.Is(err, journal.ErrDiskFull) || class != journal.Enqueue {
		return ops, err
	}
	size = 4096
	rest := ops[:0:0]
	for _, o := range ops {
		if o.class == journal.Enqueue {
			o.err = public(err)
			continue
		}
		size += o.size
		rest = append(rest, o)
	}
	if len(rest) == 0 {
		return nil, err // nothing is left to do that would be worth room
	}
	rare.Reached(rare.EnqueueTurnedAway)
	return rest, b.log.Reserve(size, journal.Settle, 0)
}

// adds is by how much ops make a checkpoint larger at most.
func adds(ops []*op) (n int64) {
	for _, o := range ops {
		n += o.adds
	}
	return n
}

// append writes the frame. When that fails the state is ahead of the log, and
// is built anew from it.
func (b *handle) append() error {
	b.log.SetState(b.s.Room())
	_, err := b.log.Append(b.w.Body(), journal.FrameHeader{Count: b.w.Count(), Epoch: b.s.EpochNumber(), Stateful: b.s.Binds()})
	if err != nil {
		rare.Reached(rare.StateRebuilt)
		b.ring.take()
		return errors.Join(err, b.reload())
	}
	b.s.Wrote(&b.w)
	b.stats.Commits.add(time.Since(b.began))
	return nil
}

// catchUp takes in what others appended; LOCK and mu are held. It does not look
// whether CURRENT was flipped: what follows from that, loading at worst, is for
// who reads without LOCK, unless a segment is gone.
func (b *handle) catchUp() error {
	for try := 1; ; try++ {
		if err := b.mend(); err != nil {
			return err
		}
		err := b.log.CatchUp(b.apply)
		if err == nil || errors.Is(err, journal.ErrPoisoned) {
			return err
		}
		b.broken = err
		if !overtaken(err) || try == 2 { // no second one: without LOCK nothing is sealed
			return err
		}
	}
}

// readForward takes in what others published, without LOCK. Errors show again
// under LOCK, where they are dealt with.
func (b *handle) readForward() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readForwardLocked()
}

// readForwardLocked is readForward with mu held. What it fails for is in
// broken, and tried again by the next one; but for damage, which another look
// without LOCK does not mend.
func (b *handle) readForwardLocked() {
	if b.s == nil || damage(b.broken) || b.mend() != nil || b.follow() != nil {
		return
	}
	err := b.log.Read(b.apply)
	if overtaken(err) {
		rare.Reached(rare.ReadOvertaken)
		err = b.reload()
	}
	b.broken = err
}

// mend builds the state anew when it is not what the log says; mu is held.
func (b *handle) mend() error {
	if b.broken == nil {
		return nil
	}
	return b.reload()
}

// overtaken says whether a read failed since compactions dropped the file that
// it was about to read: what CURRENT names now has to be loaded instead.
func overtaken(err error) bool {
	return errors.Is(err, journal.ErrBehind) || errors.Is(err, fs.ErrNotExist)
}

// damage says whether err is about bytes that are not what was written, or that
// only a newer version knows: nothing can be decided on such a state.
func damage(err error) bool {
	return errors.Is(err, journal.ErrCorrupt) || errors.Is(err, jobstate.ErrRecord) || errors.Is(err, jobstate.ErrNewer)
}

// apply takes in one frame.
func (b *handle) apply(f *journal.Frame) error {
	if f.Kind == journal.KindEnd && len(f.Body) > 0 && !bytes.Equal(f.Body, b.s.Digest()) {
		rare.Reached(rare.CountsDisagree)
		return fmt.Errorf("%w: this handle counts otherwise than who sealed segment %d", journal.ErrCorrupt, f.At.Segment)
	}
	if f.Kind != journal.KindData {
		return nil
	}
	epoch := b.s.EpochNumber()
	err := b.s.Apply(f.Body, uint32(journal.SegmentFile(f.At.Segment)), f.BodyAt)
	if b.s.EpochNumber() != epoch {
		b.epochEnd = f.Next
	}
	return err
}

// now reads the clocks.
func (b *handle) now() jobstate.Now {
	mono := int64(b.sys.Monotonic())
	wall := b.sys.Wall().UnixNano()
	if offset, ours := b.s.Offset(b.boot); ours {
		return jobstate.Now{Wall: wall, Steady: mono + offset}
	}
	return jobstate.Now{Wall: wall, Steady: max(wall, b.s.Clock())}
}

// syncSoon makes what was answered without a sync durable within 100 ms, or as
// the sync mode says; mu is held. Once the handle is being closed its end does.
func (b *handle) syncSoon() {
	if b.life.Err() != nil {
		return
	}
	every := 50 * time.Millisecond
	switch b.cfg.Sync {
	case SyncNever:
		return
	case SyncInterval:
		every = b.cfg.SyncEvery
	}
	if !b.syncing.CompareAndSwap(false, true) {
		return
	}
	b.background(func() {
		timer := time.NewTimer(every)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-b.closed:
		}
		b.syncing.Store(false)
		if err := b.ensure(); err != nil {
			b.slg.Error("sync in the background", "error", err)
		}
	})
}

// rest makes durable what an answer rests on that wrote nothing, in the mode
// where answers wait for that.
func (b *handle) rest() error {
	if b.cfg.Sync != SyncAlways {
		return nil
	}
	return b.ensure()
}

// ensure makes everything that this handle has read or written durable.
func (b *handle) ensure() error {
	b.mu.Lock()
	end := b.log.Pos()
	b.mu.Unlock()
	if !b.log.Durable().Before(end) {
		return nil
	}
	err := b.log.Sync()
	return public(err)
}

// check reports why this handle cannot serve reads.
func (b *handle) check() error {
	if b.broken != nil && !errors.Is(b.broken, journal.ErrPoisoned) {
		return public(b.broken)
	}
	return nil
}
