//go:build linux

package proctest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool"
)

func TestEightProcessesOpenTheSameEmptyDirectoryAtOnce(t *testing.T) {
	const processes, rounds = 8, 20
	var all []*process
	for i := range processes {
		p := start(t, plan{Role: asClient, Name: fmt.Sprintf("client %d", i)})
		p.await("up", 1)
		all = append(all, p)
	}
	answers := 0
	each := func(dir string, o order) (answered []event) {
		t.Helper()
		o.Store = dir
		for _, p := range all {
			p.order(o)
		}
		for _, p := range all {
			a := p.await("answer", answers+1)[answers]
			if a.Text != "" {
				t.Fatalf("%s: %s %s: %s", p.name, o.Do, filepath.Base(dir), a.Text)
			}
			answered = append(answered, a)
		}
		answers++
		return answered
	}
	top := t.TempDir()
	for round := range rounds {
		dir := filepath.Join(top, fmt.Sprintf("round-%d", round+1))
		if round%2 == 0 { // the directory is there and empty, or it is not there
			must(t, os.Mkdir(dir, 0o700))
		}
		each(dir, order{Do: "open"})
		seen := map[spool.ID]bool{}
		for _, a := range each(dir, order{Do: "enqueue"}) {
			seen[a.id()] = true
		}
		for i, a := range each(dir, order{Do: "count"}) {
			if a.Number != processes || len(seen) != processes {
				t.Errorf("round %d: %s sees %d jobs of %d", round+1, all[i].name, a.Number, processes)
			}
		}
		each(dir, order{Do: "close"})
		torn, err := filepath.Glob(filepath.Join(dir, "torn-*"))
		must(t, err)
		if len(torn) > 0 {
			t.Errorf("round %d: %v", round+1, torn)
		}
		with(t, dir, func(c *spool.Client) {
			for id := range seen {
				if _, err := c.Get(t.Context(), id); err != nil {
					t.Errorf("round %d: %v", round+1, err)
				}
			}
		})
	}
	for _, p := range all {
		if text := p.log(); text != "" {
			t.Errorf("%s logged: %s", p.name, text)
		}
	}
}
