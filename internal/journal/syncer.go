package journal

import (
	"time"

	"github.com/spoolq/spool/internal/rare"
)

// Processes that sync at the same time get in each other's way: a sync takes
// long whatever it is for. So one of them does, as words in CONTROL say, and
// whoever waited for it looks whether that was for its own frames too. These are
// hints as all of CONTROL is: two that sync at the same time do no harm.

// syncPatience is how long another's sync is waited for. Then the place is taken
// from it: its process was killed or stopped, or the disk is slow.
const syncPatience = 20 * time.Millisecond

// beSyncer waits until the log is durable up to want, or until it is this
// handle that syncs: until endSync.
func (l *Log) beSyncer(want Pos) (id uint64, ok bool) {
	c, patience := l.control, syncPatience
	id = uint64(l.pid)<<32 | uint64(l.syncs.Add(1)|1)
	for last := uint64(0); ; {
		ended := c.half(ctlSynced).Load() // before looking, so that no end is missed
		if !l.Durable().Before(want) {
			rare.Reached(rare.SyncSaved)
			return 0, false
		}
		other := c.load(ctlSyncer)
		if other != last {
			last, patience = other, syncPatience
		}
		if other == 0 || patience <= 0 {
			if c.swap(ctlSyncer, other, id) {
				if other != 0 {
					rare.Reached(rare.SyncerReplaced)
				}
				return id, true
			}
			continue
		}
		patience -= l.awaitSync(ended, patience)
	}
}

// awaitSync waits until another sync than the first ended ones has ended, for d
// at most, and returns how much of d is over.
func (l *Log) awaitSync(ended uint32, d time.Duration) time.Duration {
	c, begun := l.control, l.sys.Monotonic()
	c.add(ctlAwaiting, 1)
	err := l.sys.WaitWord(c.half(ctlSynced), ended, d)
	c.add(ctlAwaiting, -1)
	if err != nil {
		return d
	}
	return l.sys.Monotonic() - begun
}

// endSync lets the next one sync, and lets those look who waited.
func (l *Log) endSync(id uint64) {
	c := l.control
	c.swap(ctlSyncer, id, 0)
	c.half(ctlSynced).Add(1)
	if c.load(ctlAwaiting) > 0 {
		l.sys.WakeWord(c.half(ctlSynced))
	}
}
