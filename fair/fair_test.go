package fair

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
)

func drr(t testing.TB, quantum int) *DRR[int, int] {
	t.Helper()
	d, err := NewDRR[int, int](quantum)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// each runs a test with both schedulers.
func each(t *testing.T, test func(t *testing.T, s scheduler)) {
	t.Run("deficit round robin", func(t *testing.T) { test(t, drr(t, 1)) })
	t.Run("virtual time", func(t *testing.T) { test(t, NewVirtual[int, int]()) })
}

func setWeight(t testing.TB, s scheduler, key, weight int) {
	t.Helper()
	if err := s.SetWeight(key, weight); err != nil {
		t.Fatal(err)
	}
}

func next(t testing.TB, s scheduler) int {
	t.Helper()
	v, ok := s.Next()
	if !ok {
		t.Fatal("nothing to serve")
	}
	return v
}

func TestWeightsOfThreeToOneGiveThreeToOne(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		setWeight(t, s, 0, 3)
		for range 1000 {
			s.Add(0, 0)
			s.Add(1, 1)
		}
		served := [2]int{}
		for range 1000 {
			served[next(t, s)]++
		}
		if served[0] < 713 || served[0] > 787 { // 750 ± 5 %
			t.Errorf("served %v, want 750 and 250", served)
		}
	})
}

func TestEightKeysGetTheirWeights(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		weights := [8]int{1, 2, 3, 5, 8, 13, 21, 47} // 100 in all
		for key, w := range weights {
			setWeight(t, s, key, w)
			for range w*1000 + 2000 {
				s.Add(key, key)
			}
		}
		served := [8]int{}
		for range 100_000 {
			served[next(t, s)]++
		}
		for key, w := range weights {
			if want := w * 1000; served[key] < want*99/100 || served[key] > want*101/100 {
				t.Errorf("key %d of weight %d was served %d times, want %d ± 1 %%", key, w, served[key], want)
			}
		}
	})
}

func TestALoneKeyGetsEverything(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		for i := range 5000 {
			s.Add(7, i)
			if i%3 == 0 {
				s.Add(7, i)
			}
		}
		last := -1
		for i := s.Len(); i > 0; i-- {
			v := next(t, s)
			if v < last {
				t.Fatalf("%d after %d", v, last)
			}
			last = v
		}
		if _, ok := s.Next(); ok || s.Len() != 0 {
			t.Error("something is left")
		}
	})
}

func TestAFloodDelaysASingleItemByOneTurnOfEachKey(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		const flooders, single = 4, 99
		for key := range flooders {
			for range 100_000 / flooders {
				s.Add(key, key)
			}
		}
		for before := range 50 {
			s.Add(single, single)
			waited := 0
			for next(t, s) != single {
				waited++
			}
			if waited > flooders {
				t.Fatalf("after %d services, the single item waited for %d others", before, waited)
			}
			for range before {
				next(t, s)
			}
		}
	})
}

func TestAnIdleKeySavesNothingUp(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		for range 10_000 {
			s.Add(0, 0)
		}
		for range 5000 {
			next(t, s)
		}
		for range 100 {
			s.Add(1, 1)
		}
		served := [2]int{}
		for range 100 {
			served[next(t, s)]++
		}
		if served[1] < 49 || served[1] > 51 {
			t.Errorf("the key that came late was served %d times of 100, want half", served[1])
		}
	})
}

func TestToGoIdleAndComeBackGainsNothing(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		setWeight(t, s, 0, 3)
		for range 10_000 {
			s.Add(0, 0)
		}
		s.Add(1, 1)
		served := [2]int{}
		for range 4000 {
			v := next(t, s)
			if served[v]++; v == 1 {
				s.Add(1, 1) // never more than one at a time
			}
		}
		if served[1] < 990 || served[1] > 1010 {
			t.Errorf("the key with one item at a time was served %d times of 4000, want 1000", served[1])
		}
	})
}

func TestAWeightChangesAtRunTime(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		for range 10_000 {
			s.Add(0, 0)
			s.Add(1, 1)
		}
		for _, w := range []int{1, 4, 9, 1} {
			setWeight(t, s, 0, w)
			served := [2]int{}
			for range 1000 {
				served[next(t, s)]++
			}
			if want := 1000 * w / (w + 1); served[0] < want-10 || served[0] > want+10 {
				t.Errorf("with weight %d it was served %d times of 1000, want %d", w, served[0], want)
			}
		}
	})
}

func TestBadWeightsAndCostsAreRefused(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		for _, w := range []int{0, -1, MaxWeight + 1} {
			if s.SetWeight(0, w) == nil {
				t.Errorf("a weight of %d was accepted", w)
			}
		}
		for _, cost := range []int64{0, -1, MaxCost + 1} {
			if s.AddCost(0, 1, cost) == nil || s.Len() != 0 {
				t.Errorf("a cost of %d was accepted", cost)
			}
		}
		if err := s.AddCost(0, 1, MaxCost); err != nil {
			t.Errorf("the largest cost was refused: %v", err)
		}
		if v, ok := s.Next(); v != 1 || !ok {
			t.Errorf("the largest cost was not served: %v, %v", v, ok)
		}
		setWeight(t, s, 0, MaxWeight)
	})
	for _, q := range []int{0, -1, MaxQuantum + 1} {
		if _, err := NewDRR[int, int](q); err == nil {
			t.Errorf("a quantum of %d was accepted", q)
		}
	}
}

