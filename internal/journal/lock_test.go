package journal

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// TestNobodyStarvesForTheLock lets a handle take the lock again and again as
// soon as it has freed it: another, which waits, gets its turns all the same.
func TestNobodyStarvesForTheLock(t *testing.T) {
	dir := storeDir(t)
	hog, polite := open(t, dir), open(t, dir)
	var stop atomic.Bool
	var wg sync.WaitGroup
	turns := 0
	wg.Go(func() {
		for !stop.Load() {
			if err := hog.Lock(); err != nil {
				t.Error(err)
				return
			}
			turns++
			until := time.Now().Add(time.Millisecond)
			for time.Now().Before(until) {
			}
			hog.Unlock()
		}
	})
	start := time.Now()
	for range 20 {
		must(t, polite.Lock())
		polite.Unlock()
	}
	waited := time.Since(start)
	stop.Store(true)
	wg.Wait()
	if turns > 200 {
		t.Errorf("the hog had %d turns (%v) while the polite one had 20", turns, waited)
	}
	if n := polite.control.load(ctlQueue); n != 0 {
		t.Errorf("%d wait although nobody does", n)
	}
}
