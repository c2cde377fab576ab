package spool_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool"
)

func TestOpenSharesADirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "jobs")
	a, err := spool.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	b, err := spool.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p, err := half.Enqueue(t.Context(), a, 3)
	if err != nil {
		t.Fatal(err)
	}
	w := spool.NewWorker(b, spool.WorkerConfig{})
	half.Handle(w, halve)
	ctx, cancel := context.WithCancel(t.Context())
	end := make(chan error)
	go func() { end <- w.Run(ctx) }()
	out, err := p.Await(t.Context())
	if err != nil || out != 1.5 {
		t.Fatal(out, err)
	}
	cancel()
	if err := <-end; err != nil {
		t.Fatal(err)
	}
}

func TestOpenRefuses(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, dir, part string }{
		{"an address", "redis://localhost/0", "redis://"},
		{"a file's address", "file:///tmp/jobs", "file://"},
		{"a file", file, file},
		{"no name", "", "is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := spool.Open(c.dir)
			if err == nil {
				t.Fatal("it was opened")
			}
			wantText(t, err.Error(), c.part)
		})
	}
	if _, err := os.Stat("redis:"); err == nil {
		t.Fatal("an address became a directory")
	}
}
