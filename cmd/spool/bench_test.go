package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool/cmd/spool/internal/bench"
)

// TestBench measures every row, briefly: the figures are of no worth, but each
// row is there, with all that it must have.
func TestBench(t *testing.T) {
	t.Setenv(asSpool, "1") // for the processes that it starts
	s := newTool(t)
	if err := os.Mkdir(s.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	names, backlog := bench.Names()
	args := []string{"bench", "--json", "--scale=0.05", "--backlog"}
	if testing.Short() {
		args, backlog = []string{"bench", "--json", "--scale=0.02"}, nil
	}
	rows := object[[]bench.Row](t, s.ok(args...))
	idle := len(names) - 1 // it is reported last
	names = append(append(names[:idle:idle], backlog...), names[idle])
	if len(rows) != len(names) {
		t.Fatalf("%d rows, want %d", len(rows), len(names))
	}
	for i, r := range rows {
		if r.Name != names[i] || r.Durability == "" || r.What == "" || r.Raw == "" {
			t.Errorf("row %d: %+v", i, r)
		}
		switch {
		case r.Name == "idle":
			if r.CPUms == nil || *r.CPUms < 0 || *r.CPUms > 500 {
				t.Errorf("idle: %+v", r)
			}
		case r.PerSecond <= 0 || r.RawPerSecond <= 0 || r.Ratio <= 0 || r.N <= 0 || r.P50us <= 0 || r.P99us < r.P50us:
			t.Errorf("%s: %+v", r.Name, r)
		case r.Name == "enqueue_1" && (r.SyncsPerJob < 0.9 || r.SyncsPerJob > 1.1):
			t.Errorf("one job at a time has %v syncs a job, want one", r.SyncsPerJob)
		}
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
	s.fails(exitUsage, "enqueue_64", "bench", "enqueue_63")
	s.fails(exitUsage, "needs --backlog", "bench", "claim_unhandled_1m")
	s.ok("enqueue", "task")
	s.fails(exitUsage, "is a store", "bench")
	s.fails(exitUsage, "is a store", "torture")
}
