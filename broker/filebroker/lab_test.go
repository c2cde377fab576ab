package filebroker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/jobstate"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

const labDir = "/jobs"

// labSegment is small, so that few frames fill a segment. A commit reserves
// 4 KiB, so a smaller one would hold a single frame.
const labSegment = 7 << 10

// openOn opens the store of a machine, and loads its state.
func openOn(sys vfs.System, change ...func(*Config)) (*Broker, error) {
	b, err := openLazy(sys, change...)
	if err == nil {
		if err = b.cur.Load().want(context.Background()); err != nil {
			return nil, errors.Join(err, b.Close())
		}
	}
	return b, err
}

// openLazy opens the store of a machine.
func openLazy(sys vfs.System, change ...func(*Config)) (*Broker, error) {
	cfg := Config{sys: sys, segment: labSegment, Logger: slog.New(slog.DiscardHandler)}
	for _, c := range change {
		c(&cfg)
	}
	return Open(labDir, cfg)
}

func neverSync(c *Config) { c.Sync = SyncNever }

// slow leaves a test of several seconds to the full run.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("it takes long: go test without -short runs it")
	}
}

// must ends the test for an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tick is how far the clock goes on before each step of a scene.
const tick = time.Millisecond

// moment is the store after one frame.
type moment struct {
	frame int       // counts data frames
	wall  time.Time // when it was appended
	state []byte    // as jobstate.State.Encode writes it
	seen  []string  // what can be read of it, see look
	due   bool      // the next commit changes it, whatever it is for
}

// scene plays calls one after the other on a file broker and on the model, in
// a bubble, holds one's answers against the other's, and keeps the moment after
// each frame.
type scene struct {
	testing.TB
	m         *crashfs.Machine
	model     *brokertest.Model  // keeps the model's store; never closed
	watcher   vfs.System         // looks at the log
	moments   []*moment          // by frame; the first is the empty store
	at        map[uint64]*moment // by the sequence of a frame of any kind
	seq       uint64             // of the last frame
	frames    []journal.Frame    // all of them, without bodies
	bodies    [][]byte           // of the data frames
	runs      map[broker.Ref]run // the last lease of each job
	handed    []handed           // every lease that was given out
	given     atomic.Int64       // how many that are, for who looks from another goroutine
	tried     func(string)       // told of what is about to be called; may be nil
	acked     func(last uint64)  // told that an answer rests on all frames so far; may be nil
	unordered bool               // what one upkeep moved stands in any order
}

// run is the last lease of a job, by the broker and by the model.
type run struct{ real, model broker.Token }

// handed is a token that somebody was given.
type handed struct {
	ref   broker.Ref
	token broker.Token
}

func newScene(t testing.TB, cfg crashfs.Config) *scene {
	if cfg.Uptime == 0 {
		cfg.Uptime = time.Hour
	}
	m := crashfs.New(cfg)
	first := &moment{wall: m.Clock.Wall()}
	return &scene{
		TB: t, m: m, model: brokertest.NewModel(m.Clock), watcher: m.Process(),
		moments: []*moment{first}, at: map[uint64]*moment{0: first}, runs: map[broker.Ref]run{},
	}
}

// twin is one client: a handle on the store and one on the model's.
type twin struct {
	s     *scene
	proc  *crashfs.Process
	real  *Broker
	model *brokertest.Model
}

// open opens the store in a process of its own.
func (s *scene) open(change ...func(*Config)) *twin {
	s.Helper()
	s.m.Clock.Advance(tick)
	c := &twin{s: s, proc: s.m.Process(), model: s.model.Open()}
	var err error
	c.real, err = openOn(c.proc, change...)
	must(s, err)
	s.Cleanup(c.drop)
	c.done(false)
	return c
}

// done ends a step: it takes in the frame that it made, if any, and holds what
// the store shows now against the model. durable says that the step's answer
// promised that.
func (c *twin) done(durable bool) {
	s := c.s
	s.Helper()
	synctest.Wait()
	s.takeFrames(c)
	if durable && s.acked != nil {
		s.acked(s.seq)
	}
}

