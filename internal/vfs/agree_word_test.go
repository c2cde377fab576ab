//go:build linux || darwin

package vfs_test

import (
	"errors"
	"os"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/spoolq/spool/internal/vfs"
)

// word maps the first word of a file once more.
func (p *place) word(t *testing.T) *atomic.Uint32 {
	t.Helper()
	f, err := p.Open(p.dir+"/words", os.O_RDWR|os.O_CREATE)
	ok(t, err)
	t.Cleanup(func() { ok(t, f.Close()) })
	ok(t, f.Truncate(4096))
	b, err := f.Map(4096)
	ok(t, err)
	return (*atomic.Uint32)(unsafe.Pointer(&b[0]))
}

func waitWord(t *testing.T, s vfs.System, w *atomic.Uint32, old uint32, d time.Duration) error {
	err := s.WaitWord(w, old, d)
	if errors.Is(err, errors.ErrUnsupported) {
		t.Skip(err)
	}
	return err
}

func wordWakes(t *testing.T, p *place) {
	a, b := p.word(t), p.word(t)
	ok(t, waitWord(t, p, a, 1, 0)) // skips here where there is no such thing
	woken := make(chan error, 1)
	go func() {
		for a.Load() == 0 {
			if err := p.WaitWord(a, 0, time.Minute); err != nil {
				woken <- err
				return
			}
		}
		woken <- nil
	}()
	b.Store(1)
	p.WakeWord(b)
	ok(t, soon(t, "WaitWord", woken))
}

func wordDiffers(t *testing.T, p *place) {
	w := p.word(t)
	w.Store(2)
	begun := time.Now()
	ok(t, waitWord(t, p, w, 1, time.Minute))
	if took := time.Since(begun); took > 10*time.Second {
		t.Errorf("waited %v for a word that was another already", took)
	}
}

func wordTimesOut(t *testing.T, p *place) {
	w := p.word(t)
	for { // it can return early
		if err := waitWord(t, p, w, 0, 10*time.Millisecond); err != nil {
			is(t, "WaitWord", err, os.ErrDeadlineExceeded)
			return
		}
	}
}
