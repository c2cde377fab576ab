package limit

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// line is a number of goroutines in Wait, and who got through when.
type line struct {
	l     *Limiter
	start time.Time
	wg    sync.WaitGroup
	mu    sync.Mutex
	order []int
	at    []time.Duration
	errs  map[int]error
}

func newLine(l *Limiter) *line { return &line{l: l, start: time.Now(), errs: map[int]error{}} }

// join puts a goroutine in line and returns when it stands there.
func (q *line) join(ctx context.Context, id int) {
	q.wg.Go(func() {
		err := q.l.Wait(ctx)
		q.mu.Lock()
		defer q.mu.Unlock()
		if err != nil {
			q.errs[id] = err
			return
		}
		q.order, q.at = append(q.order, id), append(q.at, time.Since(q.start))
	})
	synctest.Wait()
}

func TestWaitServesInTheOrderOfArrival(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(wall)
		q := newLine(tokenBucket(t, "10/s", 3, c))
		for id := range 50 {
			q.join(t.Context(), id)
		}
		if q.l.Allow() {
			t.Error("a unit went past those that wait")
		}
		q.wg.Wait()
		for i, id := range q.order {
			if want := time.Duration(max(0, i-2)) * 100 * time.Millisecond; id != i || q.at[i] != want {
				t.Fatalf("place %d: waiter %d after %v, want %v", i, id, q.at[i], want)
			}
		}
		if len(q.order) != 50 || c.timers != 47 {
			t.Errorf("%d went and set %d timers, want 50 and 47", len(q.order), c.timers)
		}
		if q.l.waiters.Len() != 0 || len(q.l.slots) != 0 {
			t.Errorf("%d waiters and %d slots are left", q.l.waiters.Len(), len(q.l.slots))
		}
	})
}

func TestThoseBehindMoveUpWhenAWaiterLeaves(t *testing.T) {
	for _, c := range []struct {
		name   string
		leaver int
	}{{"the first", 0}, {"one in the middle", 2}, {"the last", 4}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newLine(leakyBucket(t, "1/s", 100, nil))
				if !q.l.Allow() {
					t.Fatal("the bucket is not full")
				}
				ctx, cancel := context.WithCancel(t.Context())
				for id := range 5 {
					if id == c.leaver {
						q.join(ctx, id)
					} else {
						q.join(t.Context(), id)
					}
				}
				time.Sleep(500 * time.Millisecond)
				cancel()
				synctest.Wait()
				if err := q.errs[c.leaver]; err != context.Canceled {
					t.Errorf("it returned %v", err)
				}
				if d := q.l.Reserve().Delay(); d != 4500*time.Millisecond {
					t.Errorf("the next would have to wait %v, want 4.5s: a unit was lost", d)
				}
				q.wg.Wait()
				want := slices.DeleteFunc([]int{0, 1, 2, 3, 4}, func(id int) bool { return id == c.leaver })
				if !slices.Equal(q.order, want) || q.at[3] != 4*time.Second {
					t.Errorf("%v went at %v", q.order, q.at)
				}
			})
		})
	}
}

func TestALeaverGivesBackASlotThatHasCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := leakyBucket(t, "1/s", 100, nil)
		l.Allow()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		// Both the slot and the end of the context come after one second.
		err := l.Wait(ctx)
		if free := l.Allow(); free == (err == nil) {
			t.Errorf("Wait returned %v, and afterwards a unit may go: %v", err, free)
		}
	})
}

func TestALateSlotGivenBackIsWorthOneUnit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := new(wall)
		q := newLine(leakyBucket(t, "1/s", 100, c))
		q.l.Allow()
		ctx, cancel := context.WithCancel(t.Context())
		q.join(ctx, 0)
		c.by(1500 * time.Millisecond) // past its slot, before its timer
		cancel()
		q.wg.Wait()
		if !q.l.Allow() {
			t.Error("it was not given back")
		}
		time.Sleep(500 * time.Millisecond)
		if q.l.Allow() {
			t.Error("it was worth more than one unit")
		}
	})
}

// early is a clock whose timers fire a nanosecond too early.
type early struct{ system }

func (early) Timer(d time.Duration) (<-chan time.Time, func()) {
	return system{}.Timer(max(1, d-1))
}

func TestATimerThatFiresEarlyLetsNobodyGoEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLine(leakyBucket(t, "1/s", 100, early{}))
		for id := range 3 {
			q.join(t.Context(), id)
		}
		q.wg.Wait()
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(q.at, want) {
			t.Errorf("went at %v, want %v", q.at, want)
		}
	})
}

