package journal

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// Options say which log to open.
type Options struct {
	Sys vfs.System // required
	Dir string     // required; made when it is missing, its parent must exist
	// AllowUnsafeFS passes over the kind of file system.
	AllowUnsafeFS bool
	// Report is told what was repaired or removed, as slog would be. Nil drops it.
	Report func(what string, args ...any)
	// Counters is called under LOCK when a segment is sealed; the bytes are
	// kept in its end record. Nil keeps none, and so does a nil answer.
	Counters func() []byte
	// FirstSegmentBytes is the smallest size of a segment; while the log grows
	// fast they get larger, up to 16 times. Zero is 1 MiB. For tests.
	FirstSegmentBytes int64
}

// Log is a handle on the log. Reading (Start, Read, CatchUp, Recover) and
// writing (Reserve, Body, Append, Seal) share one position and belong to one
// goroutine at a time. Everything else is safe for concurrent use.
type Log struct {
	o       Options
	sys     vfs.System
	dir     string
	pid     int
	seed    uint32
	store   [16]byte
	control *control
	files   fileCache

	lock, next, compactLock, prepLock vfs.File

	mu      sync.Mutex // with LOCK: one goroutine of this handle
	held    atomic.Bool
	prepMu  sync.Mutex // with PREP
	compMu  sync.Mutex // with COMPACT
	compact atomic.Bool
	closed  atomic.Bool
	checked time.Duration // when LOCK was last compared with its name; under mu
	turn    atomic.Uint64 // CONTROL's count of turns, for the one this handle has or had

	curMu sync.Mutex
	cur   Current

	// The read position, of the goroutine that reads and writes.
	at       chain
	win      window
	frame    Frame
	pos      atomic.Uint64 // at.pos, packed, for everyone
	caught   bool          // the position was at the true end in turn sawTurn
	sawTurn  uint64        // the last turn in which this handle caught up
	ready    uint64        // the turn in which it may write; 0: none
	out      []byte        // header space and body of the next frame
	rollSize int           // size of the last counters, for when to roll
	aheadOf  uint64        // segment whose successors were opened
	nearEnd  uint64        // segment that was found nearly full
	limitOf  uint64        // segment whose prepared size is limitIs
	limitIs  int64
	roomOf   uint64 // segment whose size is room
	room     int64  // what it had at least when last looked at
	refused  error  // what the caller's function said to a frame

	began    atomic.Uint64 // the last segment that this handle began
	durable  atomic.Uint64 // packed; own syncs
	syncs    atomic.Uint32 // how often this handle was to sync
	poisoned atomic.Pointer[poison]
	broken   atomic.Bool // this handle itself was told of a failure
	prepare  chan struct{}
	lent     bool         // this handle holds PREP for a compaction, see Lend; under COMPACT
	lastAsk  atomic.Int64 // when PrepareWanted last fired for a full disk
}

// chain is what the next frame has to continue.
type chain struct {
	pos    Pos    // where it begins
	end    Pos    // where the last frame ends, in its own segment
	last   Pos    // where the last frame begins
	seq    uint64 // of the last frame
	sum    uint32 // header checksum of the last frame
	size   int64  // of the last frame
	synced Pos    // the largest SyncedUpTo seen
	flags  uint16 // of the last frame
	epoch  uint32 // of the last frame
	loose  bool   // nothing is known of the last frame: accept any head
}

func (l *Log) report(what string, args ...any) {
	if l.o.Report != nil {
		l.o.Report(what, args...)
	}
}

// lose forgets that the position is the end of the log.
func (l *Log) lose() { l.caught, l.ready = false, 0 }

// own notes that the position is the end of the log, in this turn.
func (l *Log) own() {
	l.caught, l.sawTurn = true, l.turn.Load()
	l.ready = l.sawTurn
}

func (l *Log) setPos(c chain) {
	l.at = c
	l.pos.Store(pack(c.pos))
}

// Pos is the read position.
func (l *Log) Pos() Pos {
	p, _ := unpack(l.pos.Load()) // always one that was packed
	return p
}

// Began is the last segment that this handle itself began, 0 for none.
func (l *Log) Began() uint64 { return l.began.Load() }

// Current is what CURRENT said when this handle last looked. Its Payload
// belongs to the log.
func (l *Log) Current() Current {
	l.curMu.Lock()
	defer l.curMu.Unlock()
	return l.cur
}

