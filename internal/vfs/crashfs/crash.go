package crashfs

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
)

// UnitKind says what a Unit is.
type UnitKind int

// What a power cut decides about.
const (
	// Entry is a change of a directory: a name made, changed or removed.
	Entry UnitKind = iota
	// Size is the size of a file.
	Size
	// Sector is one sector of a file.
	Sector
)

// String is one word.
func (k UnitKind) String() string {
	return [...]string{"entry", "size", "sector"}[k]
}

// Unit is one thing that is on the disk or is not when the power goes.
type Unit struct {
	Kind    UnitKind
	Path    string
	Offset  int64 // of a sector
	Choices int   // at least 2: 0 is what is durable, Choices-1 what is newest
}

// String is one line for a log.
func (u Unit) String() string {
	if u.Kind == Sector {
		return fmt.Sprintf("sector %s+%d", u.Path, u.Offset)
	}
	return u.Kind.String() + " " + u.Path
}

// Choose decides about one unit, from 0 to u.Choices-1. The units come in the
// same order whenever a machine is in the same state: changes of directories,
// oldest first, then the files that these leave, by name, each with its size
// and then its sectors. It must not call the machine.
type Choose func(u Unit) int

// KeepNone keeps what is durable and nothing else.
func KeepNone(Unit) int { return 0 }

// KeepAll keeps all that was written, as if only the processes had died.
func KeepAll(u Unit) int { return u.Choices - 1 }

// KeepRandom decides by chance, each choice as likely as the others.
func KeepRandom(seed uint64) Choose {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(u Unit) int { return r.IntN(u.Choices) }
}

// KeepShare keeps the newest of about percent of the units, else decides among
// the rest.
func KeepShare(seed uint64, percent int) Choose {
	r := rand.New(rand.NewPCG(seed, uint64(percent)))
	return func(u Unit) int {
		if r.IntN(100) < percent {
			return u.Choices - 1
		}
		return r.IntN(u.Choices - 1)
	}
}

// Crash returns the machine that a power cut at this moment would leave once it
// has booted again, with what choose keeps of all that is not durable. This
// machine goes on as if nothing had happened. Locks are free, the boot id is
// another, the monotonic clock begins at 0 and the wall clock goes on; nothing
// is pending, and there is no Inject.
func (m *Machine) Crash(choose Choose) *Machine {
	m.mu.Lock()
	defer m.mu.Unlock()
	next := &Machine{
		Clock: m.Clock.rebooted(), cfg: m.cfg, boot: m.boot + 1,
		owner: new(owner), zero: m.zero, limit: m.limit,
	}
	next.wake.L = &next.mu
	m.owner = new(owner) // no page that both have is written in place
	c := &cut{m: m, choose: choose, dirs: map[*inode]map[string]*inode{}, copies: map[*inode]*inode{}}
	for _, change := range m.changes {
		if c.pick(Unit{Kind: Entry, Path: change.path, Choices: 2}) == 1 {
			change.apply(c.names)
		}
	}
	next.root = c.copyDir(m.root, "")
	for _, n := range c.copies {
		next.used += int64(n.blocks()) * pageSize
	}
	return next
}

// Units lists what a power cut at this moment would decide about if it kept
// all.
func (m *Machine) Units() []Unit {
	var units []Unit
	m.Crash(func(u Unit) int {
		units = append(units, u)
		return u.Choices - 1
	})
	return units
}

// Crashes goes through the machines that Crash can return, each with words that
// tell it from the others. If there are at most limit, all of them come; else
// limit come: the one that keeps nothing, the one that keeps all, and others
// by chance and seed. Nothing may happen on the machine meanwhile.
func (m *Machine) Crashes(limit int, seed uint64) iter.Seq2[string, *Machine] {
	return func(yield func(string, *Machine) bool) {
		if m.moreThan(limit) {
			m.someCrashes(limit, seed, yield)
			return
		}
		for way := (odometer{more: true}); way.more; way.advance() {
			next := m.Crash(way.choose)
			if !yield(fmt.Sprintf("picks %v", way.picks), next) {
				return
			}
		}
	}
}

// moreThan reports whether there are more than limit ways to choose.
func (m *Machine) moreThan(limit int) bool {
	n := 1
	for _, u := range m.Units() {
		if n *= u.Choices; n > limit {
			return true
		}
	}
	// What is not kept can bring more to choose from: count.
	n = 0
	for way := (odometer{more: true}); way.more && n <= limit; way.advance() {
		m.Crash(way.choose)
		n++
	}
	return n > limit
}

func (m *Machine) someCrashes(limit int, seed uint64, yield func(string, *Machine) bool) {
	for i := range limit {
		name, choose := "keep none", Choose(KeepNone)
		switch share := []int{25, 50, 75, 0}[i%4]; {
		case i == 1:
			name, choose = "keep all", KeepAll
		case i > 1 && share > 0:
			name = fmt.Sprintf("KeepShare(%d, %d)", seed+uint64(i), share)
			choose = KeepShare(seed+uint64(i), share)
		case i > 1:
			name = fmt.Sprintf("KeepRandom(%d)", seed+uint64(i))
			choose = KeepRandom(seed + uint64(i))
		}
		if !yield(name, m.Crash(choose)) {
			return
		}
	}
}

