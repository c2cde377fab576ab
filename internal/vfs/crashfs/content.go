package crashfs

import (
	"slices"
	"syscall"
)

const (
	pageSize   = 4096
	sectorSize = 512
	perPage    = pageSize / sectorSize
	allSectors = 1<<perPage - 1
)

// owner marks the pages that one machine may write in place. After Crash both
// machines get new ones, so that every page that both have is copied before
// it is written.
type owner struct{ _ byte }

// page is a page of a file. Bytes beyond the end of the file are zero.
type page struct {
	owner *owner
	b     []byte
}

// slot is a place for a page in a file.
type slot struct {
	cur   *page // nil: a hole, which reads as zeros and takes no block
	old   *page // what is durable, if any sector is pending
	dirty uint8 // pending sectors: to be written by the next Sync
	lost  uint8 // pending sectors that a failed Sync gave up

	between []*page // states of cur since old, for Config.Versions
}

func (s *slot) pending() uint8 { return s.dirty | s.lost }

// settle makes the current page durable.
func (s *slot) settle() { *s = slot{cur: s.cur} }

// content is what a regular file holds. Slots can reach beyond the size, to
// remember what is durable there.
type content struct {
	slots    []slot
	size     int64
	oldSize  int64   // what is durable
	sizes    []int64 // between them, for Config.Versions
	sizeLost bool    // a failed Sync was to write the size
	failures int     // failed Syncs so far
	shared   *shared // the memory behind the first pages, once they were mapped
}

func pages(size int64) int { return int((size + pageSize - 1) / pageSize) }

// mapped is how many slots lie in shared memory.
func (c *content) mapped() int {
	if c.shared == nil {
		return 0
	}
	return len(c.shared.b) / pageSize
}

func (c *content) blocks() (n int) {
	for i := range c.slots {
		if c.slots[i].cur != nil {
			n++
		}
	}
	return n
}

// read copies what is at off to p, zeros beyond the slots.
func (c *content) read(p []byte, off int64) {
	for len(p) > 0 {
		i, at := int(off/pageSize), int(off%pageSize)
		n := min(len(p), pageSize-at)
		if i < len(c.slots) && c.slots[i].cur != nil {
			copy(p[:n], c.slots[i].cur.b[at:])
		} else {
			clear(p[:n])
		}
		p, off = p[n:], off+int64(n)
	}
}

// write writes p at off as far as the disk has room, and says how far.
func (m *Machine) write(n *inode, p []byte, off int64) (int, error) {
	if end := off + int64(len(p)); pages(end) > len(n.slots) && len(p) > 0 {
		n.slots = append(n.slots, make([]slot, pages(end)-len(n.slots))...)
	}
	done := 0
	for done < len(p) {
		at := off + int64(done)
		in := int(at % pageSize)
		part := p[done:min(len(p), done+pageSize-in)]
		if !m.writePage(n, int(at/pageSize), in, part) {
			return done, syscall.ENOSPC
		}
		done += len(part)
		if at+int64(len(part)) > n.size {
			m.resize(n, at+int64(len(part)))
		}
	}
	return done, nil
}

// writePage writes p into page i, or reports that the disk is full.
func (m *Machine) writePage(n *inode, i, at int, p []byte) bool {
	if n.slots[i].cur == nil && !m.take() {
		return false
	}
	if len(p) == pageSize && i >= n.mapped() && zeros(p) {
		m.touch(n, i, allSectors)
		n.slots[i].cur = m.zero
		return true
	}
	from, to := at/sectorSize, (at+len(p)-1)/sectorSize
	mask := uint8(1<<(to+1)-1) &^ uint8(1<<from-1)
	copy(m.writable(n, i, mask).b[at:], p)
	return true
}

// take counts one more block of the disk, if there is one.
func (m *Machine) take() bool {
	if m.limit > 0 && m.used+pageSize > m.limit {
		return false
	}
	m.used += pageSize
	return true
}

// touch marks sectors of slot i as about to change, and keeps what was there.
func (m *Machine) touch(n *inode, i int, mask uint8) {
	s := &n.slots[i]
	switch {
	case s.pending() == 0:
		s.old = s.cur
	case m.cfg.Versions > 0 && i >= n.mapped():
		s.between = append(s.between, s.cur)
		if len(s.between) > m.cfg.Versions {
			s.between = slices.Delete(s.between, 0, 1)
		}
		if s.cur != nil {
			s.cur = &page{b: s.cur.b} // without an owner: writable copies it
		}
	}
	s.dirty |= mask
	s.lost &^= mask
}

// writable returns page i for a change of some sectors.
func (m *Machine) writable(n *inode, i int, mask uint8) *page {
	s := &n.slots[i]
	m.touch(n, i, mask)
	if i < n.mapped() {
		return s.cur
	}
	if s.cur != nil && s.cur.owner == m.owner && s.cur != s.old {
		return s.cur
	}
	fresh := &page{owner: m.owner, b: make([]byte, pageSize)}
	if s.cur != nil {
		copy(fresh.b, s.cur.b)
	}
	s.cur = fresh
	return fresh
}