func TestAReservationBehindAWaiterKeepsItsInstant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLine(leakyBucket(t, "1/s", 100, nil))
		q.l.Allow()
		ctx, cancel := context.WithCancel(t.Context())
		q.join(ctx, 0)
		q.join(t.Context(), 1)
		r := q.l.Reserve()
		cancel()
		q.wg.Wait()
		if !slices.Equal(q.order, []int{1}) || q.at[0] != time.Second {
			t.Errorf("%v went at %v", q.order, q.at)
		}
		if r.Delay() != 2*time.Second {
			t.Errorf("the reservation has to wait %v, want 2s", r.Delay())
		}
	})
}

func TestWaitReturnsAtOnceWhenItsDeadlineIsTooEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := tokenBucket(t, "1/m", 1, nil)
		l.Allow()
		start := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 59*time.Second)
		defer cancel()
		if err := l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Errorf("%v after %v, want the deadline's error at once", err, time.Since(start))
		}
		ctx, cancel = context.WithTimeout(t.Context(), 61*time.Second)
		defer cancel()
		if err := l.Wait(ctx); err != nil || time.Since(start) != time.Minute {
			t.Errorf("%v after %v: what was refused took a unit", err, time.Since(start))
		}
		ctx, cancel = context.WithTimeout(t.Context(), -1)
		defer cancel()
		time.Sleep(time.Hour)
		if err := l.Wait(ctx); err != context.DeadlineExceeded {
			t.Errorf("a context that has ended: %v", err)
		}
		if !l.Allow() {
			t.Error("a context that has ended took a unit")
		}
	})
}

func TestAFullLeakyBucketMakesNobodyWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLine(leakyBucket(t, "1/s", 2, nil))
		for id := range 5 {
			q.join(t.Context(), id)
		}
		if len(q.errs) != 2 || !errors.Is(q.errs[3], ErrFull) || !errors.Is(q.errs[4], ErrFull) {
			t.Errorf("errors %v, want two that say full", q.errs)
		}
		q.wg.Wait()
		if want := []time.Duration{0, time.Second, 2 * time.Second}; !slices.Equal(q.at, want) {
			t.Errorf("went at %v, want %v", q.at, want)
		}
		time.Sleep(time.Hour)
		q = newLine(leakyBucket(t, "1/s", 1, nil))
		q.l.Allow()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if err := q.l.Wait(ctx); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, ErrFull) {
			t.Errorf("there is room, but not in time: %v", err)
		}
		q = newLine(leakyBucket(t, "1/s", 0, nil))
		if q.l.Wait(t.Context()) != nil || !errors.Is(q.l.Wait(t.Context()), ErrFull) {
			t.Error("with a capacity of 0 somebody waits")
		}
	})
}

func TestWaitOutlivesAStepOfItsClock(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := new(wall)
				q := newLine(leakyBucket(t, "1/s", 10, c))
				q.l.Allow()
				for id := range 3 {
					q.join(t.Context(), id)
				}
				time.Sleep(500 * time.Millisecond)
				c.by(step)
				q.wg.Wait()
				if last := q.at[2]; !slices.Equal(q.order, []int{0, 1, 2}) || last > 4*time.Second {
					t.Errorf("%v went at %v", q.order, q.at)
				}
			})
		})
	}
}

// TestWaitersComeAndGo has waiters arrive and give up at random. While somebody
// waits, every unit that the rate has is used, and never one more.
func TestWaitersComeAndGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(4, 4))
		q := newLine(tokenBucket(t, "3/s", 2, nil))
		for id := range 400 {
			ctx, cancel := context.WithCancel(t.Context())
			q.join(ctx, id)
			if rnd.IntN(3) > 0 {
				time.AfterFunc(time.Duration(rnd.Int64N(int64(20*time.Second))), cancel)
			}
			defer cancel()
			if id%20 == 19 {
				time.Sleep(time.Duration(rnd.Int64N(int64(3 * time.Second))))
			}
		}
		q.wg.Wait()
		if len(q.order)+len(q.errs) != 400 || len(q.errs) < 50 || len(q.order) < 50 {
			t.Fatalf("%d went, %d gave up", len(q.order), len(q.errs))
		}
		if !slices.IsSorted(q.order) {
			t.Errorf("not in the order of arrival: %v", q.order)
		}
		var all []taken
		for i, at := range q.at {
			all = append(all, taken{int64(at), 1})
			if want := time.Duration(i-1) * time.Second / 3; i > 1 && (at < want || at > want+1) {
				t.Fatalf("unit %d went at %v, want %v", i, at, want)
			}
		}
		checkWindows(t, q.l.Rate(), all)
	})
}