// odometer goes through all ways to choose, though a choice can decide which
// ones follow.
type odometer struct {
	picks, choices []int
	at             int
	more           bool
}

func (o *odometer) choose(u Unit) int {
	if o.at == len(o.picks) {
		o.picks = append(o.picks, 0)
		o.choices = append(o.choices, u.Choices)
	}
	o.at++
	return o.picks[o.at-1]
}

func (o *odometer) advance() {
	o.at, o.more = 0, false
	for i := len(o.picks) - 1; i >= 0 && !o.more; i-- {
		if o.picks[i]+1 < o.choices[i] {
			o.picks[i]++
			o.more = true
		} else {
			o.picks, o.choices = o.picks[:i], o.choices[:i]
		}
	}
}

// cut is one power cut in the making.
type cut struct {
	m      *Machine
	choose Choose
	dirs   map[*inode]map[string]*inode // what is left of the directories
	copies map[*inode]*inode
}

func (c *cut) pick(u Unit) int {
	n := c.choose(u)
	if n < 0 || n >= u.Choices {
		panic(fmt.Sprintf("crashfs: choice %d of %d for %v", n, u.Choices, u))
	}
	return n
}

// names is what is left in a directory.
func (c *cut) names(dir *inode) map[string]*inode {
	if c.dirs[dir] == nil {
		c.dirs[dir] = maps.Clone(dir.durable)
	}
	return c.dirs[dir]
}

func (c *cut) copyDir(dir *inode, at string) *inode {
	d := newDir()
	c.copies[dir] = d
	names := c.names(dir)
	for _, base := range slices.Sorted(maps.Keys(names)) {
		n := names[base]
		kept := c.copies[n]
		switch {
		case kept != nil: // it has another name, too
		case n.kind == directory:
			kept = c.copyDir(n, at+"/"+base)
		case n.kind == link:
			kept = &inode{kind: link, target: n.target}
		default:
			kept = c.copyFile(n, at+"/"+base)
		}
		c.copies[n] = kept
		d.link(base, kept)
	}
	d.durable = maps.Clone(d.names)
	return d
}

func (c *cut) copyFile(n *inode, path string) *inode {
	f := newFile()
	f.size = c.size(n, path)
	f.oldSize = f.size
	f.slots = make([]slot, pages(f.size))
	for i := range f.slots {
		if i < len(n.slots) {
			f.slots[i].cur = c.page(n, i, f.size, path)
		}
	}
	if at := int(f.size % pageSize); at != 0 {
		last := &f.slots[len(f.slots)-1]
		if last.cur != nil && !zeros(last.cur.b[at:]) {
			last.cur = &page{b: slices.Clone(last.cur.b)}
			clear(last.cur.b[at:])
		}
	}
	return f
}

func (c *cut) size(n *inode, path string) int64 {
	sizes := slices.Compact(append(append([]int64{n.oldSize}, n.sizes...), n.size))
	if len(sizes) == 1 {
		return n.size
	}
	return sizes[c.pick(Unit{Kind: Size, Path: path, Choices: len(sizes)})]
}

// page is what is left of page i in a file that comes back with that size.
func (c *cut) page(n *inode, i int, size int64, path string) *page {
	s := &n.slots[i]
	if s.pending() == 0 {
		return s.cur
	}
	now := make([]byte, pageSize)
	copy(now, bytesOf(s.cur))
	left, changed := slices.Clone(now), i < n.mapped()
	for j := range perPage {
		off := int64(i)*pageSize + int64(j)*sectorSize
		if s.pending()&(1<<j) == 0 || off >= size {
			continue
		}
		pick, states := 0, c.states(s, now, j, off)
		if len(states) > 1 && off < n.size { // a size that was cut down and is back has its old data
			pick = c.pick(Unit{Kind: Sector, Path: path, Offset: off, Choices: len(states)})
		}
		if at := left[j*sectorSize:][:sectorSize]; !bytes.Equal(at, states[pick]) {
			copy(at, states[pick])
			changed = true
		}
	}
	switch {
	case !changed:
		return s.cur
	case s.old == nil && zeros(left):
		return nil
	}
	return &page{b: left}
}

// states is what a power cut can leave of sector j, whose newest content is in
// now: first what is durable, last the newest.
func (c *cut) states(s *slot, now []byte, j int, off int64) [][]byte {
	all := [][]byte{c.sector(s.old, j)}
	for _, p := range s.between {
		all = append(all, c.sector(p, j))
	}
	newest := now[j*sectorSize:][:sectorSize]
	if c.m.cfg.Torn {
		r := rand.New(rand.NewPCG(c.m.cfg.Seed, uint64(off)))
		at := 1 + r.IntN(sectorSize-1)
		all = append(all, append(slices.Clone(newest[:at]), all[0][at:]...))
	}
	return slices.CompactFunc(append(all, newest), bytes.Equal)
}

// sector is sector j of a page, zeros for a hole.
func (c *cut) sector(p *page, j int) []byte {
	if p == nil {
		p = c.m.zero
	}
	return p.b[j*sectorSize:][:sectorSize]
}