// takeFrames notes the frames that are new.
func (s *scene) takeFrames(c *twin) {
	s.Helper()
	seen := look(s, c.real)
	s.sameAsModel(c)
	now := s.moments[len(s.moments)-1]
	err := journal.Inspect(s.watcher, labDir, func(f *journal.Frame) error {
		if f.Seq <= s.seq {
			return nil
		}
		for s.seq++; s.seq < f.Seq; s.seq++ {
			s.at[s.seq] = now // the end of a segment that a compaction has dropped since
		}
		if f.Kind == journal.KindData {
			if now.frame == len(s.moments) {
				return fmt.Errorf("the step made more than one frame")
			}
			now = &moment{frame: len(s.moments), wall: s.m.Clock.Wall(), state: encoded(s, c.real), seen: seen, due: c.real.cur.Load().untilDue() <= 0}
			s.bodies = append(s.bodies, slices.Clone(f.Body))
		}
		g := *f
		g.Body = nil
		s.frames = append(s.frames, g)
		s.at[f.Seq] = now
		return nil
	})
	must(s, err)
	if now.frame == len(s.moments) {
		s.moments = append(s.moments, now)
	}
}

// sameAsModel holds what can be read of the store against the model.
func (s *scene) sameAsModel(c *twin) {
	s.Helper()
	got, want := lookLoosely(s, c.real), lookLoosely(s, s.model)
	if s.unordered {
		got, want = inAnyOrder(got), inAnyOrder(want)
	}
	if !slices.Equal(got, want) {
		s.Fatalf("the store is not as the model says:\n%s", difference(want, got))
	}
}

// step begins a call, after the upkeep of what became due in the tick before
// it: the broker would see to that in the commit of the call.
func (c *twin) step(what string) {
	c.s.Helper()
	c.s.m.Clock.Advance(tick)
	if c.s.tried != nil {
		c.s.tried(what)
	}
	if c.real.cur.Load().untilDue() <= 0 {
		c.upkeep()
	}
}

// upkeep sees to what is due.
func (c *twin) upkeep() {
	c.s.Helper()
	_, err := c.real.Extend(context.Background(), broker.ExtendRequest{})
	must(c.s, err)
	_, err = c.model.Maintain(context.Background())
	must(c.s, err)
	c.done(false)
}

func (c *twin) enqueue(queue string, jobs ...broker.NewJob) []broker.Enqueued {
	c.s.Helper()
	c.step("enqueue")
	got, err := c.real.Enqueue(context.Background(), broker.NewCall(), queue, jobs)
	must(c.s, err)
	want, err := c.model.Enqueue(context.Background(), broker.NewCall(), queue, jobs)
	must(c.s, err)
	if !slices.Equal(got, want) {
		c.s.Fatalf("enqueue: %v, the model says %v", got, want)
	}
	c.done(true)
	return got
}

func (c *twin) claim(r broker.ClaimRequest) []broker.Lease {
	c.s.Helper()
	c.step("claim")
	got, err := c.real.Claim(context.Background(), broker.NewCall(), r)
	must(c.s, err)
	want, err := c.model.Claim(context.Background(), broker.NewCall(), r)
	must(c.s, err)
	if len(got.Leases) != len(want.Leases) {
		c.s.Fatalf("claim: %d leases, the model says %d", len(got.Leases), len(want.Leases))
	}
	for i, l := range got.Leases {
		m := want.Leases[i]
		if l.Job.Ref() != m.Job.Ref() {
			c.s.Fatalf("claim: job %v, the model says %v", l.Job.ID, m.Job.ID)
		}
		c.s.runs[l.Job.Ref()] = run{l.Token, m.Token}
		c.s.handed = append(c.s.handed, handed{l.Job.Ref(), l.Token})
		c.s.given.Add(1)
	}
	c.done(false)
	return got.Leases
}

// take claims the ready jobs of queue q with the given numbers, which have to
// be the next. The leases of the worker "far" outlive the handle.
func (c *twin) take(worker string, ttl time.Duration, n ...int) {
	c.s.Helper()
	leases := c.claim(broker.ClaimRequest{Queues: []string{"q"}, Max: len(n), TTL: ttl, Worker: worker, Remote: worker == "far"})
	for i, l := range leases {
		if i < len(n) && l.Job.ID != labID(n[i]) {
			c.s.Fatalf("claimed %v, want number %d", l.Job.ID, n[i])
		}
	}
	if len(leases) != len(n) {
		c.s.Fatalf("%d leases, want %d", len(leases), len(n))
	}
}

