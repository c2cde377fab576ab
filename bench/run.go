package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// bench measures peers in turns.
type bench struct {
	dir     string // of its own
	at      place
	missing map[string]error // servers that cannot be had
	peers   []*peer
	ops     []operation
	noDisk  bool // the ceilings of the disk are not read: the bare server is one
	scale   scale
	lines   *json.Encoder // about, then each sample
	log     io.Writer     // for who waits
}

// run measures until ctx ends: in each run all operations, in each operation
// all peers, so that what disturbs the machine disturbs all alike.
func (b *bench) run(ctx context.Context) (all []sample, err error) {
	d, err := newDisk(b.dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.zero.Close()) }()
	for n := range b.scale.runs {
		for _, op := range b.ops {
			if op.once && n > 0 {
				continue
			}
			begun, slowest, longest := time.Now(), "", time.Duration(0)
			for i := range b.peers {
				p := b.peers[(i+n)%len(b.peers)] // nobody always comes after the same one
				if ctx.Err() != nil {
					return all, nil
				}
				own := time.Now()
				list, err := b.measure(ctx, d, &op, p)
				if err != nil {
					return all, err
				}
				for i := range list {
					list[i].Run = n
					if err := b.lines.Encode(list[i]); err != nil {
						return all, err
					}
				}
				all = append(all, list...)
				if took := time.Since(own); took > longest {
					slowest, longest = p.name, took
				}
			}
			fmt.Fprintf(b.log, "run %d of %d: %s, %.1f s (%s %.1f s)\n", n+1, b.scale.runs, op.name, time.Since(begun).Seconds(), slowest, longest.Seconds())
		}
	}
	return all, nil
}

// measure is one trial with the ceilings before it. A peer's fault is in the
// samples; the error is that of the disk.
func (b *bench) measure(ctx context.Context, d *disk, op *operation, p *peer) ([]sample, error) {
	if err := b.missing[p.server]; err != nil {
		return same(op, p, sample{Fault: "missing: " + err.Error()}), nil
	}
	var c ceiling
	if batch := op.rows[0].batch; batch > 0 && !b.noDisk {
		var err error
		if c, err = d.read(batch); err != nil {
			return nil, err
		}
	}
	t := &trial{ctx: ctx, peer: p, at: b.at, scale: b.scale}
	t.at.Dir = filepath.Join(b.dir, p.name)
	list, err := op.run(t)
	switch err := errors.Join(err, t.clean()); {
	case ctx.Err() != nil:
		return nil, nil
	case errors.Is(err, errNone):
		return same(op, p, sample{None: err.Error()[len(errNone.Error())+2:]}), nil
	case err != nil:
		return same(op, p, sample{Fault: err.Error()}), nil
	}
	for i := range list {
		list[i].Peer, list[i].ceiling = p.name, c
	}
	return list, nil
}

// same gives each row of an operation the same sample.
func same(op *operation, p *peer, s sample) (list []sample) {
	for _, r := range op.rows {
		s.Row, s.Peer = r.name, p.name
		list = append(list, s)
	}
	return list
}

// work makes a directory, starts the servers, measures, and takes all away
// again, whatever happens.
func (b *bench) work(ctx context.Context, parent string) (all []sample, about about, err error) {
	if b.dir, err = os.MkdirTemp(parent, "bench-"); err != nil {
		return nil, about, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(b.dir)) }()
	if err := os.Chmod(b.dir, 0o755); err != nil { // PostgreSQL runs as somebody else
		return nil, about, err
	}
	need := map[string]bool{}
	for _, p := range b.peers {
		need[p.server] = true
	}
	b.at.servers, b.missing = startServers(b.dir, need)
	defer func() {
		for _, s := range b.at.servers {
			err = errors.Join(err, s.stop())
		}
	}()
	b.at.Addr, b.at.Conns = map[string]string{}, manyConns
	for name, s := range b.at.servers {
		b.at.Addr[name] = s.addr
	}
	about = describe(b)
	if err := b.lines.Encode(about); err != nil {
		return nil, about, err
	}
	all, err = b.run(ctx)
	return all, about, err
}
