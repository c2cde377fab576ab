package filebroker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/vfs"
)

// A handle that waits says so in a slot of the shared page, and who changes
// something for it rings its bell: writes a byte to its bell file, which it
// watches. All of this is hints; a slow poll stands behind them.

// bells is this handle's bell, and what it needs to ring those of others.
type bells struct {
	file vfs.File
	quit chan struct{}
	once sync.Once

	mu    sync.Mutex          // guards what follows
	watch vfs.Watcher         // nil: this system has none, poll
	known map[string]vfs.File // bell files of others
}

// init makes bells that can ring others, and be stopped.
func (l *bells) init() { l.quit, l.known = make(chan struct{}), map[string]vfs.File{} }

// ringing is what a commit has to ring for; guarded by mu.
type ringing struct {
	on    bool // this handle decides; what it replays others rang for
	jobs  []claimable
	await uint64 // awaitBits: a job ended, or is to be cancelled; a setting changed
}

// claimable counts jobs that a commit made claimable and nobody here waits for.
type claimable struct {
	queue, task string
	n           int
}

// changed is told of every change of a job; mu is held.
func (b *handle) changed(c jobstate.Change) {
	woken := b.hub.Changed(c)
	if !b.ring.on {
		return
	}
	switch {
	case c.Setting != nil:
		b.ring.await |= awaitSettings
	case c.Hint:
		if !woken {
			b.ring.add(c.Queue, c.Task)
		}
	case c.ID.IsZero(): // a queue was resumed
		b.ring.jobs = append(b.ring.jobs, claimable{c.Queue, "", 1 << 20})
	case c.State.Final() || c.Asked:
		b.ring.await |= awaitJobs
	case woken || c.State == broker.Leased:
	default:
		b.ring.add(c.Queue, c.Task)
	}
}

func (r *ringing) add(queue, task string) {
	for i := range r.jobs {
		if k := &r.jobs[i]; k.queue == queue && k.task == task {
			k.n++
			return
		}
	}
	r.jobs = append(r.jobs, claimable{queue, task, 1})
}

// take returns and clears what is to be rung for.
func (r *ringing) take() ringing {
	if len(r.jobs) == 0 && r.await == 0 {
		return ringing{}
	}
	taken := *r
	r.jobs, r.await = nil, 0
	return taken
}

// create makes the bell file and watches it, and the directory for the end of
// other handles; LOCK is held. An earlier try may have left the file.
func (l *bells) create(b *handle) (err error) {
	path := b.alivePath(b.member.name + bellSuffix)
	if l.file, err = b.sys.Open(path, os.O_RDWR|os.O_CREATE); err != nil {
		return err
	}
	b.slot(b.member.name, true)
	w, err := b.sys.Watch()
	if errors.Is(err, errors.ErrUnsupported) {
		return nil
	}
	if err == nil {
		err = errors.Join(w.File(path), w.Dir(filepath.Join(b.dir, "alive")))
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}
	if err != nil {
		b.slg.Warn("no notice of changes by other processes: polling", "error", err)
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.quit:
		return w.Close() // nobody will
	default:
		l.watch = w
		return nil
	}
}

// watcher returns what to wait with, nil when there is nothing but to poll.
func (l *bells) watcher() vfs.Watcher {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.watch
}

// run answers the bell until the handle is closed.
func (l *bells) run(b *handle) {
	watch := l.watcher()
	if watch == nil {
		l.poll(b)
		return
	}
	for {
		e, err := watch.Next()
		if err != nil {
			select {
			case <-l.quit:
			default:
				b.slg.Warn("no more notice of changes by other processes: polling", "error", err)
				l.poll(b)
			}
			return
		}
		switch {
		case e.Closed && isMember(e.Name):
			b.background(func() { b.mourn(e.Name) })
		case e.Closed:
		default:
			b.answer()
		}
	}
}

// pollEvery is how often a handle without a watch looks.
const pollEvery = 20 * time.Millisecond

func (l *bells) poll(b *handle) {
	rare.Reached(rare.WatchLost)
	t := time.NewTicker(pollEvery)
	defer t.Stop()
	for {
		select {
		case <-l.quit:
			return
		case <-t.C:
			b.answer()
		}
	}
}

// answer takes in what others wrote. The idle mark is set again before the
// log is read, so that a change in between rings again.
func (b *handle) answer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if s := b.slot(b.member.name, false); s != nil {
		bits := b.idleBits()
		atomic.StoreUint64(&s[slotIdle], bits)
		b.readForwardLocked()
		if bits != 0 && b.hub.Idles() == 0 {
			atomic.StoreUint64(&s[slotIdle], 0)
		}
	} else {
		b.readForwardLocked()
	}
	b.grew()
}