// end settles the last leases of jobs of queue q.
func (c *twin) end(kind broker.SettleKind, change func(*broker.Settlement), n ...int) []broker.Settled {
	c.s.Helper()
	return c.endIn("q", kind, change, n...)
}

// endIn settles the last leases of jobs of a queue.
func (c *twin) endIn(queue string, kind broker.SettleKind, change func(*broker.Settlement), n ...int) []broker.Settled {
	c.s.Helper()
	c.step(kind.String())
	var real, model []broker.Settlement
	for _, k := range n {
		st := broker.Settlement{Ref: broker.Ref{Queue: queue, ID: labID(k)}, Kind: kind}
		if change != nil {
			change(&st)
		}
		st.Token = c.s.runs[st.Ref].real
		real = append(real, st)
		st.Token = c.s.runs[st.Ref].model
		model = append(model, st)
	}
	got, err := c.real.Settle(context.Background(), broker.NewCall(), real)
	must(c.s, err)
	want, err := c.model.Settle(context.Background(), broker.NewCall(), model)
	must(c.s, err)
	for i := range got {
		same := got[i].State == want[i].State && slices.Equal(got[i].FollowUps, want[i].FollowUps) && (got[i].Err == nil) == (want[i].Err == nil)
		if !same {
			c.s.Fatalf("%v of %d: %+v, the model says %+v", kind, n[i], got[i], want[i])
		}
	}
	c.done(true)
	return got
}

// extend sends a heartbeat for jobs of queue q.
func (c *twin) extend(r broker.ExtendRequest, progress *broker.Progress, log []string, n ...int) {
	c.s.Helper()
	c.step("extend")
	m := r
	for _, k := range n {
		x := broker.Extension{Ref: labRef(k), Progress: progress, Log: log, Token: c.s.runs[labRef(k)].real}
		r.Leases = append(r.Leases, x)
		x.Token = c.s.runs[labRef(k)].model
		m.Leases = append(m.Leases, x)
	}
	got, err := c.real.Extend(context.Background(), r)
	must(c.s, err)
	want, err := c.model.Extend(context.Background(), m)
	must(c.s, err)
	for i := range got {
		if got[i].Status != want[i].Status {
			c.s.Fatalf("extend %d: %+v, the model says %+v", n[i], got[i], want[i])
		}
	}
	c.done(false)
}

// hold ties the lease of a job to a lock, and returns how to free that.
func (c *twin) hold(n int) (free func()) {
	c.s.Helper()
	c.step("hold")
	var lock vfs.File
	name := memberName(c.proc)
	h := c.real.cur.Load()
	o := &op{size: recordBytes, class: journal.Settle, free: true}
	o.decide = func(jobstate.Now) {
		if lock, o.err = h.lockFile(name); o.err == nil && !h.s.Hold(&h.w, labRef(n), c.s.runs[labRef(n)].real, name) {
			o.err = broker.ErrLeaseLost
		}
	}
	must(c.s, h.do(context.Background(), o))
	c.done(false)
	return func() {
		c.step("free a held lock")
		must(c.s, lock.Close())
		must(c.s, h.settleDead([]string{name}))
		c.done(false)
	}
}

// command applies a command to queue q, or that of the filter.
func (c *twin) command(kind broker.CommandKind, f broker.Filter, reason string) {
	c.s.Helper()
	c.step("command")
	if f.Queue == "" {
		f.Queue = "q"
	}
	cmd := broker.Command{Kind: kind, Filter: f, Reason: reason}
	got, err := c.real.Apply(context.Background(), broker.NewCall(), cmd)
	must(c.s, err)
	want, err := c.model.Apply(context.Background(), broker.NewCall(), cmd)
	must(c.s, err)
	if got.Changed != want.Changed || got.Cursor != "" {
		c.s.Fatalf("command: %+v, the model says %+v", got, want)
	}
	c.done(true)
}

