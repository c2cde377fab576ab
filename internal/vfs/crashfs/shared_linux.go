package crashfs

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// shared is memory that several processes can map, each at its own address, so
// that a killed one can be cut off from the others.
type shared struct{ b []byte }

// newShared returns n bytes of zeros. They are given back when nothing refers
// to the result any more; aliases live on.
func newShared(n int) (*shared, error) {
	p, err := unix.MmapPtr(-1, 0, nil, uintptr(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	s := &shared{b: unsafe.Slice((*byte)(p), n)}
	runtime.AddCleanup(s, freeAlias, s.b)
	return s, nil
}

// alias maps the first n bytes once more.
func (s *shared) alias(n int) ([]byte, error) {
	// An old size of zero asks for a second mapping of the same memory.
	p, err := unix.MremapPtr(unsafe.Pointer(&s.b[0]), 0, nil, uintptr(n), unix.MREMAP_MAYMOVE)
	if err != nil {
		return nil, err
	}
	return unsafe.Slice((*byte)(p), n), nil
}

// cutOff puts a private copy in the place of an alias.
func cutOff(alias []byte) {
	n := uintptr(len(alias))
	p, err := unix.MmapPtr(-1, 0, nil, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		panic(err)
	}
	copy(unsafe.Slice((*byte)(p), n), alias)
	if _, err := unix.MremapPtr(p, n, unsafe.Pointer(&alias[0]), n, unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED); err != nil {
		panic(err)
	}
}

// freeAlias unmaps an alias: to touch it later ends the program.
func freeAlias(alias []byte) {
	if err := unix.MunmapPtr(unsafe.Pointer(&alias[0]), uintptr(len(alias))); err != nil {
		panic(err)
	}
}
