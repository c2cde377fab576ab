package fair

import (
	"slices"
	"testing"
)

func TestACostlyItemIsServedWithinItsRounds(t *testing.T) {
	for _, c := range []struct {
		name            string
		quantum, weight int
		cost            int64
		rounds          int // ceil(cost / (quantum × weight))
	}{
		{"it costs one quantum", 10, 1, 10, 1},
		{"it costs a little more", 10, 1, 11, 2},
		{"it costs many", 10, 1, 95, 10},
		{"its weight helps", 10, 3, 95, 4},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := drr(t, c.quantum)
			if err := d.SetWeight(1, c.weight); err != nil {
				t.Fatal(err)
			}
			const costly = -1
			for range 1000 {
				d.Add(0, 0) // it is served quantum times in each round
			}
			if err := d.AddCost(1, costly, c.cost); err != nil {
				t.Fatal(err)
			}
			others := 0
			for next(t, d) != costly {
				others++
			}
			if want := c.rounds * c.quantum; others != want {
				t.Errorf("it was served after %d others, want %d: round %d", others, want, c.rounds)
			}
		})
	}
}

func TestCreditIsDroppedWithTheLastItem(t *testing.T) {
	d := drr(t, 100)
	d.Add(0, 0) // leaves a credit of 99
	next(t, d)
	for i := range 3 {
		if err := d.AddCost(0, i, 100); err != nil {
			t.Fatal(err)
		}
		if err := d.AddCost(1, 10+i, 100); err != nil {
			t.Fatal(err)
		}
	}
	var got []int
	for range 6 {
		got = append(got, next(t, d))
	}
	if want := []int{0, 10, 1, 11, 2, 12}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
}

// A test that walked these rounds one by one would not come to an end.
func TestRoundsWithoutServiceArePassedAtOnce(t *testing.T) {
	d := drr(t, 1)
	for _, add := range []struct {
		key, value int
		cost       int64
	}{{0, 0, MaxCost}, {1, 1, MaxCost - 1}, {2, 2, MaxCost / 2}} {
		if err := d.AddCost(add.key, add.value, add.cost); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int{2, 1, 0} {
		if got := next(t, d); got != want {
			t.Errorf("served %d, want %d", got, want)
		}
	}
}

func TestItemsAndLargeRingsAreLetGo(t *testing.T) {
	var q fifo[*int]
	for range 5 * keepRing {
		q.push(item[*int]{value: new(int), cost: 1})
	}
	q.pop()
	held := 0
	for _, it := range q.ring {
		if it.value != nil {
			held++
		}
	}
	if held != q.n {
		t.Errorf("%d items are held when %d wait", held, q.n)
	}
	for q.n > 0 {
		q.pop()
	}
	if len(q.ring) > keepRing {
		t.Errorf("an empty line holds a ring of %d", len(q.ring))
	}
}
