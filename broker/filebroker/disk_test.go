package filebroker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// errDisk is what a dying disk says.
var errDisk error = syscall.EIO

// changing are the calls that write.
func changing(p *peers, b *Broker) map[string]error {
	ctx := context.Background()
	_, enqueue := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
	_, claim := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1})
	_, settle := b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: p.job.Job.Ref(), Token: p.job.Token, Kind: broker.Ack}})
	_, extend := b.Extend(ctx, broker.ExtendRequest{Worker: broker.Worker{ID: "w"}})
	_, command := b.Apply(ctx, broker.NewCall(), broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: "q"}})
	_, pause := b.Apply(ctx, broker.NewCall(), broker.Command{Kind: broker.PauseQueue, Filter: broker.Filter{Queue: "q"}})
	return map[string]error{"enqueue": enqueue, "claim": claim, "settle": settle, "extend": extend, "command": command, "pause": pause}
}

func TestAFailedSyncAcknowledgesNothingAndStopsEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		var failed, syncs atomic.Int32
		fail := make(chan struct{})
		p.m.Inject(func(op crashfs.Op) error {
			if op.Kind != crashfs.OpSync || !strings.HasSuffix(op.Path, ".log") {
				return nil
			}
			syncs.Add(1)
			<-fail
			failed.Add(1)
			return errDisk
		})
		errs := make(chan error, 3)
		for i := range 3 { // the first is being synced, the others gather for the next commit
			go func() {
				_, err := p.a.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{ID: labID(10 + i), Task: "t"}})
				errs <- err
			}()
			synctest.Wait()
		}
		close(fail)
		for range 3 {
			if err := <-errs; !errors.Is(err, broker.ErrPoisoned) {
				t.Errorf("an enqueue that was not synced answered %v", err)
			}
		}
		// The first may have left by now, to join again. The second has not yet
		// heard of it, and while it stays nobody may recover the store.
		if _, err := openOn(p.m.Process(), roomy); !errors.Is(err, broker.ErrPoisoned) {
			t.Errorf("a third process, while another holds the store open: %v", err)
		}
		if n := syncs.Load(); n != 1 || failed.Load() != 1 {
			t.Errorf("the file whose sync failed was synced %d times", n)
		}
		for name, b := range map[string]*Broker{"a": p.a, "b": p.b} {
			refusesWrites(p, name, b)
		}
		p.m.Inject(nil)
		p.a.Close() // says that the store is poisoned, or nothing
		p.b.Close()
		reopens(p)
	})
}

// TestNothingIsAnsweredOnceTheStoreIsPoisoned: another process finds the disk
// failing while a claim, which waits for no sync, is being written.
func TestNothingIsAnsweredOnceTheStoreIsPoisoned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		var did atomic.Bool
		p.m.Inject(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpWriteAt && strings.HasSuffix(op.Path, ".log") && did.CompareAndSwap(false, true) {
				p.b.cur.Load().log.Poison(errDisk)
			}
			return nil
		})
		got, err := p.a.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Worker: "w"})
		if !errors.Is(err, broker.ErrPoisoned) || len(got.Leases) > 0 {
			t.Errorf("claimed %+v: %v", got.Leases, err)
		}
	})
}

// refusesWrites wants that a handle writes nothing, says why, and still reads.
func refusesWrites(p *peers, name string, b *Broker) {
	p.Helper()
	for call, err := range changing(p, b) {
		if !errors.Is(err, broker.ErrPoisoned) {
			p.Errorf("%s: %s: %v", name, call, err)
		}
	}
	h, err := b.Health(context.Background())
	must(p, err)
	if h.Status != broker.Poisoned || !strings.Contains(h.Text, "sync 00000") || !strings.Contains(h.Text, errDisk.Error()) {
		p.Errorf("%s: health %+v", name, h)
	}
	if s := p.state(b, labRef(1)); s != broker.Leased {
		p.Errorf("%s: job 1 reads as %v", name, s)
	}
	if look(p, b) == nil {
		p.Errorf("%s shows nothing", name)
	}
}

