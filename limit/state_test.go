package limit

import (
	"math/big"
	"math/rand/v2"
	"testing"
	"time"
)

const hour = int64(time.Hour)

// rates that divide a second, and some that do not.
var rates = []Rate{
	{Count: 10, Per: time.Second},
	{Count: 3, Per: time.Second},
	{Count: 3, Per: time.Second, Burst: 1},
	{Count: 7, Per: 10, Burst: 2}, // faster than the clock
	{Count: 999_983, Per: 24 * time.Hour, Burst: 5},
	{Count: 1, Per: 2 * time.Second},
	{Count: 1000, Per: time.Hour},
	{Count: 999_999_937, Per: time.Second, Burst: 3},
}

// gap draws a time between calls that is of interest to the rate.
func gap(rnd *rand.Rand, r Rate) int64 {
	one := int64(r.Per) / int64(r.Count)
	switch rnd.IntN(6) {
	case 0:
		return 0
	case 1:
		return rnd.Int64N(3)
	case 2:
		return rnd.Int64N(one*int64(r.burst())*2 + 2)
	}
	return rnd.Int64N(one*2 + 2)
}

// model is a bucket of exact fractions, the textbook's: it fills at the rate up
// to its burst.
type model struct {
	rate  Rate
	level *big.Rat
	last  int64
}

func newModel(r Rate) *model {
	return &model{r, big.NewRat(int64(r.burst()), 1), 0}
}

// allow says how long until n units may go, to the nanosecond: 0 when now.
func (m *model) allow(now int64, n int) (wait int64) {
	earned := new(big.Rat).Mul(big.NewRat(now-m.last, int64(m.rate.Per)), big.NewRat(int64(m.rate.Count), 1))
	m.level.Add(m.level, earned)
	if full := big.NewRat(int64(m.rate.burst()), 1); m.level.Cmp(full) > 0 {
		m.level.Set(full)
	}
	m.last = now
	lacks := new(big.Rat).Sub(big.NewRat(int64(n), 1), m.level)
	if lacks.Sign() <= 0 {
		m.level.Neg(lacks)
		return 0
	}
	lacks.Mul(lacks, big.NewRat(int64(m.rate.Per), int64(m.rate.Count)))
	ns, part := new(big.Int).QuoRem(lacks.Num(), lacks.Denom(), new(big.Int))
	if part.Sign() > 0 {
		ns.Add(ns, big.NewInt(1))
	}
	return ns.Int64()
}

func TestAllowIsTheTextbooksBucket(t *testing.T) {
	for _, r := range rates {
		t.Run(r.String(), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(1, uint64(r.Count)))
			m, st, now := newModel(r), State{}, int64(0)
			yes := 0
			for i := range 3000 {
				now += gap(rnd, r)
				n := rnd.IntN(min(r.burst(), 4) + 1)
				if i%4 == 0 {
					n = rnd.IntN(min(r.burst(), 1000) + 1)
				}
				next, wait, ok := r.Allow(st, now, n)
				if want := m.allow(now, n); ok != (want == 0) || int64(wait) != want {
					t.Fatalf("call %d, %d units at %d: %v, to wait %d, the model says %d", i, n, now, ok, wait, want)
				}
				if ok {
					yes++
				}
				checkWait(t, r, st, now, n, wait, ok)
				st = next
			}
			if yes == 0 || yes == 3000 {
				t.Errorf("%d of 3000 calls were allowed: this tests nothing", yes)
			}
		})
	}
}

// checkWait shows that a refusal's wait is the shortest that helps.
func checkWait(t *testing.T, r Rate, st State, now int64, n int, wait time.Duration, ok bool) {
	t.Helper()
	if ok {
		if wait != 0 {
			t.Fatalf("%v: allowed, and to wait %v", r, wait)
		}
		return
	}
	if _, _, ok := r.Allow(st, now+int64(wait), n); !ok {
		t.Fatalf("%v: refused after the wait of %v", r, wait)
	}
	if _, _, ok := r.Allow(st, now+int64(wait)-1, n); ok {
		t.Fatalf("%v: the wait of %v is not the shortest", r, wait)
	}
}

// taken is n units at an instant.
type taken struct {
	at int64
	n  int
}

