package vfs

import (
	"encoding/binary"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// watcher is an inotify instance. Its descriptor does not block, so Next waits
// in the runtime's poller and holds no thread.
type watcher struct {
	f    *os.File
	conn syscall.RawConn

	mu    sync.Mutex
	paths map[int32]watched // by watch descriptor

	next  sync.Mutex // held by the one in Next
	buf   [4096]byte
	ready []WatchEvent
}

type watched struct {
	path string
	dir  bool
}

func (h *host) Watch() (Watcher, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, os.NewSyscallError("inotify_init1", err)
	}
	f := os.NewFile(uintptr(fd), "inotify")
	conn, err := f.SyscallConn()
	if err != nil {
		return nil, closeAfter(f, err)
	}
	return &watcher{f: f, conn: conn, paths: make(map[int32]watched)}, nil
}

func (w *watcher) Dir(name string) error {
	return w.add(watched{name, true}, unix.IN_CLOSE_WRITE|unix.IN_ONLYDIR)
}

func (w *watcher) File(name string) error {
	return w.add(watched{name, false}, unix.IN_MODIFY|unix.IN_DONT_FOLLOW)
}

func (w *watcher) add(what watched, mask uint32) error {
	w.mu.Lock() // until paths knows it, so that Next does not meet an unknown one
	defer w.mu.Unlock()
	var wd int
	var err error
	if e := w.conn.Control(func(fd uintptr) {
		wd, err = unix.InotifyAddWatch(int(fd), what.path, mask)
	}); e != nil {
		err = fs.ErrClosed // the only thing that can be wrong here
	}
	if err != nil {
		return pathError("watch", what.path, err)
	}
	w.paths[int32(wd)] = what
	return nil
}

func (w *watcher) Next() (WatchEvent, error) {
	w.next.Lock()
	defer w.next.Unlock()
	for len(w.ready) == 0 {
		n, err := w.f.Read(w.buf[:])
		if err != nil {
			return WatchEvent{}, err
		}
		if err := w.parse(w.buf[:n]); err != nil {
			return WatchEvent{}, err
		}
	}
	e := w.ready[0]
	w.ready = w.ready[1:]
	return e, nil
}

// parse appends what the kernel reported to ready. A report is a watch
// descriptor, a mask, a cookie, the name's length and the name, padded by zeros.
func (w *watcher) parse(b []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ready = w.ready[:0]
	for len(b) > 0 {
		if len(b) < unix.SizeofInotifyEvent {
			return fmt.Errorf("read inotify: half a report of %d bytes", len(b))
		}
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		end := unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
		if len(b) < end {
			return fmt.Errorf("read inotify: report of %d bytes in %d", end, len(b))
		}
		name := strings.TrimRight(string(b[unix.SizeofInotifyEvent:end]), "\x00")
		b = b[end:]
		what, known := w.paths[wd]
		switch {
		case mask&unix.IN_Q_OVERFLOW != 0:
			w.ready = append(w.ready, WatchEvent{})
		case mask&unix.IN_IGNORED != 0: // what was watched is gone
			delete(w.paths, wd)
			w.ready = append(w.ready, WatchEvent{})
		case !known:
		case what.dir:
			w.ready = append(w.ready, WatchEvent{Dir: what.path, Name: name, Closed: true})
		default:
			w.ready = append(w.ready, WatchEvent{Name: what.path})
		}
	}
	return nil
}

func (w *watcher) Close() error { return w.f.Close() }
