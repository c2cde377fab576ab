package jobstate

import (
	"hash/maphash"
	"iter"
	"math/bits"

	"github.com/spoolq/spool/broker"
)

// index finds the jobs of a queue by their ids, in about 8 bytes a job. It is
// an extendible hash table: the first bits of an id's hash choose a page of a
// directory, and a full page becomes two, so that no insertion does more than
// that. A page is searched eight slots at a time: a byte of the hash stands
// beside each ref, so that another job's entry is hardly ever looked at.
type index struct {
	dir   []*page
	depth uint8 // the directory has 1<<depth places
	n     int
}

// page is a part of an index.
type page struct {
	depth uint8 // how many first bits its ids share
	full  int   // slots that are not empty, those of gone jobs too
	live  int
	tags  []uint64 // of eight slots each
	refs  []ref
}

// Tags of slots; those of jobs are larger.
const (
	tagEmpty = 0
	tagGone  = 1
)

const (
	minSlots = 8
	maxSlots = 512

	eachByte = 0x0101010101010101
	highBits = 0x8080808080808080
)

// seed keeps clients from choosing ids that collide.
var seed = maphash.MakeSeed()

func hashOf(id broker.ID) uint64 { return maphash.Bytes(seed, id[:]) }

// tagOf is the byte of a hash that stands beside a ref.
func tagOf(h uint64) uint64 { return max(h>>24&0xff, 2) }

// withTag marks the bytes of a word of tags that may be tag. Only marks above
// another one can be wrong.
func withTag(word, tag uint64) uint64 {
	x := word ^ tag*eachByte
	return (x - eachByte) & ^x & highBits
}

func newPage(depth uint8, slots int) *page {
	return &page{depth: depth, tags: make([]uint64, slots/8), refs: make([]ref, slots)}
}

func (x *index) len() int { return x.n }

// reserve prepares an empty index for n jobs.
func (x *index) reserve(n int) {
	for n>>x.depth > maxSlots*3/4 {
		x.depth++
	}
	slots := minSlots
	if x.depth > 0 {
		slots = maxSlots
	}
	x.dir = make([]*page, 1<<x.depth)
	for i := range x.dir {
		x.dir[i] = newPage(x.depth, slots)
	}
}

func (x *index) page(h uint64) *page { return x.dir[h>>(64-x.depth)] }

// group is where the search for a hash begins among the words of tags.
func (p *page) group(h uint64) int { return int(h) & (len(p.tags) - 1) }

// find returns the slot of an id, or -1.
func (x *index) find(e *entries, id broker.ID, h uint64) (*page, int) {
	if x.n == 0 {
		return nil, -1
	}
	p, tag := x.page(h), tagOf(h)
	for g := p.group(h); ; g = (g + 1) & (len(p.tags) - 1) {
		word := p.tags[g]
		for m := withTag(word, tag); m != 0; m &= m - 1 {
			i := 8*g + bits.TrailingZeros64(m)/8
			if uint8(word>>(i%8*8)) == uint8(tag) && e.at(p.refs[i]).id == id {
				return p, i
			}
		}
		if withTag(word, tagEmpty) != 0 {
			return p, -1
		}
	}
}

// get returns the job of an id, or nil.
func (x *index) get(e *entries, id broker.ID) *job {
	p, i := x.find(e, id, hashOf(id))
	if i < 0 {
		return nil
	}
	return e.at(p.refs[i])
}

// add adds a job whose id is not there.
func (x *index) add(e *entries, j *job) {
	if x.dir == nil {
		x.reserve(0)
	}
	h := hashOf(j.id)
	p := x.page(h)
	for p.full >= len(p.refs)-len(p.refs)/16-1 {
		x.grow(e, p, h)
		p = x.page(h)
	}
	p.put(h, j.self)
	x.n++
}

