package jobstate

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestFifoKeepsTheOrder compares a fifo with a slice over a random life, in
// which jobs leave from the front, from the middle and in runs.
func TestFifoKeepsTheOrder(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	s := New(nil, nil)
	var f fifo
	var want []*job
	take := func(i int) {
		f.remove(want[i])
		s.jobs.give(want[i])
		want = slices.Delete(want, i, i+1)
	}
	place, seq := int64(0), uint64(0)
	for step := range 20_000 {
		switch k := rnd.IntN(100); {
		case k < 55 || len(want) == 0:
			for range 1 + rnd.IntN(5) {
				seq++
				place += int64(rnd.IntN(2))
				j := s.jobs.take()
				j.place = place
				j.setSeq(seq)
				if !f.add(j) {
					t.Fatalf("step %d: a job that comes last was refused", step)
				}
				want = append(want, j)
			}
		case k < 80:
			take(0)
		case k < 95:
			take(rnd.IntN(len(want)))
		default:
			from := rnd.IntN(len(want))
			for range min(len(want)-from, 2000) {
				take(from)
			}
		}
		if got := f.first(s); len(want) == 0 && got != nil || len(want) > 0 && got != want[0] {
			t.Fatalf("step %d: the first of %d is the wrong one", step, len(want))
		}
	}
	early := s.jobs.take()
	early.place = -1
	if len(want) == 0 || f.add(early) {
		t.Fatalf("a job that belongs first was added last, behind %d", len(want))
	}
	f.remove(early) // it is not there: nothing happens
	for _, j := range want {
		if f.first(s) != j {
			t.Fatal("the order is lost")
		}
		f.remove(j)
	}
	if !f.empty() || f.first(s) != nil {
		t.Fatal("it is not empty at the end")
	}
}

// TestListsRunOutOfOrders lets the counter of a list pass its end.
func TestListsRunOutOfOrders(t *testing.T) {
	s := New(nil, nil)
	var l list
	var jobs []*job
	for i := range 10 {
		if i == 5 {
			l.order = 1<<32 - 2
		}
		j := s.jobs.take()
		l.push(s, j)
		jobs = append(jobs, j)
	}
	last := uint32(0)
	for i, j := range jobs {
		if j.order <= last {
			t.Fatalf("job %d has order %d, the one before %d", i, j.order, last)
		}
		last = j.order
	}
}
