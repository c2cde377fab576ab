//go:build linux && (amd64 || arm64)

package disktest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A process hands each of its system calls that touch files to the test before
// the kernel carries it out (seccomp's user notification), and the test says
// what becomes of it. So calls are counted over all threads in the order in
// which they come; strace counts each thread, and each kind of call, by itself.

// watched are the system calls about files, by number.
var watched = map[int]sysKind{
	unix.SYS_OPENAT:            {"openat", byPath},
	unix.SYS_MKDIRAT:           {"mkdirat", byPath},
	unix.SYS_UNLINKAT:          {"unlinkat", byPath},
	unix.SYS_RENAMEAT:          {"renameat", byPath},
	unix.SYS_NEWFSTATAT:        {"fstatat", byPath},
	unix.SYS_FACCESSAT2:        {"faccessat", byPath},
	unix.SYS_STATFS:            {"statfs", byFirstPath},
	unix.SYS_INOTIFY_ADD_WATCH: {"inotify_add_watch", byPath},
	unix.SYS_INOTIFY_INIT1:     {"inotify_init", byNothing},
	unix.SYS_PREAD64:           {"pread", byFile},
	unix.SYS_PWRITE64:          {"pwrite", byFile},
	unix.SYS_FSYNC:             {"fsync", byFile},
	unix.SYS_FDATASYNC:         {"fdatasync", byFile},
	unix.SYS_FTRUNCATE:         {"ftruncate", byFile},
	unix.SYS_FALLOCATE:         {"fallocate", byFile},
	unix.SYS_FADVISE64:         {"fadvise", byFile},
	unix.SYS_FSTAT:             {"fstat", byFile},
	unix.SYS_GETDENTS64:        {"getdents", byFile},
	unix.SYS_FLOCK:             {"flock", byFile},
	unix.SYS_CLOSE:             {"close", byFile},
	unix.SYS_MMAP:              {"mmap", byFifth},
}

// sysKind is a kind of system call, and which argument says what it is about.
type sysKind struct {
	name  string
	about int
}

const (
	byNothing   = iota
	byFile      // the first argument is a descriptor
	byFifth     // the fifth is
	byPath      // the second is a path
	byFirstPath // the first is
)

// call is a system call that a process is about to make.
type call struct {
	name string
	path string // of the file or directory that it is about
	args [6]uint64
}

func (c call) String() string { return c.name + " " + c.path }

// verdict is what becomes of a call. The zero one is: it is made.
type verdict struct {
	kill  bool
	errno syscall.Errno
	short int // of a read or write: so many bytes are, 0: all
}

const seccompFails = "seccomp's user notification (Linux 5.19 or newer)"

// The kernel's structures.
type (
	seccompData struct {
		nr   int32
		arch uint32
		ip   uint64
		args [6]uint64
	}
	notification struct {
		id    uint64
		pid   uint32
		flags uint32
		data  seccompData
	}
	response struct {
		id    uint64
		val   int64
		err   int32
		flags uint32
	}
)

const (
	notifRecv = 0xc0502100
	notifSend = 0xc0182101
	listener  = 3 // the descriptor through which a process hands out its own
)

// hand makes this process hand its system calls about files to whoever reads the
// other end of its descriptor 3.
func hand() error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("no new privileges: %w", err)
	}
	code := filter()
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	const flags = unix.SECCOMP_FILTER_FLAG_NEW_LISTENER | unix.SECCOMP_FILTER_FLAG_TSYNC | unix.SECCOMP_FILTER_FLAG_TSYNC_ESRCH |
		unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV // a signal of Go's does not make a call twice
	fd, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, flags, uintptr(unsafe.Pointer(&prog)))
	if errno != 0 {
		return fmt.Errorf("%s: %w", seccompFails, errno)
	}
	if err := unix.Sendmsg(listener, []byte{0}, unix.UnixRights(int(fd)), nil, 0); err != nil {
		return err
	}
	return unix.Close(int(fd)) // once the test is gone, no call waits for it
}

// filter is the program that picks the watched calls.
func filter() []unix.SockFilter {
	const (
		load, equal, answer = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, unix.BPF_RET | unix.BPF_K
		fifth               = 16 + 4*8 // where the low half of that argument lies
	)
	code := []unix.SockFilter{{Code: load}}
	for nr := range watched {
		code = append(code, unix.SockFilter{Code: equal, K: uint32(nr), Jf: 1}, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_USER_NOTIF})
		if nr == unix.SYS_MMAP { // of memory alone: there is no file
			code[len(code)-2].Jf = 4
			code = append(code[:len(code)-1], unix.SockFilter{Code: load, K: fifth},
				unix.SockFilter{Code: equal, K: 0xffffffff, Jf: 1}, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW},
				unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_USER_NOTIF})
		}
	}
	return append(code, unix.SockFilter{Code: answer, K: unix.SECCOMP_RET_ALLOW})
}

// supervised starts a process whose system calls about files below root are
// judged, one after the other. done is closed when it makes no more.
func supervised(t testing.TB, p plan, root string, judge func(call) verdict) (q *process, done <-chan error) {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	theirs := os.NewFile(uintptr(pair[1]), "socket")
	q = start(t, p, func(cmd *exec.Cmd) { cmd.ExtraFiles = []*os.File{theirs} })
	must(t, theirs.Close())
	ch := make(chan error, 1)
	go func() {
		defer unix.Close(pair[0])
		fd, err := receive(pair[0])
		if err == nil {
			s := supervisor{fd: fd, root: root, judge: judge}
			err = errors.Join(s.run(), unix.Close(fd))
		}
		ch <- err
	}()
	return q, ch
}