// put fills an empty slot.
func (p *page) put(h uint64, r ref) {
	g := p.group(h)
	m := withTag(p.tags[g], tagEmpty)
	for m == 0 {
		g = (g + 1) & (len(p.tags) - 1)
		m = withTag(p.tags[g], tagEmpty)
	}
	i := bits.TrailingZeros64(m) / 8 // the lowest mark is right
	p.tags[g] |= tagOf(h) << (8 * i)
	p.refs[8*g+i] = r
	p.full++
	p.live++
}

// remove takes a job out.
func (x *index) remove(e *entries, j *job) {
	p, i := x.find(e, j.id, hashOf(j.id))
	if i < 0 {
		return
	}
	x.n--
	p.live--
	p.refs[i] = 0
	word := &p.tags[i/8]
	searched := withTag(*word, tagEmpty) == 0 // searches go on behind it
	*word &^= 0xff << (i % 8 * 8)
	if searched {
		*word |= tagGone << (i % 8 * 8)
	} else {
		p.full--
	}
}

// grow makes room in a full page: by dropping what is gone, by doubling it, or
// by splitting it.
func (x *index) grow(e *entries, p *page, h uint64) {
	slots := len(p.refs)
	switch {
	case p.live < slots/2:
	case slots < maxSlots || p.depth == x.depth && len(x.dir) > 64+x.n/16:
		slots *= 2 // the directory is large enough for what ids are like
	default:
		x.split(e, p, h)
		return
	}
	next := newPage(p.depth, slots)
	for _, r := range p.refs {
		if r != 0 {
			next.put(hashOf(e.at(r).id), r)
		}
	}
	*p = *next
}

func (x *index) split(e *entries, p *page, h uint64) {
	if p.depth == x.depth {
		dir := make([]*page, 2*len(x.dir))
		for i, q := range x.dir {
			dir[2*i], dir[2*i+1] = q, q
		}
		x.dir, x.depth = dir, x.depth+1
	}
	depth := p.depth + 1
	halves := [2]*page{newPage(depth, maxSlots), newPage(depth, maxSlots)}
	for _, r := range p.refs {
		if r != 0 {
			k := hashOf(e.at(r).id)
			halves[k>>(64-depth)&1].put(k, r)
		}
	}
	n := 1 << (x.depth - p.depth) // places of the directory that p had
	from := int(h>>(64-x.depth)) &^ (n - 1)
	for i := range n {
		x.dir[from+i] = halves[2*i/n]
	}
}

// all yields every job, in no order. None may be added or removed meanwhile.
func (x *index) all(e *entries) iter.Seq[*job] {
	return func(yield func(*job) bool) {
		var last *page
		for _, p := range x.dir {
			if p == last {
				continue
			}
			last = p
			for _, r := range p.refs {
				if r != 0 && !yield(e.at(r)) {
					return
				}
			}
		}
	}
}

// fileJobs is how many decoded jobs are filed at a time.
const fileJobs = 4096

// filing is jobs that the index has to learn of: the entries from first to
// last, which nobody changes meanwhile.
type filing struct {
	e           entries
	first, last ref
}

// fileIn adds n jobs to an empty index beside the goroutine that decodes them:
// each takes a visit to some far place in memory, and there is a second core.
// filed is closed when the channel is and everything was added. Room for n is
// made as far as an eighth of it has come.
func (x *index) fileIn(n int) (file chan<- filing, filed <-chan struct{}) {
	room := min(n, 8*fileJobs)
	x.reserve(room)
	jobs, done := make(chan filing, 16), make(chan struct{})
	go func() {
		defer close(done)
		for f := range jobs {
			if x.n >= room && room < n {
				room = min(n, 8*room)
				x.rebuild(&f.e, room)
			}
			for r := f.first; r <= f.last; r++ {
				x.add(&f.e, f.e.at(r))
			}
		}
	}()
	return jobs, done
}

// rebuild makes room for n jobs.
func (x *index) rebuild(e *entries, n int) {
	next := index{}
	next.reserve(n)
	for j := range x.all(e) {
		next.add(e, j)
	}
	*x = next
}
