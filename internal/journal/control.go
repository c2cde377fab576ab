package journal

import (
	"encoding/binary"
	"fmt"
	"os"
	"sync/atomic"
	"unsafe"

	"github.com/spoolq/spool/internal/vfs"
)

// CONTROL is 512 words shared by every handle on the machine, read and written
// atomically. All of it is hints: identity words say whether they belong to
// this boot and store, and a holder of LOCK who finds that they do not starts
// the page anew. The first half is this package's, the second the caller's.
const (
	controlSize = 4096
	sharedWord  = controlSize / 8 / 2

	ctlMagic  = 0 // identity: words 0 to 5
	ctlBoot   = 1 // and 2
	ctlStore  = 3 // and 4
	ctlCheck  = 5
	ctlEnd    = 8  // published end of the log
	ctlLast   = 9  // where the last frame begins
	ctlFlight = 10 // where a write is under way, 0 for none
	ctlSeq    = 11 // how often LOCK was taken
	ctlHolder = 12 // pid of the holder of LOCK, 0 for none
	ctlSince  = 13 // when it took it, monotonic nanoseconds
	ctlQueue  = 14 // how many wait for LOCK; too many when one died waiting

	ctlDurable    = 16 // known durable
	ctlSyncer     = 17 // who syncs, see Log.beSyncer; 0 for nobody
	ctlSynced     = 18 // half of the word: how many syncs ended
	ctlAwaiting   = 19 // how many wait for that; too many when one died waiting
	ctlCompactor  = 20 // pid of the holder of COMPACT, 0 for none
	ctlAlive      = 21 // when it last said that it goes on, monotonic nanoseconds
	ctlPoison     = 24 // flagSet: poisoned
	ctlFull       = 25 // flagSet: the reserve is missing
	ctlGeneration = 26 // that of CURRENT
	ctlState      = 27 // bytes that a checkpoint takes, see SetState
	ctlStateCheck = 28
	ctlCover      = 29 // for how many bytes of state RESERVE is large enough; 0: not known
	ctlPeak       = 30 // the most that the state took at the end of a segment that is in no checkpoint
	ctlClock      = 32 // the caller's, see SetClock
	ctlClockCheck = 33
	ctlWhyState   = 34 // whether ctlWhy is there
	ctlWhy        = 64 // why the store is poisoned: text, to word 127; zeros follow it
	ctlWhyEnd     = 128

	controlMagic = 0x314c4f52544e4f43 // "CONTROL1"
	flagSet      = 0x21544553         // a flag is this or not set, so that garbage sets none
	whyBegun     = 1                  // of ctlWhyState: somebody writes it
	whyThere     = 2
)

type control struct {
	file     vfs.File
	words    atomic.Pointer[[controlSize / 8]uint64]
	identity [6]uint64
}

// openControl maps CONTROL, creating it when it is missing or short.
func openControl(sys vfs.System, path string, store [16]byte) (*control, error) {
	f, err := sys.Open(path, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return nil, err
	}
	c := &control{file: f}
	if err := c.mapWords(); err != nil {
		return nil, joinClose(err, f)
	}
	c.identity = controlIdentity(sys, store)
	return c, nil
}

// controlIdentity is the identity words of this boot and store.
func controlIdentity(sys vfs.System, store [16]byte) [6]uint64 {
	boot := sys.BootID()
	le := binary.LittleEndian
	id := [6]uint64{controlMagic, le.Uint64(boot[:]), le.Uint64(boot[8:]), le.Uint64(store[:]), le.Uint64(store[8:]), 0}
	for _, w := range id {
		id[ctlCheck] = (id[ctlCheck] ^ w) * 0x9e3779b97f4a7c15
	}
	return id
}

func (c *control) mapWords() error {
	size, err := c.file.Size()
	if err != nil {
		return err
	}
	if size < controlSize {
		if _, err := c.file.WriteAt(make([]byte, controlSize-size), size); err != nil {
			return err
		}
		if err := c.file.Sync(); err != nil { // for its room: a full disk would have none after a power cut
			return err
		}
	}
	b, err := c.file.Map(controlSize)
	if err != nil {
		return err
	}
	if len(b) < controlSize || uintptr(unsafe.Pointer(&b[0]))%8 != 0 {
		return fmt.Errorf("%w: CONTROL is mapped out of alignment", ErrUnsupported)
	}
	c.words.Store((*[controlSize / 8]uint64)(unsafe.Pointer(&b[0])))
	return nil
}

func (c *control) load(i int) uint64     { return atomic.LoadUint64(&c.words.Load()[i]) }
func (c *control) store(i int, v uint64) { atomic.StoreUint64(&c.words.Load()[i], v) }

// half is a word that processes can wait for.
func (c *control) half(i int) *atomic.Uint32 {
	return (*atomic.Uint32)(unsafe.Pointer(&c.words.Load()[i]))
}

// valid reports whether the page belongs to this boot and store.
func (c *control) valid() bool {
	for i, w := range c.identity {
		if c.load(i) != w {
			return false
		}
	}
	return true
}

// rebuild starts the page anew. LOCK is held. seq must differ from every
// sequence that a handle may remember.
func (c *control) rebuild(seq uint64) {
	for i := range controlSize / 8 {
		c.store(i, 0)
	}
	c.store(ctlSeq, seq)
	for i, w := range c.identity {
		c.store(i, w)
	}
}

// pos reads a packed position; not ok when unknown or not of this boot.
func (c *control) pos(i int) (Pos, bool) {
	if !c.valid() {
		return Pos{}, false
	}
	return unpack(c.load(i))
}

func (c *control) swap(i int, from, to uint64) bool {
	return atomic.CompareAndSwapUint64(&c.words.Load()[i], from, to)
}

// add changes a count, which stays at 0 or more.
func (c *control) add(i int, n int64) {
	for {
		old := c.load(i)
		if c.swap(i, old, uint64(max(int64(old)+n, 0))) {
			return
		}
	}
}

// raise moves a packed position forward, never back.
func (c *control) raise(i int, p Pos) {
	for {
		old := c.load(i)
		if q, ok := unpack(old); ok && !q.Before(p) {
			return
		}
		if c.swap(i, old, pack(p)) {
			return
		}
	}
}

// raiseWord is raise for a plain number.
func (c *control) raiseWord(i int, v uint64) {
	for {
		old := c.load(i)
		if old >= v || c.swap(i, old, v) {
			return
		}
	}
}

// close unmaps the page; who looks later sees what it last said.
func (c *control) close() error {
	last := new([controlSize / 8]uint64)
	for i := range last {
		last[i] = c.load(i)
	}
	c.words.Store(last)
	return c.file.Close()
}
