package crashfs

import (
	"path"
	"slices"
	"strings"
	"syscall"
)

type kind int

const (
	regular kind = iota
	directory
	link
)

// inode is what a name stands for.
type inode struct {
	kind kind
	content

	// A directory.
	names   map[string]*inode // as processes see it
	durable map[string]*inode

	target string // of a link

	parent  *inode // the newest name, for watchers
	name    string
	links   int // names of it that processes see
	opens   int
	maps    int // memory maps of it in processes
	lock    *file
	reports []*watch // of writes to a file, of closes in a directory
}

func newFile() *inode { return &inode{kind: regular} }

func newDir() *inode {
	return &inode{kind: directory, names: map[string]*inode{}, durable: map[string]*inode{}}
}

// link makes node the directory's entry of that name, as processes see it.
func (n *inode) link(name string, node *inode) {
	n.names[name] = node
	node.parent, node.name = n, name
	node.links++
}

// walk calls fn for every inode below, as processes see them.
func (n *inode) walk(fn func(*inode)) {
	for _, node := range n.names {
		fn(node)
		node.walk(fn)
	}
}

// change is a change of directories that is not durable yet: node loses its
// name old in from, unless that is nil, and gets the name new in to, unless
// that is nil.
type change struct {
	node     *inode
	from, to *inode
	old, new string
	path     string // for Unit
	lost     bool   // a failed SyncDir was to write it: another one will not
}

// apply makes the change in the names that of gives for a directory.
func (c *change) apply(of func(dir *inode) map[string]*inode) {
	if c.from != nil {
		if names := of(c.from); names[c.old] == c.node {
			delete(names, c.old)
		}
	}
	if c.to != nil {
		of(c.to)[c.new] = c.node
	}
}

func (c *change) touches(dirs map[*inode]bool) bool {
	return dirs[c.from] && c.from != nil || dirs[c.to] && c.to != nil
}

// find returns what name stands for, a link as such.
func (m *Machine) find(name string) (*inode, error) {
	dir, base, err := m.split(name)
	if err != nil {
		return nil, err
	}
	if base == "" {
		return m.root, nil
	}
	n := dir.names[base]
	if n == nil {
		return nil, syscall.ENOENT
	}
	return n, nil
}

// split returns the directory of name and the last element, "" for the root.
func (m *Machine) split(name string) (dir *inode, base string, err error) {
	dir = m.root
	at, base := path.Split(clean(name))
	for _, e := range strings.Split(at, "/") {
		if e == "" {
			continue
		}
		dir = dir.names[e]
		switch {
		case dir == nil:
			return nil, "", syscall.ENOENT
		case dir.kind == link:
			return nil, "", syscall.ELOOP // more than we can do
		case dir.kind != directory:
			return nil, "", syscall.ENOTDIR
		}
	}
	return dir, base, nil
}

// create makes a name for a new inode.
func (m *Machine) create(name string, dir *inode, base string, n *inode) {
	dir.link(base, n)
	m.changes = append(m.changes, &change{node: n, to: dir, new: base, path: clean(name)})
}

// remove takes a name from a file or link.
func (m *Machine) remove(name string) error {
	dir, base, err := m.split(name)
	if err != nil {
		return err
	}
	n := dir.names[base]
	switch {
	case base == "" || n != nil && n.kind == directory:
		return syscall.EISDIR
	case n == nil:
		return syscall.ENOENT
	}
	delete(dir.names, base)
	m.changes = append(m.changes, &change{node: n, from: dir, old: base, path: clean(name)})
	m.unlinked(n)
	return nil
}

func (m *Machine) rename(oldname, newname string) error {
	from, old, err := m.split(oldname)
	if err != nil {
		return err
	}
	to, new, err := m.split(newname)
	if err != nil {
		return err
	}
	n := from.names[old]
	if n == nil || old == "" || new == "" {
		return syscall.ENOENT
	}
	was := to.names[new]
	switch {
	case was == n:
		return nil
	case was != nil && (was.kind == directory || n.kind == directory):
		return syscall.EEXIST
	}
	for d := to; d != nil; d = d.parent {
		if d == n {
			return syscall.EINVAL // into itself
		}
	}
	delete(from.names, old)
	to.link(new, n)
	n.links--
	c := &change{node: n, from: from, old: old, to: to, new: new, path: clean(newname)}
	m.changes = append(m.changes, c)
	if was != nil {
		m.unlinked(was)
	}
	return nil
}

// unlinked counts that n lost a name.
func (m *Machine) unlinked(n *inode) {
	n.links--
	m.release(n)
}

// release frees the blocks of an inode that nobody can reach. Its content
// stays, for the power cut that undoes the removal.
func (m *Machine) release(n *inode) {
	if n.links > 0 || n.opens > 0 || n.kind != regular {
		return
	}
	m.used -= int64(n.blocks()) * pageSize
	for _, w := range n.reports {
		w.lose()
	}
	n.reports = nil
}

// syncDir makes the changes of one directory durable. A rename between two
// directories becomes durable with either, and then with it what happened to
// the other before.
func (m *Machine) syncDir(dir *inode) {
	if m.cfg.IgnoreSync {
		return
	}
	dirs := map[*inode]bool{dir: true}
	var now, later []*change
	for _, c := range slices.Backward(m.changes) {
		if c.lost || !c.touches(dirs) {
			later = append(later, c)
			continue
		}
		now = append(now, c)
		if c.from != nil {
			dirs[c.from] = true
		}
		if c.to != nil {
			dirs[c.to] = true
		}
	}
	slices.Reverse(later)
	m.changes = later
	for _, c := range slices.Backward(now) {
		c.apply(func(d *inode) map[string]*inode { return d.durable })
	}
}

// failSyncDir is what an error of SyncDir leaves.
func (m *Machine) failSyncDir(dir *inode) {
	dirs := map[*inode]bool{dir: true}
	for _, c := range m.changes {
		if c.touches(dirs) {
			c.lost = true
		}
	}
}