// reopens wants that the store, once nobody holds it open, is recovered with
// all that was acknowledged, and outlives a power cut.
func reopens(p *peers) {
	p.Helper()
	b, err := openOn(p.m.Process(), roomy)
	must(p, err)
	h, err := b.Health(context.Background())
	must(p, err)
	if h.Status != broker.Healthy {
		p.Errorf("reopened: %+v", h)
	}
	if s := p.state(b, labRef(0)); s != broker.Ready {
		p.Errorf("reopened: job 0 is %v", s)
	}
	if s := p.state(b, labRef(1)); s != broker.Leased {
		p.Errorf("reopened: job 1 is %v", s)
	}
	goesOn(p, p.m, b)
}

// TestAFailedWriteChangesNothing lets the write of a frame fail, wholly or
// half way, for each kind of call: it can be repeated as if it had never been.
func TestAFailedWriteChangesNothing(t *testing.T) {
	for _, fault := range []error{errDisk, crashfs.ShortWrite{N: 100, Err: errDisk}, crashfs.ShortWrite{N: 3, Err: syscall.ENOSPC}} {
		synctest.Test(t, func(t *testing.T) {
			p := newPeers(t)
			ctx := context.Background()
			calls := []struct {
				name string
				do   func() error
			}{
				{"enqueue", func() error {
					got, err := p.a.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{ID: labID(2), Task: "t", Key: "k"}})
					if err == nil && got[0].Existing {
						err = errors.New("the job that could not be written is there")
					}
					return err
				}},
				{"settle", func() error {
					got, err := p.a.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: p.job.Job.Ref(), Token: p.job.Token, Kind: broker.Ack, Result: []byte("r")}})
					return errors.Join(err, errOf(got))
				}},
				{"claim", func() error {
					got, err := p.a.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1})
					if err == nil && (len(got.Leases) != 1 || got.Leases[0].Job.ID != labID(0) || got.Leases[0].Job.Attempt != 1) {
						err = fmt.Errorf("claimed %+v", got.Leases)
					}
					return err
				}},
			}
			for _, c := range calls {
				before := look(t, p.a)
				p.m.Inject(once(func(op crashfs.Op) bool { return op.Kind == crashfs.OpWriteAt && strings.HasSuffix(op.Path, ".log") }, fault))
				if err := c.do(); err == nil {
					t.Errorf("%v: %s succeeded", fault, c.name)
				}
				p.m.Inject(nil)
				for _, b := range []*Broker{p.a, p.b} {
					if now := look(t, b); !slices.Equal(now, before) {
						t.Errorf("%v: a failed %s changed the store:\n%s", fault, c.name, difference(before, now))
					}
				}
				time.Sleep(2 * time.Second) // a full disk is looked at again
				if err := c.do(); err != nil {
					t.Errorf("%v: %s, again: %v", fault, c.name, err)
				}
			}
			must(t, p.a.Close())
			must(t, p.b.Close())
		})
	}
}

func errOf(s []broker.Settled) error {
	if len(s) > 0 {
		return s[0].Err
	}
	return nil
}

// once injects an error into the first operation that fits.
func once(fits func(crashfs.Op) bool, err error) func(crashfs.Op) error {
	var done atomic.Bool
	return func(op crashfs.Op) error {
		if fits(op) && done.CompareAndSwap(false, true) {
			return err
		}
		return nil
	}
}

