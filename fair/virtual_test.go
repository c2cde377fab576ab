package fair

import (
	"math"
	"slices"
	"testing"
)

func TestTurnsAreAsFineAsTheyCanBe(t *testing.T) {
	v := NewVirtual[string, string]()
	if err := v.SetWeight("premium", 3); err != nil {
		t.Fatal(err)
	}
	for range 6 {
		v.Add("premium", "p")
		v.Add("free", "f")
	}
	var got []string
	for range 8 {
		s, _ := v.Next()
		got = append(got, s)
	}
	if want := []string{"p", "f", "p", "p", "f", "p", "p", "p"}; !slices.Equal(got, want) {
		t.Errorf("served %v, want %v", got, want)
	}
}

func TestIdleKeysAreForgotten(t *testing.T) {
	v := NewVirtual[int, int]()
	for key := range 10_000 {
		v.Add(key, key)
	}
	for range 10_000 {
		next(t, v)
	}
	if len(v.keys) != 0 || len(v.idle) != 0 || len(v.spare) > maxSpare {
		t.Errorf("%d keys, %d idle, %d spare are left when nothing waits", len(v.keys), len(v.idle), len(v.spare))
	}
	for range 1000 {
		v.Add(-1, 0)
	}
	for key := range 1000 { // come and go beside a busy one
		v.Add(key, key)
		next(t, v)
		next(t, v)
	}
	if len(v.keys) > 4 {
		t.Errorf("%d keys are kept beside a busy one", len(v.keys))
	}
}

func TestTheDefaultWeightIsNotKept(t *testing.T) {
	v, d := NewVirtual[int, int](), drr(t, 1)
	for _, w := range []int{5, 1} {
		setWeight(t, v, 0, w)
		setWeight(t, d, 0, w)
	}
	if len(v.weights) != 0 || len(d.weights) != 0 {
		t.Errorf("kept %v and %v", v.weights, d.weights)
	}
}

func TestVirtualTimeStartsAgainBeforeItEnds(t *testing.T) {
	v, m := NewVirtual[int, int](), newStartTime()
	v.clock.Now = math.MaxUint64/2 - 20*Unit
	v.latest = v.clock.Now
	n := 0
	add := func(key int, cost int64) {
		if v.AddCost(key, n, cost) != nil || m.AddCost(key, n, cost) != nil {
			t.Fatalf("a cost of %d was refused", cost)
		}
		n++
	}
	for range 60 {
		add(0, 1)
		add(1, 7)
	}
	for i := range 100 {
		if i%7 == 0 {
			add(2, 5)
		}
		got, _ := v.Next()
		if want, _ := m.Next(); got != want {
			t.Fatalf("service %d: %d, the model says %d", i, got, want)
		}
	}
	if v.clock.Now > 200*Unit {
		t.Errorf("the clock stands at %d: it did not start again", v.clock.Now)
	}
	for v.Len() > 0 {
		next(t, v)
	}
	if v.clock.Now > 1000*Unit {
		t.Errorf("with the last item the clock went to %d", v.clock.Now)
	}
}

func TestClock(t *testing.T) {
	c := Clock{Now: 10 * Unit}
	for _, row := range []struct {
		name string
		got  Time
		want Time
	}{
		{"a key never seen rejoins now", c.Rejoin(0), 10 * Unit},
		{"a key behind rejoins now", c.Rejoin(10*Unit - 1), 10 * Unit},
		{"a key ahead keeps its time", c.Rejoin(11 * Unit), 11 * Unit},
		{"cost 1 at weight 1 is a unit", c.Charge(10*Unit, 1, 1), 11 * Unit},
		{"cost 6 at weight 4 is one and a half", c.Charge(10*Unit, 6, 4), 11*Unit + Unit/2},
		{"weight 17 is rounded down", c.Charge(10*Unit, 1, 17), 10*Unit + 42395},
		{"weight 19 is rounded up", c.Charge(10*Unit, 1, 19), 10*Unit + 37933},
		{"a weight of 0 counts as 1", c.Charge(10*Unit, 1, 0), 11 * Unit},
		{"a cost of 0 counts as 1", c.Charge(10*Unit, 0, 1), 11 * Unit},
		{"the largest weight", c.Charge(10*Unit, 1, MaxWeight), 10*Unit + 72},
		{"an absurd weight still costs", c.Charge(10*Unit, 1, math.MaxInt32), 10*Unit + 1},
		{"the largest cost", c.Charge(10*Unit, MaxCost, 1), 10*Unit + MaxCost*Unit},
	} {
		if row.got != row.want {
			t.Errorf("%s: %d, want %d", row.name, row.got, row.want)
		}
	}
	if c.Now != 10*Unit {
		t.Errorf("services at now moved the clock to %d", c.Now)
	}
	if c.Charge(5*Unit, 1, 1); c.Now != 10*Unit {
		t.Error("a service of a key that was behind moved the clock back")
	}
	if c.Charge(12*Unit, 1, 1); c.Now != 12*Unit {
		t.Error("the clock did not move on to the start of a service")
	}
	if !c.Passed(12*Unit) || c.Passed(12*Unit+1) {
		t.Error("a time has passed when it is not after now")
	}
}

func TestAClockAtTheEndOfTime(t *testing.T) {
	var c Clock
	if got := c.Charge(math.MaxUint64-5, 1, 1); got != math.MaxUint64 {
		t.Errorf("a service past the end is at %d", got)
	}
	if got := c.Charge(math.MaxUint64-Unit, 1, 1); got != math.MaxUint64 {
		t.Errorf("a service up to the end is at %d", got)
	}
	if got := c.Charge(0, math.MaxInt64, 1); got != MaxCost*Unit {
		t.Errorf("a cost above the largest is at %d", got)
	}
	if shift := c.Rebase(); shift != math.MaxUint64-5 || c.Now != 0 {
		t.Errorf("it takes off %d and stands at %d", shift, c.Now)
	}
	if shift := c.Rebase(); shift != 0 {
		t.Errorf("it starts again twice, by %d", shift)
	}
	c.Now = math.MaxUint64 / 2
	if shift := c.Rebase(); shift != 0 {
		t.Error("it starts again before it is past half of its range")
	}
}
