package vfs

import (
	"os"
	"path/filepath"
	"testing"
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
		if _, err := f.WriteAt(buf, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(buf, 0); err != nil {
			t.Fatal(err)
		}
		if err := f.Lock(); err != nil {
			t.Fatal(err)
		}
		if err := f.Unlock(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Size(); err != nil {
			t.Fatal(err)
		}
	}
	if n := testing.AllocsPerRun(100, calls); n != 0 {
		t.Errorf("a write, read, lock, unlock and size allocate %v times", n)
	}
}