// TestAFullDiskLeavesRoomToSealASegment fills the disk while the next segment
// is being prepared, when the active one takes more than it was meant to: what
// is to be settled still gets into the reserve.
func TestAFullDiskLeavesRoomToSealASegment(t *testing.T) {
	for payload := range 16 {
		synctest.Test(t, func(t *testing.T) {
			p := newPeers(t)
			b, err := openOn(p.m.Process(), roomy)
			must(t, err)
			t.Cleanup(func() { b.Close() })
			synctest.Wait()
			until := make(chan struct{})
			letGo := sync.OnceFunc(func() { close(until) })
			t.Cleanup(letGo)
			p.m.Inject(func(op crashfs.Op) error { // nobody gets on with the next segment
				if strings.HasSuffix(op.Path, ".new") {
					<-until
				}
				return nil
			})
			fill := func() {
				for i := range 10_000 {
					if i == 100 {
						p.m.SetDiskBytes(p.m.Used())
					}
					_, err := b.Enqueue(context.Background(), broker.NewCall(), "filler", []broker.NewJob{{Task: "t", Payload: make([]byte, 10*payload)}})
					if errors.Is(err, broker.ErrFull) {
						return
					}
					must(t, err)
				}
				t.Fatal("the disk does not fill up")
			}
			fill()
			if n, err := workOff(t, b, "q", 1); n != 1 {
				t.Errorf("payload %d: %d jobs were worked off: %v", 10*payload, n, err)
			}
			p.m.SetDiskBytes(0)
			p.m.Inject(nil)
			letGo()
			must(t, b.Close())
		})
	}
}

// fullDisk is a store whose disk has no room left, with n jobs of queue q that
// wait.
type fullDisk struct {
	*testing.T
	m       *crashfs.Machine
	b, peer *Broker
	n       int
	fillers int
}

// pass lets time pass in a bubble.
func pass(d time.Duration) { <-time.After(d) }

// newFullDisk enqueues n jobs and then others, in queue filler, until the disk
// is full.
func newFullDisk(t *testing.T, n, payload, filler int) *fullDisk {
	t.Helper()
	d := &fullDisk{T: t, m: crashfs.New(crashfs.Config{Seed: 1, FollowTime: true, Uptime: time.Hour}), n: n}
	for _, b := range []**Broker{&d.b, &d.peer} {
		var err error
		*b, err = openOn(d.m.Process(), func(c *Config) { c.segment = 512 << 10 }) // half of what it is by default
		must(t, err)
		t.Cleanup(func() { (*b).Close() }) // most tests close it, and look at the error
	}
	add := func(queue string, n, size int) error {
		jobs := make([]broker.NewJob, n)
		for i := range jobs {
			jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, size)}
		}
		_, err := d.b.Enqueue(context.Background(), broker.NewCall(), queue, jobs)
		synctest.Wait()
		return err
	}
	for range n / 50 {
		must(t, add("q", 50, payload))
	}
	d.m.SetDiskBytes(d.m.Used())
	for i, refused := 0, 0; ; i++ {
		err := add("filler", 5, filler)
		if errors.Is(err, broker.ErrFull) {
			if refused++; refused == 2 {
				break
			}
			pass(2 * vainFor) // a compaction may make room by itself
			continue
		}
		refused = 0
		must(t, err)
		d.fillers += 5
		if i > 10_000 {
			t.Fatal("the disk does not fill up")
		}
	}
	d.m.SetDiskBytes(d.m.Used()) // not a byte more, whatever happens
	return d
}

// refuses wants that both handles say that the disk is full, and take no job.
func (d *fullDisk) refuses() {
	d.Helper()
	for _, h := range []*Broker{d.b, d.peer} {
		health, err := h.Health(context.Background())
		must(d, err)
		if health.Status != broker.DiskFull || health.Text == "" {
			d.Errorf("health %+v", health)
		}
		if _, err := h.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(1)); !errors.Is(err, broker.ErrFull) {
			d.Errorf("enqueue on a full disk: %v", err)
		}
	}
}

// goesOnWithRoom wants that both handles take jobs again, the first call included,
// and that none of those that filled the disk is missing.
func (d *fullDisk) goesOnWithRoom() {
	d.Helper()
	for i, h := range []*Broker{d.b, d.peer} {
		_, err := h.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(i+1))
		if err != nil {
			d.Errorf("enqueue with room again: %v", err)
		}
		health, err := h.Health(context.Background())
		must(d, err)
		if health.Status != broker.Healthy {
			d.Errorf("with room again: %+v", health)
		}
	}
	if n, err := workOff(d, d.b, "filler", 100); err != nil || n != d.fillers {
		d.Errorf("%d of %d jobs of filler were worked off: %v", n, d.fillers, err)
	}
	goesOn(d, d.m, d.b)
	must(d, d.peer.Close())
}

