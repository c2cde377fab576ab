package main

import (
	"context"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// TestPeersWithoutAServerKeepTheirJobs fills each embedded peer, opens it again,
// and lets its workers find exactly what was enqueued.
func TestPeersWithoutAServerKeepTheirJobs(t *testing.T) {
	for _, p := range []*peer{spoolPeer, protoPeer, bboltPeer} {
		t.Run(p.name, func(t *testing.T) {
			const singly, batch = 3, 40
			at := place{Dir: t.TempDir()}
			q, err := p.open(at, mode{fresh: true, callers: 1})
			if err != nil {
				t.Fatal(err)
			}
			for range singly {
				if err := q.enqueue(payload); err != nil {
					t.Fatal(err)
				}
			}
			if err := fill(t.Context(), q, batch); err != nil {
				t.Fatal(err)
			}
			job, err := q.(taker).take()
			if err != nil || job == nil {
				t.Fatal(job, err)
			}
			if err := q.(taker).ack(job); err != nil {
				t.Fatal(err)
			}
			if err := q.close(); err != nil {
				t.Fatal(err)
			}
			if got, want := drained(t, p, at, singly+batch-1), singly+batch-1; got != want {
				t.Errorf("%d jobs were started, want %d", got, want)
			}
		})
	}
}

// drained runs the peer's workers until they started n jobs, and then once more
// with none left, and returns how many were started in all.
func drained(t *testing.T, p *peer, at place, n int) int {
	t.Helper()
	q, err := p.open(at, mode{callers: 8})
	if err != nil {
		t.Fatal(err)
	}
	run, err := runtimeOf(q)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var started atomic.Int64
	if err := run(ctx, 8, func() {
		if started.Add(1) == int64(n) {
			cancel()
		}
	}); err != nil {
		t.Fatal(err)
	}
	if job, err := q.(taker).take(); err != nil || job != nil {
		t.Errorf("a job is left: %v, %v", job, err)
	}
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	return int(started.Load())
}

func TestProtoCutsATornTail(t *testing.T) {
	at := place{Dir: t.TempDir()}
	q, err := protoPeer.open(at, mode{fresh: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.(batcher).enqueueMany(5, payload); err != nil {
		t.Fatal(err)
	}
	if err := q.close(); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(at.Dir, "log")
	end := int64(5 * (protoHeader + len(payload)))
	f, err := os.OpenFile(log, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte{'?'}, end-1); err != nil { // the last byte of the last payload
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if got := drained(t, protoPeer, at, 4); got != 4 {
		t.Errorf("%d jobs were started, want 4", got)
	}
}

func TestThePayloadIsTheMail(t *testing.T) {
	if len(payload) != 100 {
		t.Errorf("it has %d bytes", len(payload))
	}
}

func TestShareOf(t *testing.T) {
	if got := shareOf([]report{{Jobs: 30}, {Jobs: 40}, {Jobs: 10}}); got != 0.25 {
		t.Errorf("got %v", got)
	}
	if got := shareOf([]report{{}, {}}); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestTheCeilingsCountRecords(t *testing.T) {
	dir := t.TempDir()
	d, err := newDisk(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer d.zero.Close()
	c, err := d.read(10)
	if err != nil || c.Grow <= 0 || c.Zero <= 0 {
		t.Fatalf("got %v, %v", c, err)
	}
	info, err := os.Stat(filepath.Join(dir, "grow"))
	if err != nil || info.Size() == 0 || info.Size()%(10*recordBytes) != 0 {
		t.Errorf("the growing file: %v, %v", info, err)
	}
	if use, err := diskUse(dir); err != nil || use < zeroBytes {
		t.Errorf("disk use: %d, %v", use, err)
	}
}
