package jobstate

import "slices"

// fifo holds jobs in the order of their spots, 4 bytes each. What is added
// comes last; any can be taken out.
type fifo struct {
	blocks []*block
	last   spot // of the job added last, which may have gone
}

// block is a part of a fifo. Its zeros are jobs that were taken out. Only the
// one block of an empty fifo is empty.
type block struct {
	refs []ref
	off  int // of the first that is not a zero
	live int
	from spot // of the job added to it first
}

const blockRefs = 512

// spot is a place in a lane: no two jobs have the same.
type spot struct {
	at  int64
	seq uint64
}

func spotOf(j *job) spot { return spot{j.place, j.seq()} }

func (a spot) before(b spot) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (f *fifo) empty() bool { return len(f.blocks) == 0 || f.blocks[0].live == 0 }

// add appends a job, unless it belongs before the last one.
func (f *fifo) add(j *job) bool {
	at, n := spotOf(j), len(f.blocks)
	if !f.empty() && !f.last.before(at) {
		return false
	}
	if n == 0 || len(f.blocks[n-1].refs) == blockRefs {
		b := &block{}
		if n > 0 { // a lane of few jobs stays small
			b.refs = make([]ref, 0, blockRefs)
		}
		f.blocks = append(f.blocks, b)
		n++
	}
	b := f.blocks[n-1]
	if len(b.refs) == 0 {
		b.from = at
	}
	b.refs = append(b.refs, j.self)
	b.live++
	f.last = at
	return true
}

// first returns the first job, or nil.
func (f *fifo) first(s *State) *job {
	if f.empty() {
		return nil
	}
	b := f.blocks[0]
	for b.refs[b.off] == 0 {
		b.off++
	}
	return s.jobs.at(b.refs[b.off])
}

// remove takes a job out, if it is there.
func (f *fifo) remove(j *job) {
	at := spotOf(j)
	i, found := slices.BinarySearchFunc(f.blocks, at, func(b *block, at spot) int {
		switch {
		case b.from.before(at):
			return -1
		case at.before(b.from):
			return 1
		}
		return 0
	})
	if !found {
		i--
	}
	if i < 0 {
		return
	}
	b := f.blocks[i]
	k := slices.Index(b.refs[b.off:], j.self)
	if k < 0 {
		return
	}
	b.refs[b.off+k] = 0
	if b.live--; b.live == 0 {
		f.drop(i)
	}
}

// drop takes an empty block out.
func (f *fifo) drop(i int) {
	switch b := f.blocks[i]; {
	case len(f.blocks) == 1:
		b.refs, b.off = b.refs[:0], 0
	case i == 0:
		f.blocks[0] = nil
		f.blocks = f.blocks[1:]
	default:
		f.blocks = slices.Delete(f.blocks, i, i+1)
	}
}
