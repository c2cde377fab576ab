//go:build linux

package vfs

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestHotPathsDoNotAllocate(t *testing.T) {
	name := filepath.Join(t.TempDir(), "f")
	f, err := OS().Open(name, os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	buf := make([]byte, 512)
	calls := func() {
		_, err1 := f.WriteAt(buf, 0)
		_, err2 := f.ReadAt(buf, 0)
		_, err3 := f.Size()
		for _, err := range []error{err1, err2, err3, f.Lock(), f.Unlock()} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	if n := testing.AllocsPerRun(100, calls); n != 0 {
		t.Errorf("a write, read, size, lock and unlock allocate %v times", n)
	}
	clock := OS()
	if n := testing.AllocsPerRun(100, func() { clock.Monotonic() }); n != 0 {
		t.Errorf("Monotonic allocates %v times", n)
	}
}

func TestStepWallStepsTheWallClockAlone(t *testing.T) {
	before, mono := OS().Wall(), OS().Monotonic()
	StepWall(-time.Hour)
	defer StepWall(time.Hour)
	if took := OS().Monotonic() - mono; took < 0 || took > time.Minute {
		t.Errorf("the steady clock went on by %v", took)
	}
	if took := OS().Wall().Sub(before); took < -time.Hour || took > -time.Hour+time.Minute {
		t.Errorf("the wall clock went on by %v, want an hour back", took)
	}
}

func TestFilesArePrivate(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "d")
	if err := OS().Mkdir(dir); err != nil {
		t.Fatal(err)
	}
	f, err := OS().Open(filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for name, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "f"): 0o600} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, error %v; want %v", name, info.Mode(), err, want)
		}
	}
	flags, err := unix.FcntlInt(uintptr(f.(*file).fd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("children inherit the file: flags %#x, error %v", flags, err)
	}
}

func TestAPipeIsRefused(t *testing.T) {
	name := filepath.Join(t.TempDir(), "pipe")
	if err := unix.Mkfifo(name, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []int{os.O_RDONLY, os.O_RDWR} { // neither may wait for the other end
		if f, err := OS().Open(name, flag); err == nil {
			t.Errorf("opened a pipe: %v", f.Close())
		}
	}
	if info, err := OS().Stat(name); err != nil || info.Regular || info.Dir {
		t.Errorf("stat says %+v, error %v", info, err)
	}
}

func TestCheckDir(t *testing.T) {
	for _, c := range []struct {
		name  string
		setup func(dir string) error
		want  string // in the error; "" for none
		isErr error
	}{
		{"passes a private directory", func(string) error { return nil }, "", nil},
		{"passes one that others may read", func(dir string) error { return os.Chmod(dir, 0o755) }, "", nil},
		{"refuses one that the group may write", func(dir string) error { return os.Chmod(dir, 0o770) }, "chmod go-w", os.ErrPermission},
		{"refuses one that all may write", func(dir string) error { return os.Chmod(dir, 0o1777) }, "chmod go-w", os.ErrPermission},
		{"refuses one of another user", func(dir string) error { return os.Chown(dir, 65534, -1) }, "belongs to user 65534", os.ErrPermission},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := c.setup(dir); os.IsPermission(err) {
				t.Skip("only root can set this up")
			} else if err != nil {
				t.Fatal(err)
			}
			err := OS().CheckDir(dir, true)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir) {
				t.Errorf("got %v, want the directory and %q", err, c.want)
			}
			if !os.IsPermission(unwrapAll(err)) {
				t.Errorf("%v is not %v", err, c.isErr)
			}
		})
	}
}

// unwrapAll returns the innermost error.
func unwrapAll(err error) error {
	for {
		u, ok := err.(interface{ Unwrap() error })
		if !ok {
			return err
		}
		err = u.Unwrap()
	}
}

