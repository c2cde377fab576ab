package limit

import (
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// wall is a clock without a monotonic reading that a test can step. Its timers
// are those of package time.
type wall struct {
	mu     sync.Mutex
	step   time.Duration
	timers int
}

func (w *wall) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return time.Now().Round(0).Add(w.step)
}

func (w *wall) Timer(d time.Duration) (<-chan time.Time, func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.timers++
	t := time.NewTimer(d)
	return t.C, func() { t.Stop() }
}

func (w *wall) by(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.step += d
}

func tokenBucket(t testing.TB, rate string, burst int, c Clock) *Limiter {
	t.Helper()
	l, err := NewTokenBucket(parse(t, rate), burst, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func leakyBucket(t testing.TB, rate string, capacity int, c Clock) *Limiter {
	t.Helper()
	l, err := NewLeakyBucket(parse(t, rate), capacity, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func parse(t testing.TB, rate string) Rate {
	t.Helper()
	r, err := ParseRate(rate)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// drain takes all units that may go now, and counts them.
func drain(l *Limiter) (n int) {
	for l.Allow() {
		n++
	}
	return n
}

func TestATokenBucketGivesItsBurstAndThenTheRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tokenBucket(t, "10/s", 3, nil)
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{0, 3}, {100*time.Millisecond - 1, 0}, {1, 1}, {250 * time.Millisecond, 2}, {50 * time.Millisecond, 1}, {time.Hour, 3}} {
			time.Sleep(c.after)
			if got := drain(l); got != c.want {
				t.Errorf("%d units went %v later, want %d", got, c.after, c.want)
			}
		}
	})
}

func TestALeakyBucketGivesOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leakyBucket(t, "10/s burst 5", 3, nil)
		for _, c := range []struct {
			after time.Duration
			want  int
		}{{0, 1}, {99 * time.Millisecond, 0}, {time.Millisecond, 1}, {time.Hour, 1}, {150 * time.Millisecond, 1}, {50 * time.Millisecond, 0}} {
			time.Sleep(c.after)
			if got := drain(l); got != c.want {
				t.Errorf("%d units went %v later, want %d", got, c.after, c.want)
			}
		}
		if l.AllowN(2) {
			t.Error("two units went at once")
		}
	})
}

func TestAllowNTakesAllOrNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tokenBucket(t, "10/s", 0, nil)
		for _, c := range []struct {
			n    int
			want bool
		}{{11, false}, {7, true}, {4, false}, {3, true}, {1, false}, {0, true}} {
			if got := l.AllowN(c.n); got != c.want {
				t.Errorf("%d units: %v", c.n, got)
			}
		}
		time.Sleep(time.Second - 1)
		if l.AllowN(10) {
			t.Error("the burst went a nanosecond before it was earned")
		}
		time.Sleep(time.Nanosecond)
		if !l.AllowN(10) {
			t.Error("the burst did not go when it was earned")
		}
		defer func() {
			if text, _ := recover().(string); text != "limit: negative number of units" {
				t.Errorf("a negative number of units: %q", text)
			}
		}()
		l.AllowN(-1)
	})
}

func TestConstructorsSayWhatIsAllowed(t *testing.T) {
	ok := Rate{Count: 10, Per: time.Second}
	for _, c := range []struct {
		name string
		make func() (*Limiter, error)
		says string
	}{
		{"the zero rate", func() (*Limiter, error) { return NewTokenBucket(Rate{}, 1, nil) }, "count is 0"},
		{"no period", func() (*Limiter, error) { return NewTokenBucket(Rate{Count: 1}, 1, nil) }, "period is 0s"},
		{"a negative burst", func() (*Limiter, error) { return NewTokenBucket(ok, -1, nil) }, "burst is -1"},
		{"a leaky bucket without a rate", func() (*Limiter, error) { return NewLeakyBucket(Rate{}, 1, nil) }, "count is 0"},
		{"a negative capacity", func() (*Limiter, error) { return NewLeakyBucket(ok, -1, nil) }, "capacity is -1"},
		{"a capacity above the largest", func() (*Limiter, error) { return NewLeakyBucket(ok, MaxCount+1, nil) }, "allowed are 0 to 1000000000"},
		{"a capacity of centuries", func() (*Limiter, error) { return NewLeakyBucket(Rate{Count: 1, Per: MaxPer}, 2, nil) }, "3650 days"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if l, err := c.make(); l != nil || err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, %v, want %q in the error", l, err, c.says)
			}
		})
	}
	if l, err := NewTokenBucket(ok, 0, nil); err != nil || l.Rate() != ok {
		t.Errorf("a burst of 0: %v, %v, want the rate's own", l, err)
	}
}

func TestReservationsFollowEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tokenBucket(t, "10/s", 2, nil)
		var all []*Reservation
		for i, want := range []time.Duration{0, 0, 100 * time.Millisecond, 200 * time.Millisecond, 300 * time.Millisecond} {
			r := l.Reserve()
			if !r.OK() || r.Delay() != want {
				t.Fatalf("reservation %d: %v, %v, want %v", i, r.OK(), r.Delay(), want)
			}
			all = append(all, r)
		}
		time.Sleep(250 * time.Millisecond)
		if got := all[4].Delay(); got != 50*time.Millisecond {
			t.Errorf("250 ms later the last has to wait %v, want 50ms", got)
		}
		if got := all[2].Delay(); got != 0 {
			t.Errorf("250 ms later the third has to wait %v, want 0", got)
		}
		if l.Allow() {
			t.Error("a unit went before those that are reserved")
		}
	})
}

func TestCancelGivesBackTheLastReservation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tokenBucket(t, "10/s", 1, nil)
		next := func(want time.Duration) *Reservation {
			t.Helper()
			r := l.Reserve()
			if got := r.Delay(); got != want*time.Millisecond {
				t.Fatalf("to wait %v, want %d ms", got, want)
			}
			return r
		}
		used := next(0)
		a, b := next(100), next(200)
		used.Cancel() // its time has come
		b.Cancel()
		b.Cancel()
		c := next(200)
		b.Cancel() // not c's
		d := next(300)
		a.Cancel() // b's and c's followers have been promised their instants
		next(400).Cancel()
		d.Cancel()
		c.Cancel()
		e := next(200)
		time.Sleep(200 * time.Millisecond)
		e.Cancel() // its time has come just now
		next(100)
		time.Sleep(time.Second)
		next(0)
	})
}

func TestAFullLeakyBucketReservesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leakyBucket(t, "3/s", 2, nil)
		for i := range 3 {
			if !l.Reserve().OK() {
				t.Fatalf("reservation %d was refused", i)
			}
		}
		r := l.Reserve()
		if r.OK() || r.Delay() != Never {
			t.Fatalf("the bucket holds one more: %v, %v", r.OK(), r.Delay())
		}
		r.Cancel()
		time.Sleep(time.Second/3 - time.Microsecond)
		if l.Reserve().OK() {
			t.Error("there was room before one had leaked")
		}
		time.Sleep(time.Microsecond)
		if r := l.Reserve(); !r.OK() || r.Delay() != 2*time.Second/3+1 {
			t.Errorf("after one leaked: %v, %v", r.OK(), r.Delay())
		}
	})
}

func TestACapacityIsATimeRoundedUp(t *testing.T) {
	for _, c := range []struct {
		rate     string
		capacity int
		most     int64
	}{{"10/s", 2, 200_000_000}, {"3/s", 1, 333_333_334}, {"3/s", 2, 666_666_667}, {"3/s", 3, 1e9}, {"3/s", 0, 0}} {
		if l := leakyBucket(t, c.rate, c.capacity, nil); l.most != c.most {
			t.Errorf("%d at %s may wait %d ns, want %d", c.capacity, c.rate, l.most, c.most)
		}
	}
}

func TestALimiterOutlivesAStepOfItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(wall)
		l := tokenBucket(t, "10/s", 10, c)
		if n := drain(l); n != 10 {
			t.Fatalf("%d units went from a full bucket", n)
		}
		c.by(-time.Hour)
		if n := drain(l); n != 0 {
			t.Errorf("%d units went after a step back", n)
		}
		time.Sleep(500 * time.Millisecond)
		if n := drain(l); n != 5 {
			t.Errorf("%d units went in half a second after a step back, want 5", n)
		}
		c.by(time.Hour)
		if n := drain(l); n != 5 {
			// The half second is what the clock now shows beyond the latest it
			// ever showed: it counts once as time on the way, once as new.
			t.Errorf("%d units went when the clock was set right, want 5", n)
		}
	})
}

func TestAllowAllocatesNothing(t *testing.T) {
	l, p, r := tokenBucket(t, "1000000/s", 0, nil), leakyBucket(t, "1000000/s", 5, nil), parse(t, "10/s")
	for _, c := range []struct {
		name string
		call func()
	}{
		{"a token bucket", func() { l.Allow() }},
		{"several units", func() { l.AllowN(3) }},
		{"a leaky bucket", func() { p.Allow() }},
		{"the pure core", func() { r.Allow(State{}, 1, 1) }},
	} {
		if n := testing.AllocsPerRun(1000, c.call); n != 0 {
			t.Errorf("%s: %v allocations", c.name, n)
		}
	}
}

func TestGoroutinesShareOneRate(t *testing.T) {
	l := tokenBucket(t, "100000/s", 10, nil)
	start := time.Now()
	var mu sync.Mutex
	var wg sync.WaitGroup
	total := 0
	for range 4 {
		wg.Go(func() {
			n := 0
			for range 20_000 {
				if l.Allow() {
					n++
				}
			}
			mu.Lock()
			defer mu.Unlock()
			total += n
		})
	}
	wg.Wait()
	most := 10 + 100_000*time.Since(start).Seconds()
	if float64(total) > most || total < 10 {
		t.Errorf("%d units went, at most %.1f may", total, most)
	}
}