// checkWindows shows that no window lets pass more than burst + rate × window.
func checkWindows(t *testing.T, r Rate, all []taken) {
	t.Helper()
	count, per := big.NewInt(int64(r.Count)), big.NewInt(int64(r.Per))
	for i := range all {
		units := int64(0)
		for _, e := range all[i:] {
			units += int64(e.n)
			// (units - burst) / count × per must be at most the window.
			left := new(big.Int).Mul(big.NewInt(units-int64(r.burst())), per)
			right := new(big.Int).Mul(big.NewInt(e.at-all[i].at), count)
			if left.Cmp(right) > 0 {
				t.Fatalf("%v: %d units in %v", r, units, time.Duration(e.at-all[i].at))
			}
		}
	}
}

func TestNoWindowExceedsTheRate(t *testing.T) {
	for _, r := range rates {
		t.Run(r.String(), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(2, uint64(r.Count)))
			var all []taken
			st, now := State{}, int64(1_700_000_000_000_000_000)
			for len(all) < 300 {
				now += gap(rnd, r)
				n := 1 + rnd.IntN(min(r.burst(), 3))
				next, _, ok := r.Allow(st, now, n)
				if ok {
					all = append(all, taken{now, n})
				}
				st = next
			}
			checkWindows(t, r, all)
		})
	}
}

func TestUseIsAllThatTheRateAllows(t *testing.T) {
	for _, r := range rates {
		t.Run(r.String(), func(t *testing.T) {
			st, now, units := r.Empty(0), int64(0), int64(0)
			for range 50_000 {
				next, wait, ok := r.Allow(st, now, 1)
				if st = next; ok {
					units++
				}
				now += int64(wait)
			}
			// What could have gone: now × count ÷ per.
			can := new(big.Rat).Mul(big.NewRat(now, int64(r.Per)), big.NewRat(int64(r.Count), 1))
			most, _ := can.Float64()
			lost := most - float64(units)
			allow := 1.0 // the unit that is being earned
			if r.burst() == 1 {
				// A unit goes at a whole nanosecond, and nothing is saved up.
				allow += most * float64(r.Count) / float64(r.Per)
			}
			if lost < -1e-6 || lost > allow {
				t.Errorf("%d units went in %v, %.3f could have", units, time.Duration(now), most)
			}
		})
	}
}

func TestAClockThatStepsBackLocksNobodyOutAndGivesNothing(t *testing.T) {
	r := Rate{Count: 10, Per: time.Second}
	now := 5 * hour
	take := func(st State, now int64) (State, int) {
		for n := 0; ; n++ {
			next, _, ok := r.Allow(st, now, 1)
			if st = next; !ok {
				return st, n
			}
		}
	}
	st, n := take(State{}, now)
	if n != 10 {
		t.Fatalf("%d units went from a full bucket, want 10", n)
	}
	st, n = take(st, now-hour)
	if n != 0 {
		t.Errorf("%d units went when the clock stepped back", n)
	}
	if _, wait, _ := r.Allow(st, now-hour, 1); wait != 100*time.Millisecond {
		t.Errorf("to wait %v after the step back, want 100ms", wait)
	}
	st, n = take(st, now-hour+int64(time.Second)/2)
	if n != 5 {
		t.Errorf("%d units went in half a second after the step back, want 5", n)
	}
	if _, n = take(st, now); n != 0 {
		t.Errorf("%d units went when the clock came back to where it was", n)
	}
	st, n = take(st, now+int64(time.Second)/5)
	if n != 2 {
		t.Errorf("%d units went when the clock came back to 0.2 s beyond where it was, want 2", n)
	}
	if _, n = take(st, now+2*hour); n != 10 {
		t.Errorf("%d units went after an hour that nobody saw before, want a full bucket", n)
	}
}

func TestAStepBackKeepsWhatIsInTheBucket(t *testing.T) {
	r := Rate{Count: 1000, Per: time.Hour}
	st, _, _ := r.Allow(State{}, 5*hour, 400)
	if _, _, ok := r.Allow(st, 3*hour, 600); !ok {
		t.Error("600 of 1000 units were left and are gone")
	}
	if _, _, ok := r.Allow(st, 3*hour, 601); ok {
		t.Error("the step back gave a unit")
	}
}

