package journal

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/spoolq/spool/internal/rare"
)

// A store is poisoned by a flag in CONTROL, with the reason behind it, for the
// processes that live, and by the file POISON for those that come after a restart
// of the machine. The disk that failed may well refuse the file.

type poison struct{ err error }

const (
	poisonName = "POISON"
	poisonMax  = 4096
)

// Poisoned is nil, or why nobody may write: ErrPoisoned with what failed. It
// costs two atomic loads.
func (l *Log) Poisoned() error {
	if p := l.poisoned.Load(); p != nil {
		return p.err
	}
	if l.control.load(ctlPoison) != flagSet {
		return nil
	}
	why, ok := l.readPoison()
	if !ok { // whoever found it may not have got that far
		rare.Reached(rare.PoisonReasonMissing)
		return fmt.Errorf("%w: the reason was not recorded", ErrPoisoned)
	}
	p := &poison{fmt.Errorf("%w: %s", ErrPoisoned, why)}
	rare.Reached(rare.PoisonedByOther)
	l.poisoned.CompareAndSwap(nil, p)
	return p.err
}

// readPoison is the reason, from CONTROL or from POISON.
func (l *Log) readPoison() (string, bool) {
	if why := l.control.why(); why != "" {
		return why, true
	}
	f, err := l.sys.Open(join(l.dir, poisonName), 0)
	if err != nil {
		return "", false
	}
	rare.Reached(rare.PoisonReasonFromFile)
	b, err := readAll(f, poisonMax)
	return string(b), joinClose(err, f) == nil && len(b) > 0
}

// Poison forbids every process to write, because why happened. It never fails:
// what cannot be recorded still holds for the live processes.
func (l *Log) Poison(why error) {
	if why == nil {
		return
	}
	rare.Reached(rare.Poisoned)
	l.broken.Store(true)
	l.poisoned.CompareAndSwap(nil, &poison{fmt.Errorf("%w: %w", ErrPoisoned, why)})
	text := why.Error()
	l.control.poison(text)
	err := writeFile(l.sys, join(l.dir, poisonName), []byte(text[:min(len(text), poisonMax)]), 0)
	if err == nil {
		err = l.sys.SyncDir(l.dir)
	}
	l.report("store poisoned", "why", why, "recorded", err == nil)
}

// poison sets the flag. The first reason stays.
func (c *control) poison(why string) {
	if c.swap(ctlWhyState, 0, whyBegun) {
		b := make([]byte, 8*(ctlWhyEnd-ctlWhy))
		copy(b, why)
		for i := ctlWhy; i < ctlWhyEnd; i++ {
			c.store(i, binary.LittleEndian.Uint64(b[8*(i-ctlWhy):]))
		}
		c.store(ctlWhyState, whyThere)
	}
	c.store(ctlPoison, flagSet)
}

// why is the reason, as far as there is room for it; "" when it is not there.
func (c *control) why() string {
	if c.load(ctlWhyState) != whyThere {
		return ""
	}
	var b []byte
	for i := ctlWhy; i < ctlWhyEnd; i++ {
		b = binary.LittleEndian.AppendUint64(b, c.load(i))
	}
	return string(bytes.TrimRight(b, "\x00"))
}

// unpoison takes the flag back; LOCK is held, and nobody else lives.
func (c *control) unpoison() {
	c.store(ctlWhyState, 0)
	c.store(ctlPoison, 0)
}
