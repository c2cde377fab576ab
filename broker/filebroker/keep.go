package filebroker

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/spoolq/spool/internal/journal"
)

// fullRetry is how often room is looked for on a full disk.
const fullRetry = time.Second

// prepare keeps segments ahead of the log.
func (b *handle) prepare() {
	for {
		if b.log.Poisoned() != nil {
			return
		}
		if err := b.log.Prepare(); err != nil && !errors.Is(err, journal.ErrDiskFull) {
			b.report("prepare the next segment", err)
		}
		var again <-chan time.Time
		if b.log.Full() {
			again = time.After(fullRetry)
		}
		select {
		case <-b.log.PrepareWanted():
		case <-again:
		case <-b.closed:
			return
		}
	}
}

// probeEvery is how often a handle looks for others that ended; pollDeath is
// the same where the system does not say so.
const (
	probeEvery = 15 * time.Second
	pollDeath  = 300 * time.Millisecond
)

func (b *handle) probe() {
	every := probeEvery
	if b.bells.watcher() == nil {
		every = pollDeath
	}
	for {
		t := time.NewTimer(every/2 + rand.N(every))
		select {
		case <-t.C:
			if b.log.Poisoned() != nil {
				return
			}
			b.report("look for handles that ended", b.missed())
		case <-b.closed:
			t.Stop()
			return
		}
	}
}
