package journal

// SetClock tells whoever opens the log, until the machine restarts, the offset
// of the caller's clock. LOCK is held.
func (l *Log) SetClock(offset int64) {
	if was, ok := l.Clock(); ok && was == offset {
		return
	}
	l.ClearClock() // who dies in between leaves none, not half of one
	l.control.store(ctlClock, uint64(offset))
	l.control.store(ctlClockCheck, clockCheck(uint64(offset)))
}

// ClearClock takes back what SetClock said. LOCK is held.
func (l *Log) ClearClock() { l.control.store(ctlClockCheck, 0) }

// Clock returns what SetClock said since the machine started; not ok when nobody
// did. LOCK is held.
func (l *Log) Clock() (offset int64, ok bool) {
	v := l.control.load(ctlClock)
	return int64(v), l.control.valid() && l.control.load(ctlClockCheck) == clockCheck(v)
}

// clockCheck tells an offset from garbage. It is never 0.
func clockCheck(v uint64) uint64 { return (v^controlMagic)*0x9e3779b97f4a7c15 | 1 }
