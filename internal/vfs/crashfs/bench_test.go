package crashfs_test

import (
	"os"
	"testing"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// An append and its sync, as a journal does it.
func BenchmarkAppendAndSync(b *testing.B) {
	p := crashfs.New(crashfs.Config{}).Process()
	f, err := p.Open("/log", os.O_RDWR|os.O_CREATE)
	if err != nil {
		b.Fatal(err)
	}
	frame := make([]byte, 300)
	frame[0] = 1
	for n := range b.N {
		if _, err := f.WriteAt(frame, int64(n%4000)*300); err != nil {
			b.Fatal(err)
		}
		if err := f.Sync(); err != nil {
			b.Fatal(err)
		}
	}
}

// A machine with 2 MiB of log of which 20 sectors are pending.
func BenchmarkCrash(b *testing.B) {
	m := crashfs.New(crashfs.Config{})
	content := make([]byte, 1<<20)
	for i := range content {
		content[i] = byte(i)
	}
	for _, name := range []string{"/1.log", "/2.log"} {
		if err := m.WriteFile(name, content); err != nil {
			b.Fatal(err)
		}
	}
	f, err := m.Process().Open("/2.log", os.O_RDWR)
	if err != nil {
		b.Fatal(err)
	}
	if _, err := f.WriteAt(make([]byte, 20*512), 300_000); err != nil {
		b.Fatal(err)
	}
	for n := range b.N {
		m.Crash(crashfs.KeepRandom(uint64(n)))
	}
}
