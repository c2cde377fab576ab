//go:build linux && (amd64 || arm64)

package disktest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// disk is a file system of its own on a file.
type disk struct {
	t       testing.TB
	image   string
	at      string // where it is mounted
	options string
	mounted bool
}

// format is a kind of file system, and how it is made and mounted.
type format struct {
	name    string
	mkfs    []string
	options string
	bytes   int64
}

func ext4(commit int) format {
	return format{
		name: fmt.Sprintf("ext4, commit=%d", commit), mkfs: []string{"mkfs.ext4", "-q", "-F"},
		options: fmt.Sprintf("loop,commit=%d", commit), bytes: 128 << 20,
	}
}

var xfs = format{name: "XFS", mkfs: []string{"mkfs.xfs", "-q", "-f"}, options: "loop", bytes: 320 << 20}

// newDisk makes a file system in a file below dir and mounts it. It skips the test
// where that cannot be done, and leaves nothing behind.
func newDisk(t testing.TB, dir string, f format) *disk {
	t.Helper()
	canMount(t, f.mkfs[0])
	d := &disk{t: t, image: filepath.Join(dir, "image"), at: filepath.Join(t.TempDir(), "disk"), options: f.options}
	must(t, os.Mkdir(d.at, 0o700))
	file, err := os.Create(d.image)
	must(t, err)
	must(t, file.Truncate(f.bytes))
	must(t, file.Close())
	run := exec.Command(f.mkfs[0], append(f.mkfs[1:], d.image)...)
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", run.Args, err, out)
	}
	t.Cleanup(d.unmount)
	if out, err := exec.Command("mount", "-o", d.options, d.image, d.at).CombinedOutput(); err != nil {
		t.Skipf("%s cannot be mounted here: %v: %s", f.name, err, out)
	}
	d.mounted = true
	return d
}

// canMount skips the test without the right to mount, or what makes the file system.
func canMount(t testing.TB, mkfs string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	if _, err := exec.LookPath(mkfs); err != nil {
		t.Skipf("there is no %s (Debian's e2fsprogs and xfsprogs have them)", mkfs)
	}
	probe := t.TempDir()
	if err := syscall.Mount("none", probe, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	must(t, syscall.Unmount(probe, 0))
}

func (d *disk) mount() {
	d.t.Helper()
	if out, err := exec.Command("mount", "-o", d.options, d.image, d.at).CombinedOutput(); err != nil {
		d.t.Fatalf("mount: %v\n%s", err, out)
	}
	d.mounted = true
}

// unmount also detaches the loop device, which was attached by the mount.
func (d *disk) unmount() {
	d.t.Helper()
	if !d.mounted {
		return
	}
	d.mounted = false
	if out, err := exec.Command("umount", d.at).CombinedOutput(); err != nil {
		d.t.Errorf("umount: %v\n%s", err, out)
		_ = syscall.Unmount(d.at, syscall.MNT_DETACH) // so that nothing is left behind
	}
}

// cut ends all writing: what is not on the disk by now never will be.
func (d *disk) cut() {
	d.t.Helper()
	at, err := os.Open(d.at)
	must(d.t, err)
	defer at.Close()
	const shutdown, withoutFlush = 0x8004587d, 2 // the same for ext4 and XFS
	flag := uint32(withoutFlush)
	must(d.t, ioctl(int(at.Fd()), shutdown, unsafe.Pointer(&flag)))
}

// forgetBoot removes from a store what another boot would not believe: this one's has
// the same id.
func forgetBoot(t testing.TB, store string) {
	t.Helper()
	must(t, os.RemoveAll(filepath.Join(store, "CONTROL")))
}

// loops lists the loop devices that lie on files below dir.
func loops(t testing.TB, dir string) (list []string) {
	t.Helper()
	names, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	must(t, err)
	for _, name := range names {
		if text, err := os.ReadFile(name); err == nil && strings.HasPrefix(string(text), dir) {
			list = append(list, filepath.Base(filepath.Dir(filepath.Dir(name))))
		}
	}
	return list
}

// tmpfs mounts a file system in memory of so many bytes.
func tmpfs(t testing.TB, bytes int64) string {
	t.Helper()
	dir := t.TempDir()
	must(t, syscall.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=700", bytes)))
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Errorf("unmount %s: %v", dir, err)
			_ = syscall.Unmount(dir, unix.MNT_DETACH) // so that nothing is left behind
		}
	})
	return dir
}