// resize changes the size, nothing else.
func (m *Machine) resize(n *inode, size int64) {
	if size == n.size {
		return
	}
	if m.cfg.Versions > 0 && n.size != n.oldSize {
		n.sizes = append(n.sizes, n.size)
		if len(n.sizes) > m.cfg.Versions {
			n.sizes = slices.Delete(n.sizes, 0, 1)
		}
	}
	n.size = size
	n.sizeLost = false
}

// truncate sets the size; what is cut off reads as zeros if the file grows
// again.
func (m *Machine) truncate(n *inode, size int64) {
	if size < int64(n.mapped()*pageSize) {
		panic("crashfs: truncation of a mapped file: each process that maps it would die of it")
	}
	if at := int(size % pageSize); at != 0 && size < n.size && n.slots[size/pageSize].cur != nil {
		mask := uint8(allSectors) &^ uint8(1<<(at/sectorSize)-1)
		clear(m.writable(n, int(size/pageSize), mask).b[at:])
	}
	for i := pages(size); i < len(n.slots); i++ {
		if n.slots[i].cur != nil {
			m.touch(n, i, allSectors)
			n.slots[i].cur = nil
			m.used -= pageSize
		}
	}
	if pages(size) > len(n.slots) {
		n.slots = append(n.slots, make([]slot, pages(size)-len(n.slots))...)
	}
	m.resize(n, size)
}

// mapShared moves the first pages into memory that processes can map.
func (m *Machine) mapShared(n *inode, length int) error {
	if n.shared != nil {
		if length > len(n.shared.b) {
			return syscall.ENOMEM // a larger map than the first: more than we can do
		}
		return nil
	}
	for i := range length / pageSize {
		if n.slots[i].cur == nil {
			if !m.take() {
				return syscall.ENOSPC
			}
		}
	}
	mem, err := newShared(length)
	if err != nil {
		return err
	}
	n.read(mem.b, 0)
	for i := range length / pageSize {
		m.touch(n, i, allSectors)
		n.slots[i].between = nil
		n.slots[i].cur = &page{b: mem.b[i*pageSize:][:pageSize:pageSize]}
	}
	n.shared = mem
	return nil
}

// sync makes the content durable, but for what an earlier sync lost.
func (c *content) sync() {
	for i := range c.slots {
		s := &c.slots[i]
		switch {
		case i < c.mapped():
			s.old = &page{b: slices.Clone(s.cur.b)}
		case s.lost == 0 && s.dirty != 0:
			s.settle()
		case s.dirty != 0:
			s.old = mix(s.old, s.cur, s.dirty)
			s.dirty, s.between = 0, nil
		}
	}
	if !c.sizeLost {
		c.oldSize, c.sizes = c.size, nil
		c.slots = c.slots[:max(pages(c.size), c.mapped())]
	}
}

// settle makes the content durable whatever happened before.
func (c *content) settle() {
	for i := range c.slots {
		if i < c.mapped() {
			c.slots[i].old = &page{b: slices.Clone(c.slots[i].cur.b)}
		} else {
			c.slots[i].settle()
		}
	}
	c.sizeLost = false
	c.sync()
}

// failSync is what an error of Sync leaves: nothing waits to be written any
// more, and nothing of it is known to be durable.
func (c *content) failSync() {
	c.failures++
	for i := c.mapped(); i < len(c.slots); i++ {
		s := &c.slots[i]
		s.lost, s.dirty = s.pending(), 0
	}
	c.sizeLost = c.size != c.oldSize
}

// drop reads clean pages from the disk again, which shows what was lost.
func (c *content) drop() {
	for i := c.mapped(); i < pages(c.size); i++ {
		s := &c.slots[i]
		if s.lost == 0 || s.cur == nil {
			continue
		}
		s.cur = mix(s.cur, s.old, s.lost)
		if i == int(c.size/pageSize) {
			clear(s.cur.b[c.size%pageSize:])
		}
		s.lost, s.between = 0, nil
		if s.dirty == 0 {
			s.old = nil
		}
	}
}

// freeze moves mapped pages out of the shared memory, which somebody may still
// write to.
func (c *content) freeze() {
	for i := range c.mapped() {
		c.slots[i].cur = &page{b: slices.Clone(c.slots[i].cur.b)}
	}
	c.shared = nil
}

// mix returns base with some sectors of top; either can be a hole.
func mix(base, top *page, mask uint8) *page {
	if base == top {
		return base
	}
	b := make([]byte, pageSize)
	copy(b, bytesOf(base))
	for j := range perPage {
		if mask&(1<<j) != 0 {
			at := b[j*sectorSize:][:sectorSize]
			clear(at)
			copy(at, sector(top, j))
		}
	}
	return &page{b: b}
}

// bytesOf returns a page's bytes, none for a hole.
func bytesOf(p *page) []byte {
	if p == nil {
		return nil
	}
	return p.b
}

// sector returns sector j of a page, none for a hole.
func sector(p *page, j int) []byte {
	if p == nil {
		return nil
	}
	return p.b[j*sectorSize:][:sectorSize]
}

func zeros(p []byte) bool {
	for _, b := range p {
		if b != 0 {
			return false
		}
	}
	return true
}
