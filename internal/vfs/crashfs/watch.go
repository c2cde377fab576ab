package crashfs

import (
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"syscall"

	"github.com/spoolq/spool/internal/vfs"
)

// watcher collects reports for one process. Its fields are under the machine's
// lock.
type watcher struct {
	p      *Process
	wake   sync.Cond
	queue  []vfs.WatchEvent
	closed bool
}

var _ vfs.Watcher = (*watcher)(nil)

// watch is a watcher's interest in one inode.
type watch struct {
	w    *watcher
	path string
}

func newWatcher(p *Process) *watcher {
	w := &watcher{p: p}
	w.wake.L = &p.m.mu
	return w
}

// report queues an event, unless it says what the last one said, or the queue
// is full: then the last one becomes a zero event.
func (w *watcher) report(e vfs.WatchEvent) {
	n := len(w.queue)
	if w.closed || w.p.killed || n > 0 && w.queue[n-1] == e {
		return
	}
	if n >= w.p.m.cfg.WatchQueue {
		e = vfs.WatchEvent{}
		w.queue = w.queue[:n-1]
	}
	w.queue = append(w.queue, e)
	w.wake.Broadcast()
}

// lose reports that what was watched is gone.
func (w *watch) lose() { w.w.report(vfs.WatchEvent{}) }

// written reports that a process wrote to the file.
func (n *inode) written() {
	for _, r := range n.reports {
		r.w.report(vfs.WatchEvent{Name: r.path})
	}
}

// closed reports that a process that could write closed the file.
func (n *inode) closed() {
	if n.parent == nil {
		return
	}
	for _, r := range n.parent.reports {
		r.w.report(vfs.WatchEvent{Dir: r.path, Name: n.name, Closed: true})
	}
}

func (w *watcher) Dir(name string) error {
	return w.add(Op{Kind: OpWatchDir, Path: name}, directory, syscall.ENOTDIR)
}

func (w *watcher) File(name string) error {
	return w.add(Op{Kind: OpWatchFile, Path: name}, regular, syscall.EISDIR)
}

func (w *watcher) add(op Op, want kind, otherwise error) error {
	return w.p.do(op, func() error {
		if w.closed {
			return fs.ErrClosed
		}
		n, err := w.p.m.find(op.Path)
		if err != nil {
			return err
		}
		if n.kind != want {
			return otherwise
		}
		for _, r := range n.reports {
			if r.w == w {
				r.path = op.Path
				return nil
			}
		}
		n.reports = slices.DeleteFunc(n.reports, func(r *watch) bool { return r.w.closed || r.w.p.killed })
		n.reports = append(n.reports, &watch{w, op.Path})
		return nil
	})
}

// Next is no operation in the sense of Op: it does nothing but wait.
func (w *watcher) Next() (vfs.WatchEvent, error) {
	m := w.p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	for {
		err := m.gone(w.p)
		if err == nil && w.closed {
			err = fs.ErrClosed
		}
		if err != nil {
			return vfs.WatchEvent{}, fmt.Errorf("wait for a report: %w", err)
		}
		if len(w.queue) > 0 {
			e := w.queue[0]
			w.queue = w.queue[1:]
			return e, nil
		}
		w.wake.Wait()
	}
}

func (w *watcher) Close() error {
	m := w.p.m
	m.mu.Lock()
	defer m.mu.Unlock()
	if w.closed {
		return fmt.Errorf("close a watcher: %w", fs.ErrClosed)
	}
	w.closed = true
	w.queue = nil
	delete(w.p.watchers, w)
	w.wake.Broadcast()
	return m.gone(w.p)
}