// TestBothDoWhatTheirModelsDo has keys with all weights come and go at random.
func TestBothDoWhatTheirModelsDo(t *testing.T) {
	for seed := range uint64(12) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		quantum := 1 + rnd.IntN(20)
		compare(t, fmt.Sprintf("seed %d, quantum", seed), drr(t, quantum), newRoundRobin(quantum), rnd.Uint32)
		compare(t, fmt.Sprintf("seed %d, virtual", seed), NewVirtual[int, int](), newStartTime(), rnd.Uint32)
	}
}

// compare does the same with both, as draw has it.
func compare(t *testing.T, name string, s, model scheduler, draw func() uint32) {
	t.Helper()
	for i := range 2000 {
		r := draw()
		key := int(r >> 8 % 8)
		switch r % 16 {
		case 0, 1, 2, 3, 4:
			s.Add(key, i)
			model.Add(key, i)
		case 5, 6:
			cost := int64(1 + r>>12%50)
			if s.AddCost(key, i, cost) != nil || model.AddCost(key, i, cost) != nil {
				t.Fatalf("%s: a cost of %d was refused", name, cost)
			}
		case 7:
			w := 1 + int(r>>12%16) // all of them divide Unit
			if s.SetWeight(key, w) != nil || model.SetWeight(key, w) != nil {
				t.Fatalf("%s: a weight of %d was refused", name, w)
			}
		default:
			got, ok := s.Next()
			if want, has := model.Next(); got != want || ok != has {
				t.Fatalf("%s, step %d: %d, %v, the model says %d, %v", name, i, got, ok, want, has)
			}
		}
		if s.Len() != model.Len() {
			t.Fatalf("%s, step %d: %d items, the model has %d", name, i, s.Len(), model.Len())
		}
	}
}

func FuzzSchedulers(f *testing.F) {
	f.Add(uint64(1), 1)
	f.Add(uint64(2), 13)
	f.Fuzz(func(t *testing.T, seed uint64, quantum int) {
		if quantum < 1 || quantum > 1000 {
			return
		}
		rnd := rand.New(rand.NewPCG(seed, 6))
		compare(t, "quantum", drr(t, quantum), newRoundRobin(quantum), rnd.Uint32)
		compare(t, "virtual", NewVirtual[int, int](), newStartTime(), rnd.Uint32)
	})
}

// pair follows two keys while both are busy: what the difference of their
// service ÷ weight was at least and at most.
type pair struct{ low, high, now float64 }

// TestServiceStaysWithinItsBound checks the bound that the documentation gives,
// over every stretch of time, with random arrivals, weights and costs.
func TestServiceStaysWithinItsBound(t *testing.T) {
	const keys, largest = 5, 30
	for seed := range uint64(8) {
		for _, quantum := range []int{0, 1, 10, 100} { // 0: virtual time
			rnd := rand.New(rand.NewPCG(seed, 7))
			s := scheduler(NewVirtual[int, int]())
			if quantum > 0 {
				s = drr(t, quantum)
			}
			checkBound(t, rnd, s, keys, largest, float64(quantum))
		}
	}
}

func checkBound(t *testing.T, rnd *rand.Rand, s scheduler, keys int, largest, quantum float64) {
	t.Helper()
	weights, waiting := make([]float64, keys), make([]int, keys)
	var costs []float64
	var owner []int
	for key := range keys {
		w := 1 + rnd.IntN(16)
		weights[key] = float64(w)
		setWeight(t, s, key, w)
	}
	pairs := map[[2]int]*pair{}
	for range 3000 {
		if key := rnd.IntN(keys); rnd.IntN(2) == 0 {
			cost := 1 + rnd.Int64N(int64(largest))
			if err := s.AddCost(key, len(owner), cost); err != nil {
				t.Fatal(err)
			}
			owner, costs = append(owner, key), append(costs, float64(cost))
			waiting[key]++
		} else if v, ok := s.Next(); ok {
			key = owner[v]
			waiting[key]--
			follow(pairs, key, costs[v]/weights[key])
		}
		for i := range keys {
			for j := range i {
				at := [2]int{j, i}
				if waiting[i] == 0 || waiting[j] == 0 {
					delete(pairs, at)
					continue
				}
				if pairs[at] == nil {
					pairs[at] = new(pair)
				}
				p := pairs[at]
				if bound := quantum + largest/weights[i] + largest/weights[j]; p.high-p.low > bound+1e-9 {
					t.Fatalf("quantum %v: keys of weights %v and %v are %v apart, the bound is %v", quantum, weights[j], weights[i], p.high-p.low, bound)
				}
			}
		}
	}
}

// follow adds a key's service to the pairs that it is in.
func follow(pairs map[[2]int]*pair, key int, service float64) {
	for at, p := range pairs {
		switch key {
		case at[0]:
			p.now += service
		case at[1]:
			p.now -= service
		}
		p.low, p.high = min(p.low, p.now), max(p.high, p.now)
	}
}

func TestAKeyThatComesAndGoesAllocatesNothing(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		if n := testing.AllocsPerRun(1000, func() { s.Add(1, 1); s.Next() }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

func TestGoroutinesShareAScheduler(t *testing.T) {
	each(t, func(t *testing.T, s scheduler) {
		const workers, items = 4, 2000
		var wg sync.WaitGroup
		seen := make([]atomic.Int32, workers*items)
		for w := range workers {
			wg.Go(func() {
				for i := range items {
					s.Add(i%5, w*items+i)
					if v, ok := s.Next(); ok {
						seen[v].Add(1)
					}
					if err := s.SetWeight(i%5, 1+i%7); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		for v, ok := s.Next(); ok; v, ok = s.Next() {
			seen[v].Add(1)
		}
		for v := range seen {
			if n := seen[v].Load(); n != 1 {
				t.Fatalf("item %d was served %d times", v, n)
			}
		}
	})
}
