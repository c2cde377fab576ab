package filebroker

import (
	"time"

	"github.com/spoolq/spool/internal/rare"
)

const (
	// standsAfter is after how long a silence who compacts is said to stand still.
	standsAfter = 800 * time.Millisecond
	// roomLooks is how many looks in a row find room before it is said to be there: on
	// a disk that is nearly full it comes and goes with each call.
	roomLooks = 5
)

// notices is what a handle has said in its log, so that it says it once. It looks
// once a second.
type notices struct {
	compactor int // pid of who compacts and stands still
	full      bool
	room      int // how many looks in a row found room since
}

func (n *notices) look(b *handle) {
	n.lookForCompactor(b)
	n.lookForRoom(b)
}

// lookForCompactor says who compacts and stands still.
func (n *notices) lookForCompactor(b *handle) {
	pid, silent, ok := b.log.Compactor()
	if !ok || silent < standsAfter {
		n.compactor = 0
		return
	}
	if pid == n.compactor {
		return
	}
	if free, err := b.log.TryCompactLock(); err != nil || free { // it has ended
		if free {
			b.log.CompactUnlock()
		}
		return
	}
	rare.Reached(rare.CompactorReported)
	n.compactor = pid
	b.slg.Warn("a process that compacts the store stands still, and no other can; stop or continue it", "pid", pid, "for", silent.Round(time.Millisecond))
}

// lookForRoom says when the disk is full, and when it no longer is.
func (n *notices) lookForRoom(b *handle) {
	switch n.turns(b.log.Full()) {
	case nowFull:
		b.slg.Warn("the disk is full: enqueues are refused until there is room, claims and settlements go on")
	case roomAgain:
		b.slg.Info("the disk has room again")
	}
}

// turn is what is to be said of the disk.
type turn uint8

const (
	asBefore turn = iota
	nowFull
	roomAgain
)

// turns takes in whether the disk is full at a look.
func (n *notices) turns(full bool) turn {
	switch {
	case full && !n.full:
		n.full, n.room = true, 0
		return nowFull
	case full:
		n.room = 0
	case n.full:
		if n.room++; n.room == roomLooks {
			n.full = false
			return roomAgain
		}
	}
	return asBefore
}
