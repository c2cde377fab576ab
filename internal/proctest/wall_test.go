//go:build linux && amd64

package proctest

import (
	"testing"
	"time"
)

func TestAProcessHasAWallClockOfItsOwn(t *testing.T) {
	for _, off := range []time.Duration{2 * time.Second, -2 * time.Second, time.Hour, -time.Hour} {
		begun, before := time.Now(), now()
		c := start(t, plan{Role: asClient, Wall: off})
		c.order(order{Do: "wall"})
		e := c.await("answer", 1)[0]
		if is := time.Unix(0, e.Number).Sub(begun) - off; is < 0 || is > time.Since(begun) {
			t.Errorf("off by %v: %v more", off, is)
		}
		if e.At < before || e.At > now() {
			t.Errorf("off by %v: its monotonic clock is off, too: %v is not within %v and %v", off, e.At, before, now())
		}
		c.finish()
	}
}