// idleBits says which claims of this handle wait; mu is held.
func (b *handle) idleBits() uint64 {
	if b.hub.Idles() == 0 {
		return 0
	}
	return idleWorkers | idleOthers
}

func (b *handle) report(what string, err error) {
	if err != nil && !errors.Is(err, broker.ErrClosed) {
		b.slg.Warn(what, "error", err)
	}
}

// targets chooses whom to ring for what a commit did; mu is held.
func (b *handle) targets(r ringing) (names []string) {
	words := b.log.Shared()
	idle, waiting := 0, false
	for i := 0; i+slotWords <= len(words); i += slotWords {
		if m := atomic.LoadUint64(&words[i]); m != 0 && m != slotName(b.member.name) {
			if atomic.LoadUint64(&words[i+slotIdle]) != 0 {
				idle++
			}
			if atomic.LoadUint64(&words[i+slotAwait])&r.await != 0 {
				waiting = true
				names = append(names, nameOf(m))
			}
		}
	}
	if idle == 0 && !waiting {
		return names
	}
	for _, k := range r.jobs {
		if b.s == nil {
			names = b.guess(k, names)
		} else {
			names = b.targetsOf(k, names)
		}
	}
	return names
}

// pick adds a handle to names if it is idle, and takes that mark away.
func (b *handle) pick(member string, bits uint64, names *[]string) bool {
	s := b.slot(member, false)
	if s == nil || member == b.member.name || atomic.LoadUint64(&s[slotIdle])&bits == 0 {
		return false
	}
	atomic.StoreUint64(&s[slotIdle], 0)
	if !slices.Contains(*names, member) {
		*names = append(*names, member)
	}
	return true
}

// targetsOf adds at most one idle handle per claimable job: one whose worker
// listens to it, or one whose claims are not a registered worker's.
func (b *handle) targetsOf(k claimable, names []string) []string {
	left := k.n
	ring := func(member string, bits uint64) {
		if b.pick(member, bits, &names) {
			left--
		}
	}
	if k.task == "" { // the whole queue
		for i := 0; i+slotWords <= len(b.log.Shared()); i += slotWords {
			if m := atomic.LoadUint64(&b.log.Shared()[i]); m != 0 {
				ring(nameOf(m), idleWorkers|idleOthers)
			}
		}
		return names
	}
	b.s.Listeners(k.queue, k.task, func(l jobstate.Listener) bool {
		if l.Member != "" {
			ring(l.Member, idleWorkers)
		}
		return left > 0
	})
	words := b.log.Shared()
	for i := 0; i+slotWords <= len(words) && left > 0; i += slotWords {
		if m := atomic.LoadUint64(&words[i]); m != 0 && atomic.LoadUint64(&words[i+slotIdle])&idleOthers != 0 && !b.s.Registered(nameOf(m)) {
			ring(nameOf(m), idleOthers)
		}
	}
	return names
}

// ring rings the bells of handles. Bell files stay open: opening and closing
// one for each ring would look like the end of a handle.
func (l *bells) ring(b *handle, names []string) {
	if len(names) == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		f := l.known[name]
		if f == nil {
			var err error
			if f, err = b.sys.Open(b.alivePath(name+bellSuffix), os.O_RDWR); err != nil {
				rare.Reached(rare.BellGone)
				continue // it has just ended
			}
			l.known[name] = f
		}
		if _, err := f.WriteAt([]byte{1}, 0); err != nil {
			delete(l.known, name)
			b.report("close a bell", f.Close())
		}
	}
	if len(l.known) > 64 {
		for name, f := range l.known {
			delete(l.known, name)
			b.report("close a bell", f.Close())
		}
	}
}

// free gives the slot back; LOCK is held.
func (l *bells) free(b *handle) {
	if s := b.slot(b.member.name, false); s != nil {
		for i := range s {
			atomic.StoreUint64(&s[len(s)-1-i], 0)
		}
	}
}

// stop ends run.
func (l *bells) stop() {
	l.once.Do(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		close(l.quit)
		if l.watch != nil {
			if err := l.watch.Close(); err != nil {
				return // run ends by its next error or never started
			}
		}
	})
}

// close closes every file.
func (l *bells) close() (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, f := range l.known {
		err = errors.Join(err, f.Close())
	}
	clear(l.known)
	if l.file != nil {
		err = errors.Join(err, l.file.Close())
	}
	return err
}