// receive waits for the descriptor that a process hands out.
func receive(socket int) (int, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	_, n, _, _, err := unix.Recvmsg(socket, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
	if err != nil {
		return 0, err
	}
	list, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(list) == 0 {
		return 0, fmt.Errorf("the process handed out no calls: %w", errors.Join(err, os.ErrNotExist))
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil {
		return 0, err
	}
	return fds[0], nil
}

// supervisor answers for the kernel.
type supervisor struct {
	fd    int
	root  string
	judge func(call) verdict
}

// run ends when the process has.
func (s *supervisor) run() error {
	for {
		ready := []unix.PollFd{{Fd: int32(s.fd), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && err != unix.EINTR {
			return err
		}
		if ready[0].Revents&unix.POLLIN == 0 {
			if ready[0].Revents != 0 {
				return nil
			}
			continue
		}
		var n notification
		switch err := ioctl(s.fd, notifRecv, unsafe.Pointer(&n)); {
		case err == unix.ENOENT || err == unix.EINTR: // whoever asked is gone
			continue
		case err != nil:
			return err
		}
		if err := s.answer(&n); err != nil && err != unix.ENOENT {
			return err
		}
	}
}

// answer judges one call.
func (s *supervisor) answer(n *notification) error {
	r := response{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE}
	if c := s.describe(n); strings.HasPrefix(c.path, s.root) {
		v := s.judge(c)
		switch {
		case v.kill:
			return unix.Kill(int(n.pid), unix.SIGKILL)
		case v.errno != 0:
			r.flags, r.err = 0, -int32(v.errno)
		case v.short > 0:
			if err := s.inPart(n, &r, v.short); err != nil {
				return err
			}
		}
	}
	return ioctl(s.fd, notifSend, unsafe.Pointer(&r))
}

// describe says what a call is about.
func (s *supervisor) describe(n *notification) call {
	kind := watched[int(n.data.nr)]
	c := call{name: kind.name, args: n.data.args}
	switch kind.about {
	case byNothing:
		c.path = s.root
	case byFile:
		c.path = fileOf(n.pid, c.args[0])
	case byFifth:
		c.path = fileOf(n.pid, c.args[4])
	case byPath:
		c.path = textAt(n.pid, c.args[1])
	case byFirstPath:
		c.path = textAt(n.pid, c.args[0])
	}
	return c
}

// fileOf is the path of a process's descriptor, "" if it has none.
func fileOf(pid uint32, fd uint64) string {
	path, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/%d", pid, int32(fd)))
	if err != nil {
		return ""
	}
	return path
}

// textAt is the text that ends with a zero byte in a process's memory.
func textAt(pid uint32, at uint64) string {
	buf := make([]byte, 512)
	for len(buf) > 0 { // it may end at the end of what is mapped
		n, err := readMemory(pid, at, buf)
		if end := bytes.IndexByte(buf[:max(n, 0)], 0); err == nil && end >= 0 {
			return string(buf[:end])
		}
		buf = buf[:len(buf)/2]
	}
	return ""
}

func readMemory(pid uint32, at uint64, buf []byte) (int, error) {
	local := []unix.Iovec{{Base: &buf[0]}}
	local[0].SetLen(len(buf))
	return unix.ProcessVMReadv(int(pid), local, []unix.RemoteIovec{{Base: uintptr(at), Len: len(buf)}}, 0)
}

// inPart makes the first bytes of a write itself, for the process, and answers
// that no more were written.
func (s *supervisor) inPart(n *notification, r *response, bytes int) error {
	buf := make([]byte, min(uint64(bytes), n.data.args[2]))
	got, err := readMemory(n.pid, n.data.args[1], buf)
	if err != nil {
		return err
	}
	fd, err := unix.Open(fmt.Sprintf("/proc/%d/fd/%d", n.pid, int32(n.data.args[0])), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	wrote, err := unix.Pwrite(fd, buf[:got], int64(n.data.args[3]))
	if err != nil {
		return err
	}
	r.flags, r.val = 0, int64(wrote)
	return nil
}

func ioctl(fd int, request uintptr, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// runProbe hands out its calls, and makes one.
func runProbe(p plan) error {
	if err := hand(); err != nil {
		return err
	}
	_, err := os.Lstat(p.Store)
	return err
}

// canSupervise skips the test where system calls cannot be handed out, or looked at.
func canSupervise(t testing.TB) {
	t.Helper()
	dir, seen := t.TempDir(), 0
	q, done := supervised(t, plan{Role: asProbe, Store: dir}, dir, func(call) verdict { seen++; return verdict{} })
	<-q.ended
	err := <-done
	switch said := q.stderr.String(); {
	case strings.Contains(said, seccompFails):
		t.Skipf("this kernel, or who confines this process, hands out no system calls: %s", said)
	case q.err == nil && err == nil && seen == 0:
		t.Skip("the memory of another process cannot be read here, so that its system calls cannot be told apart")
	case q.err != nil || err != nil:
		t.Fatalf("%v, %v: %s", q.err, err, said)
	}
}