// GenerationChanged reports whether somebody flipped CURRENT since this handle
// last looked. It costs an atomic load.
func (l *Log) GenerationChanged() bool {
	return l.control.load(ctlGeneration) > l.Current().Generation
}

// Refresh rereads CURRENT, and lets go of files when it is another one. A handle
// whose position is before the start of segment Checkpoint+1 has to Start
// again; another may go on.
func (l *Log) Refresh() (Current, error) {
	hint := l.control.load(ctlGeneration)
	c, err := readCurrent(l.sys, l.dir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w: CURRENT is missing", ErrNotStore)
	}
	if err == nil && c.StoreID != l.store {
		err = fmt.Errorf("%w: CURRENT names another store", ErrNotStore)
	}
	if err != nil {
		return Current{}, err
	}
	l.curMu.Lock()
	changed := c.Generation != l.cur.Generation
	l.cur = c
	l.curMu.Unlock()
	if hint > c.Generation && l.control.swap(ctlGeneration, hint, c.Generation) && l.moved(c) {
		return l.Refresh() // the hint was garbage, and a Flip did not get through to it
	}
	if !changed {
		return c, nil
	}
	rare.Reached(rare.CurrentReadAgain)
	l.LetGo()
	return c, nil
}

// LetGo closes the files that are gone: until then they take their room on the
// disk. Safe for concurrent use.
func (l *Log) LetGo() {
	l.files.drop(func(id FileID) bool {
		_, err := l.sys.Stat(join(l.dir, id.Name()))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// Start says what to load first: the number of the checkpoint that CURRENT
// names (0: none) and a function that hands its verified content to fn. It
// rereads CURRENT and puts the read position at the start of the segment after
// the checkpoint.
func (l *Log) Start() (uint64, func(fn func(io.Reader) error) error, error) {
	for {
		c, err := l.Refresh()
		if err != nil {
			return 0, nil, err
		}
		at := chain{pos: Pos{Segment: c.First}, loose: c.First != 1}
		read := func(fn func(io.Reader) error) error { return nil }
		if c.Checkpoint > 0 {
			ck, err := openCheckpoint(l.sys, l.dir, c.StoreID, c.Checkpoint)
			if errors.Is(err, fs.ErrNotExist) && l.moved(c) {
				continue // flipped between the two looks
			}
			if errors.Is(err, fs.ErrNotExist) {
				rare.Reached(rare.CheckpointMissing)
				err = &CorruptError{File: checkpointName(c.Checkpoint), What: "the checkpoint is missing"}
			}
			if err != nil {
				return 0, nil, err
			}
			at = ck.chain()
			read = ck.read
		}
		l.setPos(at)
		l.win.reset()
		l.lose()
		return c.Checkpoint, read, nil
	}
}

// moved reports whether CURRENT is another one than c by now.
func (l *Log) moved(c Current) bool {
	now, err := readCurrent(l.sys, l.dir)
	return err == nil && now.Generation != c.Generation
}

// Full reports whether the reserve is missing: no Enqueue until it is back.
func (l *Log) Full() bool { return l.control.load(ctlFull) == flagSet }

// Shared is the caller's half of CONTROL: 256 words that all handles share,
// to be read and written with sync/atomic. They are hints, and zeros again
// whenever CONTROL is rebuilt. Valid until Close.
func (l *Log) Shared() []uint64 { return l.control.words.Load()[sharedWord:] }

// LoadBytes is about how much has to be read to load what the published log
// holds: the checkpoint, and the log after it. Right after Start.
func (l *Log) LoadBytes() (int64, error) {
	n := l.Behind()
	if k := l.Current().Checkpoint; k > 0 {
		info, err := l.sys.Stat(join(l.dir, checkpointName(k)))
		if err != nil {
			return 0, fmt.Errorf("size of checkpoint %d: %w", k, err)
		}
		n += info.Size
	}
	return n, nil
}

// Close closes the handle; LOCK, COMPACT and PREP must not be held. It syncs
// nothing. Nothing read from Frames or Shared may be used after it.
func (l *Log) Close() error {
	if l.closed.Swap(true) {
		return nil
	}
	return errors.Join(l.files.close(), l.control.close(), l.closeLocks())
}

func (l *Log) closeLocks() error {
	var errs []error
	for _, f := range []vfs.File{l.lock, l.next, l.compactLock, l.prepLock} {
		if f != nil {
			errs = append(errs, f.Close())
		}
	}
	return errors.Join(errs...)
}
