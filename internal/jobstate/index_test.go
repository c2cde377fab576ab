package jobstate

import (
	"math/rand/v2"
	"testing"

	"github.com/spoolq/spool/broker"
)

// TestIndexFindsWhatIsThere compares an index with a map over a random life.
func TestIndexFindsWhatIsThere(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s, want, ids := New(nil, nil), map[broker.ID]*job{}, []broker.ID{}
	var x index
	grows := 100 // of 100 steps; the index grows and shrinks in turns
	for step := range 400_000 {
		if step%40_000 == 0 {
			grows = []int{90, 20, 50}[step/40_000%3]
		}
		if rnd.IntN(100) < grows || len(ids) == 0 {
			j := s.jobs.take()
			j.id = broker.NewID()
			x.add(&s.jobs, j)
			want[j.id] = j
			ids = append(ids, j.id)
			continue
		}
		i := rnd.IntN(len(ids))
		id := ids[i]
		ids[i] = ids[len(ids)-1]
		ids = ids[:len(ids)-1]
		j := x.get(&s.jobs, id)
		if j == nil || j != want[id] {
			t.Fatalf("step %d: %s is not found", step, id)
		}
		x.remove(&s.jobs, j)
		s.jobs.give(j)
		delete(want, id)
		if x.get(&s.jobs, id) != nil {
			t.Fatalf("step %d: %s is still found", step, id)
		}
	}
	n := 0
	for j := range x.all(&s.jobs) {
		if want[j.id] != j {
			t.Fatalf("%s is listed and should not be", j.id)
		}
		n++
	}
	if n != len(want) || x.len() != n {
		t.Fatalf("%d are listed, %d counted, %d there", n, x.len(), len(want))
	}
	for id, j := range want {
		if x.get(&s.jobs, id) != j {
			t.Fatalf("%s is not found at the end", id)
		}
	}
}
