//go:build linux || darwin

package vfs_test

import (
	"errors"
	"io/fs"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs"
)

func (p *place) alarm(t *testing.T) vfs.Alarm {
	t.Helper()
	a, err := p.Alarm()
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	ok(t, err)
	t.Cleanup(func() {
		if err := a.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
			t.Error(err)
		}
	})
	return a
}

// ringing waits for the alarm clock in the background.
func ringing(a vfs.Alarm) <-chan error {
	c := make(chan error, 1)
	go func() { c <- a.Next() }()
	return c
}

func alarmRings(t *testing.T, p *place) {
	a := p.alarm(t)
	for i := range 100 { // so that it learns what a wake-up takes
		ok(t, a.Set(p.Monotonic()+time.Hour))
		rings := ringing(a)
		at := p.Monotonic() + time.Duration(i%4)*300*time.Microsecond
		ok(t, a.Set(at))
		ok(t, soon(t, "Next", rings))
		if early := at - p.Monotonic(); early > 0 {
			t.Errorf("ring %d came %v early", i, early)
		}
	}
	ok(t, a.Set(p.Monotonic()))
	ok(t, a.Set(p.Monotonic()+time.Hour))
	select {
	case err := <-ringing(a):
		t.Errorf("rang (error %v) for a moment that another one had replaced", err)
	case <-time.After(20 * time.Millisecond):
	}
}

func alarmPast(t *testing.T, p *place) {
	a := p.alarm(t)
	for _, at := range []time.Duration{p.Monotonic() - 1, 0, -time.Hour} {
		ok(t, a.Set(at))
		ok(t, soon(t, "Next", ringing(a)))
	}
}

func alarmClose(t *testing.T, p *place) {
	a := p.alarm(t)
	ok(t, a.Set(p.Monotonic()+time.Hour))
	rings := ringing(a)
	ok(t, a.Close())
	is(t, "Next", soon(t, "Next", rings), fs.ErrClosed)
	is(t, "Set", a.Set(p.Monotonic()), fs.ErrClosed)
	is(t, "Close", a.Close(), fs.ErrClosed)
}