// TestStepsNeverGiveMoreThanTheirTime runs on a clock that steps at random, and
// measures on one that goes on from its last value when that steps back.
func TestStepsNeverGiveMoreThanTheirTime(t *testing.T) {
	for _, r := range rates {
		t.Run(r.String(), func(t *testing.T) {
			rnd := rand.New(rand.NewPCG(3, uint64(r.Count)))
			var all []taken
			st, raw, goesOn := State{}, int64(1_700_000_000_000_000_000), int64(0)
			for len(all) < 300 {
				d := gap(rnd, r)
				if rnd.IntN(50) == 0 {
					d = rnd.Int64N(3*hour) - hour
					if rnd.IntN(2) == 0 {
						d = -rnd.Int64N(int64(r.Per) * 2)
					}
				}
				raw += d
				goesOn += max(0, d)
				next, wait, ok := r.Allow(st, raw, 1)
				if ok {
					all = append(all, taken{goesOn, 1})
				}
				if one := int64(r.Per)/int64(r.Count) + 1; int64(wait) > one {
					t.Fatalf("to wait %v for one unit: locked out", wait)
				}
				if next.Last == next.High || raw+int64(wait) < next.High {
					checkWait(t, r, next, raw, 1, wait, ok)
				}
				st = next
			}
			checkWindows(t, r, all)
		})
	}
}

func TestAChangedRateHoldsAtOnce(t *testing.T) {
	slow, fast := Rate{Count: 1, Per: time.Hour, Burst: 100}, Rate{Count: 10, Per: time.Second}
	empty, _, _ := slow.Allow(State{}, hour, 100)
	if _, wait, ok := fast.Allow(empty, hour, 1); ok || wait != 100*time.Millisecond {
		t.Errorf("from an empty slow bucket: %v, %v, want to wait 100ms", wait, ok)
	}
	if _, _, ok := fast.Allow(empty, hour+int64(time.Second), 10); !ok {
		t.Error("a second later the fast bucket is not full")
	}
	empty, _, _ = fast.Allow(State{}, hour, 10)
	if _, _, ok := slow.Allow(empty, hour, 99); !ok {
		t.Error("a debt of one second holds back a bucket of 100 hours")
	}
	for _, c := range []struct {
		name string
		part uint32
		wait time.Duration
	}{
		{"a part of the slower rate counts as it is", 9, 101},
		{"a part that is a whole one there is rounded up", 10, 101},
		{"a part of a billionth is rounded up", 999_999_936, 101},
		{"no part is none", 0, 100},
	} {
		st := State{Debt: 100, Part: c.part, Last: hour, High: hour}
		if _, wait, ok := fast.Allow(st, hour, 10); ok || wait != c.wait {
			t.Errorf("%s: %v, %v, want to wait %v", c.name, wait, ok, c.wait)
		}
	}
	part := State{Debt: 0, Part: 10, Last: hour, High: hour}
	if next, _, _ := fast.Allow(part, hour, 0); next.Debt != 1 || next.Part != 0 {
		t.Errorf("rounded up it is %+v", next)
	}
}

func TestAllowAtTheEdges(t *testing.T) {
	r := Rate{Count: 10, Per: time.Second, Burst: 5}
	used, _, _ := r.Allow(State{}, hour, 2)
	if _, _, ok := r.Allow(State{}, 0, 5); !ok {
		t.Error("the zero state at instant 0 is not a full bucket")
	}
	if next, wait, ok := r.Allow(used, hour, 6); ok || wait != Never || next != used {
		t.Errorf("more than the burst: %v, %v", wait, ok)
	}
	if next, wait, ok := r.Allow(used, hour, 4); ok || wait != 100*time.Millisecond || next != used {
		t.Errorf("more than there is: %v, %v, %+v", wait, ok, next)
	}
	if next, _, ok := r.Allow(used, hour, 0); !ok || next != used {
		t.Errorf("nothing: %v, %+v", ok, next)
	}
	if _, _, ok := r.Allow(r.Empty(hour), hour, 0); !ok {
		t.Error("an empty bucket refuses nothing at all")
	}
	if _, wait, ok := r.Allow(r.Empty(hour), hour, 5); ok || wait != 500*time.Millisecond {
		t.Errorf("the burst from an empty bucket: %v, %v", wait, ok)
	}
	far := State{Debt: 1, Last: 1 << 62, High: 1 << 62}
	if next, _, ok := r.Allow(far, -1<<62, 5); ok || next.High != 1<<62 {
		t.Errorf("a step back of ages: %v, %+v", ok, next)
	}
	defer func() {
		if text, _ := recover().(string); text != "limit: negative number of units" {
			t.Errorf("a negative number of units: %q", text)
		}
	}()
	r.Allow(State{}, 0, -1)
}
