package filebroker

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs"
)

// SyncMode says what an acknowledged call has waited for.
type SyncMode int

// The sync modes. They decide when this handle answers, not what others do.
const (
	// SyncAlways answers when the data is on the disk: nothing acknowledged is
	// lost to a crash of the process or a power cut. The default.
	SyncAlways SyncMode = iota
	// SyncInterval answers when the operating system has the data, and syncs
	// every Config.SyncEvery: a crash of the process loses nothing, a power
	// cut up to that much of what was acknowledged.
	SyncInterval
	// SyncNever leaves syncing to the operating system: a crash of the process
	// loses nothing, a power cut whatever the system had not written.
	SyncNever
)

// Config is the configuration of Open. The zero value works and is durable.
type Config struct {
	Sync      SyncMode
	SyncEvery time.Duration // for SyncInterval; 0 means 100 ms
	// AllowUnsafeFS opens a store on a file system whose locks or syncs may
	// not be what they claim: network, FUSE, overlay.
	AllowUnsafeFS bool
	// RememberCalls makes this client remember the calls that it makes, by their
	// ids and with their answers, in the commit of what they change: whoever makes
	// one again within 2 minutes (Caps.Retry) through a client with this option, in
	// whichever process, gets the first answer, and nothing changes. It is for a
	// server in front of the store, whose own clients make a call again when its
	// reply was lost, though the server was killed meanwhile. The memory is as
	// durable as the call itself. A call that was refused, or changed nothing, is
	// judged anew, as if it had not come before; one without an id always is.
	//
	// A client with this option loads the state for its first enqueue. Each call
	// takes some 40 bytes of the log, and for 130 seconds about 56 bytes of memory
	// in every process that has loaded the state, for one job, and 16 more for each
	// further one. 20,000 calls a second are 2.6 million that are remembered: 150 MB
	// of memory, and 100 MB of each checkpoint. A program that is older than this
	// option refuses a store with such calls in its log or its checkpoint; a
	// compaction puts that right once they are forgotten.
	RememberCalls bool
	// Logger is told of what an operator should know: a torn tail was cut, a
	// process holds the lock for long. nil means slog.Default.
	Logger *slog.Logger

	sys     vfs.System // nil: the real one
	segment int64      // bytes of the first segment; 0: the journal's default
	small   int64      // see smallStore
}

// On returns the configuration for another system than the real one. Package vfs
// is internal: only the tests of this module can call it.
func (c Config) On(sys vfs.System) Config {
	c.sys = sys
	return c
}

// Broker is a client of a store in a directory. It is safe for concurrent use.
// Two of them on one directory, in one process or several, are two clients.
//
// When a write or a sync of the store fails, nobody writes any more: every call
// that would gets ErrPoisoned, and reads go on. Each client then gives up its
// leases and its life sign, and joins again; who is alone first recovers the
// store, from what is really on the disk. When that worked, calls work again.
type Broker struct {
	cfg   Config
	dir   string
	stats Stats
	cur   atomic.Pointer[handle]

	mu      sync.Mutex // guards what follows
	healing bool
	closed  chan struct{}
	over    bool
	wg      sync.WaitGroup
}

var _ broker.Broker = (*Broker)(nil)

// errNoName keeps an unset variable from making the current directory a store.
var errNoName = fmt.Errorf("%w: the name of the directory is empty: use . for the current one", broker.ErrInvalid)

// Open opens the store in dir, which is made when it is not there. When it
// returns, the store exists durably.
//
// Of a large store it reads only the end. The first call that needs to know the
// jobs (every one but Enqueue, Caps, Served and Close) loads them, and may take
// as long as that: see the package comment. The first Open after a restart of the
// machine, or after a process died writing while nobody else had the store open,
// reads all of it.
//
// Errors: ErrUnsupported when the file system or the format cannot be used,
// ErrCorrupt when the store is damaged below what it had promised to keep, as far
// as Open reads it; what it does not read is refused by the call that loads it.
// ErrPoisoned when a write failed and other processes still hold the store
// open; ErrInvalid when dir holds something else. Nothing is changed by a
// failed Open of a store that exists.
func Open(dir string, cfg Config) (*Broker, error) {
	if cfg.sys == nil {
		cfg.sys = vfs.OS()
	}
	if cfg.SyncEvery <= 0 {
		cfg.SyncEvery = 100 * time.Millisecond
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.small == 0 {
		cfg.small = smallStore
	}
	if dir == "" {
		return nil, errNoName
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", dir, err)
	}
	b := &Broker{cfg: cfg, dir: dir, closed: make(chan struct{})}
	h, err := b.enter()
	if err != nil {
		return nil, err
	}
	b.cur.Store(h)
	return b, nil
}

// Caps implements broker.Broker.
func (b *Broker) Caps() broker.Caps {
	c := broker.Caps{Broker: "file", OneCommit: true, MaxBatch: broker.MaxBatchJobs, MaxBytes: broker.MaxCallBytes, HandleLeases: true}
	if b.cfg.RememberCalls {
		c.Retry = jobstate.CallRetry
	}
	switch b.cfg.Sync {
	case SyncAlways:
		c.Durability = "crash of any process, power cut (synced before the answer)"
	case SyncInterval:
		c.Durability = fmt.Sprintf("crash of any process; a power cut loses up to %v", b.cfg.SyncEvery)
	case SyncNever:
		c.Durability = "crash of any process; not a power cut"
	}
	return c
}

// Close implements broker.Broker. What was acknowledged stays; this client's
// leases expire at once.
func (b *Broker) Close() error {
	b.mu.Lock()
	if b.over {
		b.mu.Unlock()
		return nil
	}
	b.over = true
	close(b.closed)
	b.mu.Unlock()
	b.wg.Wait()
	return b.cur.Load().Close()
}

// public turns the journal's errors into the contract's.
func public(err error) error {
	for _, pair := range [...]struct{ from, to error }{
		{journal.ErrPoisoned, broker.ErrPoisoned}, {journal.ErrCorrupt, broker.ErrCorrupt},
		{journal.ErrDiskFull, broker.ErrFull}, {journal.ErrUnsupported, broker.ErrUnsupported},
		{journal.ErrNotStore, broker.ErrInvalid}, {journal.ErrTooLarge, broker.ErrTooLarge}, {jobstate.ErrRecord, broker.ErrCorrupt},
		{jobstate.ErrNewer, broker.ErrUnsupported},
	} {
		if errors.Is(err, pair.from) && !errors.Is(err, pair.to) {
			return fmt.Errorf("%w: %w", pair.to, err)
		}
	}
	return err
}
