package rare_test

import (
	"testing"

	"github.com/spoolq/spool/internal/rare"
)

func TestEveryPathHasANameOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for p := range rare.Paths {
		if name := p.String(); name == "" || seen[name] {
			t.Errorf("path %d is called %q, as another is", p, name)
		}
		seen[p.String()] = true
	}
	if len(seen) < 100 {
		t.Errorf("there are %d paths", len(seen))
	}
}

func TestReachingIsCountedAndCostsNoMemory(t *testing.T) {
	before := rare.Count(rare.TailCut)
	if n := testing.AllocsPerRun(9, func() { rare.Reached(rare.TailCut) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	if n := rare.Count(rare.TailCut) - before; n != 10 {
		t.Errorf("counted %d, want 10", n)
	}
}
