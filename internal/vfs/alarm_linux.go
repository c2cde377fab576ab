package vfs

import (
	"io/fs"
	"os"
	"runtime"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// alarm is a timerfd. Its descriptor does not block, so Next waits in the
// runtime's poller. To wake that takes some ten microseconds, mostly about the
// same: the descriptor is set to so much earlier, and Next spins for what is
// left.
type alarm struct {
	h    *host
	f    *os.File
	conn syscall.RawConn

	mu   sync.Mutex
	at   time.Duration // the moment that was set
	lead time.Duration // by how much the descriptor is set to an earlier one
}

// The lead follows the wake-ups in steps, and settles where one in four is
// early: of several processes that wait for the same moment on few processors
// some come after those that spin, and learn nothing from that. What is left of
// the lead is spun for, so there is a bound.
const (
	lateStep  = 1 * time.Microsecond
	earlyStep = 3 * lateStep
	maxLead   = 100 * time.Microsecond
)

func (h *host) Alarm() (Alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_CLOEXEC|unix.TFD_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	f := os.NewFile(uintptr(fd), "timerfd")
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, closeAfter(f, err)
	}
	return &alarm{h: h, f: f, conn: conn}, nil
}

func (a *alarm) Set(at time.Duration) error {
	a.mu.Lock() // so that the descriptor is never set to another moment than at
	defer a.mu.Unlock()
	a.at = at
	rings := at + a.h.offset - a.lead
	spec := unix.ItimerSpec{Value: unix.NsecToTimespec(int64(max(rings, 1)))} // 0 would set it to nothing
	var err error
	if e := a.conn.Control(func(fd uintptr) {
		err = unix.TimerfdSettime(int(fd), unix.TFD_TIMER_ABSTIME, &spec, nil)
	}); e != nil {
		return pathError("set", "timerfd", fs.ErrClosed) // the only thing that can be wrong here
	}
	return os.NewSyscallError("timerfd_settime", err)
}

func (a *alarm) Next() error {
	var times [8]byte // how often it rang
	if _, err := a.f.Read(times[:]); err != nil {
		return err
	}
	for at := a.rang(); a.h.Monotonic() < at; {
		runtime.Gosched()
	}
	return nil
}

// rang learns from a wake-up, and returns the moment that it was for: 0 when
// another one has been set since.
func (a *alarm) rang() (at time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	early := a.at - a.h.Monotonic()
	switch {
	case early > maxLead:
		return 0
	case early > 0:
		a.lead = max(a.lead-earlyStep, 0)
	default:
		a.lead = min(a.lead+lateStep, maxLead)
	}
	return a.at
}

func (a *alarm) Close() error { return a.f.Close() }
