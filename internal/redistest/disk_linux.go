package redistest

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"
)

// Disk is a file system of its own, ext4 on a file, whose power can be cut.
type Disk struct {
	t     testing.TB
	image string
	at    string
}

// NewDisk makes a file system and mounts it. Only root can: others skip the test.
func NewDisk(t testing.TB) *Disk {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system")
	}
	dir := t.TempDir()
	d := &Disk{t: t, image: filepath.Join(dir, "image"), at: filepath.Join(dir, "disk")}
	if err := os.Mkdir(d.at, 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(d.image)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(256 << 20); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	d.run("mkfs.ext4", "-q", "-F", d.image)
	d.mount()
	t.Cleanup(func() { d.unmount() })
	return d
}

func (d *Disk) run(name string, args ...string) {
	d.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		d.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// mount lets nothing be written that nobody asks for: within a test's time the
// system does not write by itself.
func (d *Disk) mount() {
	d.t.Helper()
	d.run("mount", "-o", "loop,commit=1000", d.image, d.at)
}

func (d *Disk) unmount() {
	d.t.Helper()
	d.run("umount", d.at)
}

// Dir is a folder on the disk.
func (d *Disk) Dir() string { return d.at }

// Cut ends all writing: what was not synced by now will not be there. Who wrote
// is to be killed, and then Repower brings back the rest.
func (d *Disk) Cut() {
	d.t.Helper()
	at, err := os.Open(d.at)
	if err != nil {
		d.t.Fatal(err)
	}
	const shutdown, withoutFlush = 0x8004587d, 2
	flag := uint32(withoutFlush)
	_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, at.Fd(), shutdown, uintptr(unsafe.Pointer(&flag)))
	if err := at.Close(); err != nil {
		d.t.Fatal(err)
	}
	if errno != 0 {
		d.t.Fatal(errno)
	}
}

// Repower mounts the disk anew.
func (d *Disk) Repower() {
	d.t.Helper()
	d.unmount()
	d.mount()
}