func TestCheckDirOfMountedFileSystems(t *testing.T) {
	for _, c := range []struct {
		kind  string
		magic int64
	}{
		{"NFS", 0x6969}, {"SMB", 0xfe534d42}, {"SMB", 0x517b}, {"CIFS", 0xff534d42}, {"9p", 0x01021997},
		{"FUSE", 0x65735546}, {"overlay", 0x794c7630}, {"Ceph", 0x00c36400}, {"AFS", 0x5346414f},
		{"", 0xef53}, {"", 0x58465342}, {"", 0x01021994}, // ext4, XFS, tmpfs
	} {
		st := unix.Statfs_t{Type: c.magic}
		err := judgeMount("/store", &st, false)
		if refused := err != nil; refused != (c.kind != "") {
			t.Errorf("magic %#x: %v", c.magic, err)
		} else if refused && (!errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), c.kind) || !strings.Contains(err.Error(), "/store")) {
			t.Errorf("the error is not ErrUnsupported, or does not name %s on /store: %v", c.kind, err)
		}
		if err := judgeMount("/store", &st, true); err != nil {
			t.Errorf("magic %#x when allowed: %v", c.magic, err)
		}
		st.Flags = unix.ST_RDONLY
		if err := judgeMount("/store", &st, true); unwrapAll(err) != syscall.EROFS {
			t.Errorf("magic %#x when read-only: %v", c.magic, err)
		}
	}
}

func TestParseOffset(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       time.Duration
	}{
		{"no offset", "monotonic           0         0\nboottime            0         0\n", 0},
		{"seconds and nanoseconds", "monotonic 100 5\nboottime 7 0\n", 100*time.Second + 5},
		{"a negative offset", "monotonic -3 999999999\n", -2*time.Second - 1},
		{"only the other clock", "boottime 7 0\n", 0},
		{"something else", "monotonic a b\n", 0},
		{"nothing", "", 0},
	} {
		if got := parseOffset(c.text); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

// A descriptor's number is given to the next file at once. A read that was let
// in before the close must not land there.
func TestAReadNeverMeetsAnotherFileUnderTheSameNumber(t *testing.T) {
	dir := t.TempDir()
	for _, base := range []string{"a", "b"} {
		if err := os.WriteFile(filepath.Join(dir, base), []byte(base), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for range 300 {
		a, err := OS().Open(filepath.Join(dir, "a"), os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		var readers sync.WaitGroup
		for range 3 {
			readers.Go(func() {
				var b [1]byte
				for {
					if _, err := a.ReadAt(b[:], 0); err != nil {
						return // closed
					}
					if b[0] != 'a' {
						t.Errorf("read %q of another file", b)
						return
					}
				}
			})
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		b, err := OS().Open(filepath.Join(dir, "b"), os.O_RDONLY)
		if err != nil {
			t.Fatal(err)
		}
		readers.Wait()
		if err := b.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestDescriptorsAreGivenBack(t *testing.T) {
	count := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	dir := t.TempDir()
	use := func() {
		f, err := OS().Open(filepath.Join(dir, "f"), os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := OS().Open(dir, os.O_RDONLY); err == nil {
			t.Fatal("opened a directory")
		}
		closeWhileWaiting(t, filepath.Join(dir, "lock"))
		w, err := OS().Watch()
		if err != nil {
			t.Fatal(err)
		}
		a, err := OS().Alarm()
		if err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{a.Set(OS().Monotonic() + time.Hour), a.Close(), f.Truncate(4096), OS().SyncDir(dir), w.Dir(dir), w.Close(), f.Close()} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	use()
	before := count()
	for range 50 {
		use()
	}
	if after := count(); after > before {
		t.Errorf("%d descriptors became %d", before, after)
	}
}

// closeWhileWaiting closes a file while a goroutine waits for its lock.
func closeWhileWaiting(t *testing.T, name string) {
	t.Helper()
	var files [2]File
	for i := range files {
		f, err := OS().Open(name, os.O_RDWR|os.O_CREATE)
		if err != nil {
			t.Fatal(err)
		}
		files[i] = f
	}
	if err := files[0].Lock(); err != nil {
		t.Fatal(err)
	}
	var waiter sync.WaitGroup
	waiter.Go(func() {
		if err := files[1].Lock(); err == nil {
			t.Error("locked a closed file")
		}
	})
	for files[1].(*file).users.Load() == 0 {
		runtime.Gosched() // until the other waits
	}
	for _, f := range []File{files[1], files[0]} {
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	waiter.Wait()
}