// TestAFullDiskDrainsToEmpty works off all that waits while the disk stays
// full, and enqueues again once there is room, with the same handles.
func TestAFullDiskDrainsToEmpty(t *testing.T) {
	for _, c := range []struct {
		name                      string
		n, payload, filler, batch int
	}{
		{"large payloads, in batches", 2000, 700, 700, 16},
		{"large payloads, one by one", 2000, 700, 700, 1},
		{"no payloads, one by one", 2000, 0, 900, 1},
		{"no payloads, all at once", 2000, 0, 900, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFullDisk(t, c.n, c.payload, c.filler)
				d.refuses()
				done, err := workOff(t, d.b, "q", c.batch)
				if err != nil || done != c.n {
					t.Errorf("%d of %d jobs were worked off: %v", done, c.n, err)
				}
				d.m.SetDiskBytes(0)
				d.goesOnWithRoom()
			})
		})
	}
}

// TestTheFirstEnqueueOfANewProcessIsTakenOnceThereIsRoom opens a store that everybody
// left when its disk was full.
func TestTheFirstEnqueueOfANewProcessIsTakenOnceThereIsRoom(t *testing.T) {
	for name, open := range map[string]func(vfs.System, ...func(*Config)) (*Broker, error){"without the state": openLazy, "with the state": openOn} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d := newFullDisk(t, 2000, 100, 300)
				d.refuses()
				must(t, d.b.Close())
				must(t, d.peer.Close())
				add := func() error {
					b, err := open(d.m.Process(), func(c *Config) { c.segment = 512 << 10 })
					must(t, err)
					defer b.Close()
					_, err = b.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(1))
					return err
				}
				if err := add(); !errors.Is(err, broker.ErrFull) {
					t.Errorf("before there is room: %v", err)
				}
				d.m.SetDiskBytes(0)
				if err := add(); err != nil {
					t.Errorf("once there is: %v", err)
				}
			})
		})
	}
}

// TestBeyondTheReserveSettlingStopsAndGoesOnWithRoom: the reserve is finite where
// another takes whatever a compaction frees. What was acknowledged stays, the rest
// is worked off later.
func TestBeyondTheReserveSettlingStopsAndGoesOnWithRoom(t *testing.T) {
	slow(t)
	synctest.Test(t, func(t *testing.T) {
		d := newFullDisk(t, 5_000, 0, 900)
		d.m.Inject(func(crashfs.Op) error { d.m.SetDiskBytes(d.m.Used()); return nil })
		first, err := workOff(t, d.b, "q", 1)
		if !errors.Is(err, broker.ErrFull) || first == d.n {
			t.Fatalf("after %d of %d jobs: %v", first, d.n, err)
		}
		d.refuses()
		d.m.Inject(nil)
		d.m.SetDiskBytes(0)
		time.Sleep(time.Minute) // a lease that could not be settled runs out
		rest, err := workOff(t, d.peer, "q", 100)
		must(t, err)
		if n := first + rest; n < d.n || n > d.n+1 {
			t.Errorf("%d and %d jobs were worked off of %d", first, rest, d.n)
		}
		d.goesOnWithRoom()
		t.Logf("%d jobs before there was no room at all", first)
	})
}

// workOff claims and acks until nothing waits in a queue, or something fails.
func workOff(t testing.TB, b *Broker, queue string, batch int) (done int, err error) {
	t.Helper()
	for {
		n, err := workOnce(t, b, queue, batch)
		done += n
		if err != nil || n == 0 {
			return done, err
		}
	}
}

