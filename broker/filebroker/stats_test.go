package filebroker

import (
	"testing"
	"time"
)

func TestDurationsAreCountedInBuckets(t *testing.T) {
	cases := []struct {
		name string
		took time.Duration
		at   time.Duration // the lowest bound that it is within; 0: none
	}{
		{"a clock that stepped back counts as nothing", -time.Second, shortest},
		{"nothing", 0, shortest},
		{"the first bound itself", shortest, shortest},
		{"just more than a bound", shortest + 1, 2 * shortest},
		{"a bound in the middle", 128 * shortest, 128 * shortest},
		{"the last bound", shortest << (buckets - 1), shortest << (buckets - 1)},
		{"more than the last bound", shortest<<(buckets-1) + 1, 0},
		{"an hour", time.Hour, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			var d Durations
			d.add(c.took)
			if d.Load() != 1 || d.Sum() != max(c.took, 0) {
				t.Errorf("%d events of %v", d.Load(), d.Sum())
			}
			at, last := time.Duration(0), time.Duration(0)
			for bound, n := range d.Buckets {
				if bound <= last {
					t.Fatalf("bound %v after %v", bound, last)
				}
				if last = bound; n == 1 && at == 0 {
					at = bound
				}
			}
			if at != c.at {
				t.Errorf("within %v, want %v", at, c.at)
			}
		})
	}
}