// pass lets time pass, and sees to what is due then.
func (c *twin) pass(d time.Duration) {
	c.s.Helper()
	c.s.m.Clock.Advance(d)
	c.step("upkeep")
}

// maintain does the upkeep. It reserves much room, and so begins a segment.
func (c *twin) maintain() {
	c.s.Helper()
	c.step("maintain")
	_, err := c.real.Maintain(context.Background())
	must(c.s, err)
	_, err = c.model.Maintain(context.Background())
	must(c.s, err)
	c.done(false)
}

// compact makes a checkpoint.
func (c *twin) compact() uint64 {
	c.s.Helper()
	c.step("compact")
	got, err := c.real.Compact(context.Background())
	must(c.s, err)
	if got.Checkpoint == 0 || got.Removed == 0 {
		c.s.Fatalf("compacted %+v", got)
	}
	c.done(false)
	return got.Checkpoint
}

// tidy makes a checkpoint, if there is anything that it makes needless.
func (c *twin) tidy() {
	c.s.Helper()
	c.step("compact")
	_, err := c.real.Compact(context.Background())
	must(c.s, err)
	c.done(false)
}

// close closes c, and by looks at the result.
func (c *twin) close(by *twin) {
	c.s.Helper()
	c.step("close")
	must(c.s, c.real.Close())
	must(c.s, c.model.Close())
	by.done(false)
}

// kill ends c's process; by notices, unless it is nil.
func (c *twin) kill(by *twin) {
	c.s.Helper()
	c.step("kill")
	c.proc.Kill()
	must(c.s, c.model.Close())
	<-time.After(time.Second) // of the bubble: the death may be heard of before it can be seen
	if by != nil {
		by.done(false)
	}
	c.drop()
}

// drop ends a handle without a trace.
func (c *twin) drop() {
	c.proc.Kill()
	c.real.Close() // the process is dead
}

// labID is the id of a job by its number.
func labID(n int) broker.ID {
	return broker.ID{0x01, 0x90, 0, 0, 0, 0, 0x70, 0, 0x80, 14: byte(n >> 8), 15: byte(n)}
}

func labRef(n int) broker.Ref { return broker.Ref{Queue: "q", ID: labID(n)} }

// logFiles lists the files of the store that have to stay as they are when an
// opener refuses it: all but locks, hints and life signs.
func logFiles(t testing.TB, m *crashfs.Machine) map[string]string {
	t.Helper()
	names, err := m.Process().ReadDir(labDir)
	must(t, err)
	content := map[string]string{}
	for _, n := range names {
		switch n {
		case "LOCK", "LOCK.next", "COMPACT", "PREP", "CONTROL", "alive":
			continue
		}
		b, err := m.ReadFile(path.Join(labDir, n))
		must(t, err)
		content[n] = string(b)
	}
	return content
}

// withoutHandles removes the life signs of the handles of before, so that none
// is found to have ended: the leases stay until their deadlines.
func withoutHandles(t testing.TB, m *crashfs.Machine) {
	t.Helper()
	p := m.Process()
	names, err := p.ReadDir(path.Join(labDir, "alive"))
	if err != nil {
		return // there is no directory yet
	}
	for _, n := range names {
		must(t, p.Remove(path.Join(labDir, "alive", n)))
	}
	must(t, p.SyncDir(path.Join(labDir, "alive")))
}

// lastFrame is the sequence of the last frame that the store of m holds, be it
// by its checkpoint; 0 when there is none.
func (s *scene) lastFrame(m *crashfs.Machine) (seq uint64, err error) {
	err = journal.Inspect(m.Process(), labDir, func(f *journal.Frame) error {
		seq = f.Seq
		return nil
	})
	if errors.Is(err, journal.ErrNotStore) || errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return seq, err
	}
	err = journal.InspectCheckpoint(m.Process(), labDir, func(n uint64, _ io.Reader) error {
		for _, f := range s.frames {
			if f.Kind == journal.KindHead && f.At.Segment == n+1 {
				seq = max(seq, f.Seq-1) // older segments may be gone already
			}
		}
		return nil
	})
	return seq, err
}