// workOnce claims and acks once.
func workOnce(t testing.TB, b *Broker, queue string, batch int) (done int, err error) {
	t.Helper()
	ctx := context.Background()
	got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Max: batch, Worker: "w"})
	if err != nil || len(got.Leases) == 0 {
		return 0, err
	}
	var list []broker.Settlement
	for _, l := range got.Leases {
		list = append(list, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack})
	}
	settled, err := b.Settle(ctx, broker.NewCall(), list)
	if err = errors.Join(err, errOf(settled)); err != nil {
		return 0, err
	}
	return len(list), nil
}

// TestAFailedSyncInTheBackgroundStopsEveryProcess: a claim is answered at once
// and synced a moment later, and that fails.
func TestAFailedSyncInTheBackgroundStopsEveryProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		take := func() error {
			_, err := p.a.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Worker: "w"})
			return err
		}
		p.m.Inject(once(syncsLog, errDisk))
		must(t, take())
		time.Sleep(time.Second)
		for name, b := range map[string]*Broker{"a": p.a, "b": p.b} {
			refusesWrites(p, name, b)
		}
	})
}

// TestARecoveryFromPoisonSurvivesAPowerCut cuts the power before each operation
// of the open that recovers a poisoned store.
func TestARecoveryFromPoisonSurvivesAPowerCut(t *testing.T) {
	p := &peers{T: t}
	synctest.Test(t, func(t *testing.T) {
		p = newPeers(t)
		p.m.Inject(once(syncsLog, errDisk))
		_, err := p.a.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(7))
		if !errors.Is(err, broker.ErrPoisoned) {
			t.Fatalf("enqueue: %v", err)
		}
		p.a.Close() // says that the store is poisoned, or nothing
		p.b.Close()
	})
	p.T = t
	n := 0
	for _, keep := range []crashfs.Choose{crashfs.KeepNone, crashfs.KeepAll, crashfs.KeepRandom(1), crashfs.KeepRandom(2)} {
		m := p.m.Crash(crashfs.KeepAll) // the processes are gone, POISON stays
		var mu sync.Mutex               // the handle prepares segments meanwhile
		var cuts []*crashfs.Machine
		m.Inject(func(op crashfs.Op) error {
			mu.Lock()
			defer mu.Unlock()
			if changes(m, op) {
				cuts = append(cuts, m.Crash(keep))
			}
			return nil
		})
		b, err := openOn(m.Process(), roomy)
		must(t, err)
		m.Inject(nil)
		must(t, b.Close())
		for i, cut := range cuts {
			if i%stride(1) == 0 {
				n++
				reopens(&peers{T: t, m: cut})
			}
		}
	}
	t.Logf("%d cuts", n)
}

// TestAWeakerSyncModeLosesNoMoreThanItSays: with SyncInterval what was
// acknowledged is durable SyncEvery later; with SyncNever it is not, but a
// process that dies takes nothing along.
func TestAWeakerSyncModeLosesNoMoreThanItSays(t *testing.T) {
	for _, c := range []struct {
		name    string
		mode    SyncMode
		at      time.Duration
		durable bool
	}{
		{"SyncAlways, at once", SyncAlways, 0, true},
		{"SyncInterval, before its time", SyncInterval, 10 * time.Millisecond, false},
		{"SyncInterval, after its time", SyncInterval, 50 * time.Millisecond, true},
		{"SyncNever", SyncNever, time.Minute, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeers(t)
				process := p.m.Process()
				b, err := openOn(process, roomy, func(cfg *Config) { cfg.Sync, cfg.SyncEvery = c.mode, 40*time.Millisecond })
				must(t, err)
				t.Cleanup(func() { b.Close() })
				p.enqueue(b, broker.NewJob{ID: labID(2), Task: "t"})
				time.Sleep(c.at)
				p.after(func(b *Broker) {
					if is := p.state(b, labRef(2)) == broker.Ready; is != c.durable {
						t.Errorf("after a power cut the job is there: %v", is)
					}
				})
				process.Kill()
				if p.state(p.a, labRef(2)) != broker.Ready {
					t.Error("the job ended with the process that enqueued it")
				}
			})
		})
	}
}
