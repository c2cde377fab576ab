package filebroker

import (
	"maps"
	"slices"

	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
)

// places says where bytes lie now that compactions moved, by the file where the
// state has them. So a compaction changes no state, however many jobs there are.
// It is never changed once it is in use.
type places map[uint32][]*journal.Moved

// at is where the bytes of l lie. What was moved goes to a payload file of a
// higher number each time, so this ends.
func (p places) at(l jobstate.Loc) jobstate.Loc {
	for _, m := range p[l.File] {
		if off, ok := m.Find(l.Off, l.Len); ok {
			l.File, l.Off = uint32(m.To), off
			return p.at(l)
		}
	}
	return l
}

// with adds parts.
func (p places) with(parts []*journal.Moved) places {
	next := maps.Clone(p)
	for _, m := range parts {
		next[uint32(m.From)] = append(slices.Clip(next[uint32(m.From)]), m)
	}
	return next
}

// neededBy leaves out what nothing leads to from the files of uses.
func (p places) neededBy(uses map[uint32]*jobstate.Use) places {
	next := places{}
	var follow func(file uint32)
	follow = func(file uint32) {
		if parts := p[file]; parts != nil && next[file] == nil {
			next[file] = parts
			for _, m := range parts {
				follow(uint32(m.To))
			}
		}
	}
	for file := range uses {
		follow(file)
	}
	return next
}

// where is where the bytes of l lie by now, as far as this handle has learnt.
func (b *handle) where(l jobstate.Loc) jobstate.Loc {
	if p := b.places.Load(); p != nil {
		return (*p).at(l)
	}
	return l
}

// learn takes note of what a compaction moved; mu is held.
func (b *handle) learn(parts []*journal.Moved) {
	p := places{}
	if known := b.places.Load(); known != nil {
		p = known.neededBy(b.s.Uses())
	}
	p = p.with(parts)
	b.places.Store(&p)
}

// follow notices that somebody flipped CURRENT; mu is held.
func (b *handle) follow() error {
	if !b.log.GenerationChanged() {
		return nil
	}
	return b.followNow()
}

// followNow is follow without the hint that CURRENT was flipped: who flipped
// it may have died before he gave it. A handle far behind the checkpoint loads
// it, one past it learns where moved bytes lie now. mu is held.
func (b *handle) followNow() error {
	seen := b.log.Current().Checkpoint
	cur, err := b.log.Refresh()
	if err != nil {
		if !damage(err) {
			b.broken = err // CURRENT may be taken note of, and what follows from it left undone
		}
		return err
	}
	if b.log.Pos().Segment <= cur.Checkpoint {
		if behind, ok := b.log.UpTo(cur.Checkpoint + 1); !ok || behind > b.log.CheckpointBytes(cur.Checkpoint) {
			return b.reload()
		}
	}
	for _, n := range cur.Payload {
		if n <= seen {
			continue
		}
		parts, err := b.log.ReadMoved(n)
		if err != nil {
			return b.reload() // the next compaction dropped it already, or it is damaged
		}
		b.learn(parts)
	}
	return nil
}
