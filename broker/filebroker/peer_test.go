package filebroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// peers is a store with two handles, of which a has appended something that it
// could not sync yet.
type peers struct {
	*testing.T
	m    *crashfs.Machine
	a, b *Broker
	job  broker.Lease // claimed by a, durably
}

// after is the store that a power cut leaves that loses all that was not
// synced.
func (p *peers) after(fn func(b *Broker)) {
	p.Helper()
	m := p.m.Crash(crashfs.KeepNone)
	b, err := openOn(m.Process(), roomy)
	must(p, err)
	fn(b)
	must(p, b.Close())
}

func (p *peers) enqueue(b *Broker, j broker.NewJob) broker.Enqueued {
	p.Helper()
	got, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{j})
	must(p, err)
	return got[0]
}

func (p *peers) settle(b *Broker, result []byte) broker.Settled {
	p.Helper()
	st := broker.Settlement{Ref: p.job.Job.Ref(), Token: p.job.Token, Kind: broker.Ack, Result: result}
	got, err := b.Settle(context.Background(), broker.NewCall(), []broker.Settlement{st})
	must(p, err)
	return got[0]
}

func (p *peers) apply(b *Broker, kind broker.CommandKind) broker.Step {
	p.Helper()
	got, err := b.Apply(context.Background(), broker.NewCall(), broker.Command{Kind: kind, Filter: broker.Filter{Queue: "q"}})
	must(p, err)
	return got
}

func (p *peers) await(b *Broker) broker.Job {
	p.Helper()
	got, err := b.Await(context.Background(), []broker.Ref{p.job.Job.Ref()}, time.Minute)
	must(p, err)
	if len(got) != 1 {
		p.Fatalf("awaited %+v", got)
	}
	return got[0]
}

// state is that of one job; 0 when it is not there.
func (p *peers) state(b *Broker, ref broker.Ref) broker.State {
	p.Helper()
	got, err := b.Get(context.Background(), []broker.Ref{ref})
	must(p, err)
	return got[0].State
}

func (p *peers) paused(b *Broker) bool {
	p.Helper()
	counts, err := b.Counts(context.Background(), "q")
	must(p, err)
	return slices.ContainsFunc(counts, func(c broker.Count) bool { return c.Paused })
}

// resting are the answers that can rest on a peer's frame: what a does, what b
// answers then, and what has to be there after a power cut.
var resting = []struct {
	name string
	a    func(p *peers)
	b    func(p *peers)
	held func(p *peers, b *Broker) bool
}{
	{
		"an enqueue of an id that is there",
		func(p *peers) { p.enqueue(p.a, broker.NewJob{ID: labID(2), Task: "t"}) },
		func(p *peers) {
			if got := p.enqueue(p.b, broker.NewJob{ID: labID(2), Task: "t"}); !got.Existing {
				p.Fatalf("the repeat is not known: %+v", got)
			}
		},
		func(p *peers, b *Broker) bool { return p.state(b, labRef(2)) == broker.Ready },
	},
	{
		"an enqueue of a key that is held",
		func(p *peers) { p.enqueue(p.a, broker.NewJob{ID: labID(2), Task: "t", Key: "k"}) },
		func(p *peers) {
			if got := p.enqueue(p.b, broker.NewJob{ID: labID(3), Task: "t", Key: "k"}); !got.Existing || got.ID != labID(2) {
				p.Fatalf("the key is not known: %+v", got)
			}
		},
		func(p *peers, b *Broker) bool { return p.state(b, labRef(2)) == broker.Ready },
	},
	{
		"a settlement that is repeated",
		func(p *peers) { p.settle(p.a, []byte("r")) },
		func(p *peers) {
			if got := p.settle(p.b, []byte("r")); got.Err != nil || got.State != broker.Done {
				p.Fatalf("the repeat is refused: %+v", got)
			}
		},
		func(p *peers, b *Broker) bool { return p.state(b, labRef(1)) == broker.Done },
	},
	{
		"a result that is awaited",
		func(p *peers) { p.settle(p.a, []byte("r")) },
		func(p *peers) {
			if got := p.await(p.b); string(got.Result) != "r" {
				p.Fatalf("awaited %+v", got)
			}
		},
		func(p *peers, b *Broker) bool { return p.state(b, labRef(1)) == broker.Done },
	},
	{
		"the end of a job that is not kept",
		func(p *peers) { p.settle(p.a, nil) },
		func(p *peers) {
			if got := p.await(p.b); got.State != 0 {
				p.Fatalf("awaited %+v", got)
			}
		},
		func(p *peers, b *Broker) bool { return p.state(b, labRef(1)) == 0 },
	},
	{
		"a command that has nothing left to do",
		func(p *peers) { p.apply(p.a, broker.DeleteJobs) },
		func(p *peers) {
			if got := p.apply(p.b, broker.DeleteJobs); got.Changed != 0 {
				p.Fatalf("deleted %+v", got)
			}
		},
		func(p *peers, b *Broker) bool { return p.state(b, labRef(0)) == 0 },
	},
	{
		"a pause of a queue that is paused",
		func(p *peers) { p.apply(p.a, broker.PauseQueue) },
		func(p *peers) {
			if got := p.apply(p.b, broker.PauseQueue); got.Changed != 0 {
				p.Fatalf("paused %+v", got)
			}
		},
		func(p *peers, b *Broker) bool { return p.paused(b) },
	},
}

// roomy makes the segments so large that none is sealed, which syncs it.
func roomy(c *Config) { c.segment = 64 << 10 }

// newPeers makes the store: job 1 is leased to a, job 0 is ready.
func newPeers(t *testing.T) *peers {
	p := &peers{T: t, m: crashfs.New(crashfs.Config{Seed: 1, Uptime: time.Hour})}
	for _, b := range []**Broker{&p.a, &p.b} {
		var err error
		*b, err = openOn(p.m.Process(), roomy)
		must(t, err)
		t.Cleanup(func() { (*b).Close() }) // most tests close it, and look at the error
	}
	p.enqueue(p.a, broker.NewJob{ID: labID(1), Task: "t"})
	got, err := p.a.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Worker: "w", Remote: true})
	must(t, err)
	p.job = got.Leases[0]
	p.enqueue(p.a, broker.NewJob{ID: labID(0), Task: "t"})
	return p
}

// stall stops whatever process syncs the log at until release, and then does
// what it says.
func (p *peers) stall(process *crashfs.Process) (release func(error)) {
	until := make(chan error, 1)
	p.m.Inject(func(op crashfs.Op) error {
		if op.Process == process && op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") {
			return <-until
		}
		return nil
	})
	return func(err error) {
		p.m.Inject(nil)
		until <- err
	}
}

func TestAnAnswerThatRestsOnAPeersFrameIsDurable(t *testing.T) {
	for _, c := range resting {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeers(t)
				release := p.stall(p.a.cfg.sys.(*crashfs.Process))
				go c.a(p)
				synctest.Wait() // a waits for its sync
				p.after(func(b *Broker) {
					if c.held(p, b) {
						t.Fatal("what a did is durable already: this test proves nothing")
					}
				})
				c.b(p)
				p.after(func(b *Broker) {
					if !c.held(p, b) {
						t.Error("b answered before what its answer rests on was durable")
					}
				})
				release(nil)
				synctest.Wait()
				must(t, p.a.Close())
				must(t, p.b.Close())
			})
		})
	}
}

// TestAnAnswerThatRestsOnADeadPeersFrameIsDurable is the same for a peer that
// was killed between its append and its sync.
func TestAnAnswerThatRestsOnADeadPeersFrameIsDurable(t *testing.T) {
	for _, c := range resting {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := newPeers(t)
				dead := *p
				release := p.stall(p.a.cfg.sys.(*crashfs.Process))
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					dead.T = new(testing.T) // its call fails, and stops here
					c.a(&dead)
				}()
				synctest.Wait()
				release(crashfs.ErrKilled)
				<-ended
				c.b(p)
				p.after(func(b *Broker) {
					if !c.held(p, b) {
						t.Error("b answered before what its answer rests on was durable")
					}
				})
				p.a.Close() // its process is dead
				must(t, p.b.Close())
			})
		})
	}
}

// TestAClaimDoesNotWaitForTheDisk: a job may start before its enqueue, let
// alone its claim, is durable.
func TestAClaimDoesNotWaitForTheDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		_, err := p.b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"none"}, Max: 1}) // joins the epoch
		must(t, err)
		release := p.stall(p.a.cfg.sys.(*crashfs.Process))
		go p.enqueue(p.a, broker.NewJob{ID: labID(2), Task: "t"})
		synctest.Wait()
		before := p.b.Stats().Syncs.Load()
		got, err := p.b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 2, Worker: "w"})
		must(t, err)
		if len(got.Leases) != 2 || got.Leases[1].Job.ID != labID(2) {
			t.Errorf("claimed %+v", got.Leases)
		}
		if n := p.b.Stats().Syncs.Load() - before; n != 0 {
			t.Errorf("the claim synced %d times", n)
		}
		release(nil)
		synctest.Wait()
		must(t, p.a.Close())
		must(t, p.b.Close())
	})
}

// TestAnAnswerFailsWhenItsSyncDoes: b's answer rests on a's frame, and b's own
// sync fails.
func TestAnAnswerFailsWhenItsSyncDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		release := p.stall(p.a.cfg.sys.(*crashfs.Process))
		first := make(chan error, 1)
		job := []broker.NewJob{{ID: labID(2), Task: "t"}}
		go func() {
			_, err := p.a.Enqueue(context.Background(), broker.NewCall(), "q", job)
			first <- err
		}()
		synctest.Wait()
		failed := p.stall(p.b.cfg.sys.(*crashfs.Process)) // instead of the one for a, which still waits
		second := make(chan error, 1)
		go func() {
			_, err := p.b.Enqueue(context.Background(), broker.NewCall(), "q", job)
			second <- err
		}()
		time.Sleep(time.Second) // until b waits no longer for the end of a's sync
		synctest.Wait()
		failed(errDisk)
		if err := <-second; !errors.Is(err, broker.ErrPoisoned) {
			t.Errorf("b answered %v", err)
		}
		release(nil)
		if err := <-first; !errors.Is(err, broker.ErrPoisoned) {
			t.Errorf("a was told nothing of what b's sync lost: %v", err)
		}
		p.a.Close() // the store is poisoned
		p.b.Close()
	})
}

// TestAnswersOfProcessesThatWriteAtOnceAreDurable lets processes append while
// others sync: a sync vouches for what was written before it began, and for
// nothing that came while it ran.
func TestAnswersOfProcessesThatWriteAtOnceAreDurable(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1, Uptime: time.Hour})
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync {
			runtime.Gosched() // let another one append
		}
		return nil
	})
	var wg sync.WaitGroup
	for process := range 3 {
		b, err := openOn(m.Process())
		must(t, err)
		t.Cleanup(func() { must(t, b.Close()) })
		wg.Go(func() {
			for i := range many(5000, 300) {
				mark := fmt.Appendf(nil, "<job %d of process %d>", i, process)
				_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: mark}})
				if err != nil {
					t.Error(err)
					return
				}
				if !durable(m, b, mark) {
					t.Errorf("%s was acknowledged, and a power cut loses it", mark)
					return
				}
			}
		})
	}
	wg.Wait()
}

// TestASyncVouchesForNothingThatCameAfterItBegan: b appends when the disk is
// done with a's sync, but a has not heard of that yet. Who rests on b's frame
// then still has to sync.
func TestASyncVouchesForNothingThatCameAfterItBegan(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPeers(t)
		late := &lateSystem{System: p.m.Process()}
		a, err := openOn(late, roomy)
		must(t, err)
		t.Cleanup(func() { a.Close() })
		heard := make(chan struct{})
		late.wait.Store(&heard)
		answers := make(chan error, 2)
		enqueue := func(b *Broker, n int) {
			_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(n))
			answers <- err
		}
		go enqueue(a, 10)
		synctest.Wait() // a's job is on the disk
		release := p.stall(p.b.cfg.sys.(*crashfs.Process))
		go enqueue(p.b, 11)
		synctest.Wait() // b's is not
		close(heard)
		must(t, <-answers)
		if got := p.enqueue(p.a, labJob(11)); !got.Existing {
			t.Fatalf("the repeat is not known: %+v", got)
		}
		p.after(func(b *Broker) {
			if p.state(b, labRef(11)) != broker.Ready {
				t.Error("an answer rested on a frame that no sync had covered")
			}
		})
		release(nil)
		must(t, <-answers)
	})
}

// TestACallThatMeetsCloseSaysWhatBecameOfIt closes handles while they enqueue:
// a job is there if, and only if, its call said so.
func TestACallThatMeetsCloseSaysWhatBecameOfIt(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1, Uptime: time.Hour})
	reader, err := openOn(m.Process(), roomy)
	must(t, err)
	t.Cleanup(func() { must(t, reader.Close()) })
	for i := range many(5000, 400) {
		b, err := openOn(m.Process(), roomy)
		must(t, err)
		var wg sync.WaitGroup
		var answers [3]error
		for k := range answers {
			wg.Go(func() {
				_, answers[k] = b.Enqueue(context.Background(), broker.NewCall(), "q", labJobs(3*i+k))
			})
		}
		runtime.Gosched()
		must(t, b.Close())
		wg.Wait()
		for k, answer := range answers {
			got, err := reader.Get(context.Background(), []broker.Ref{labRef(3*i + k)})
			must(t, err)
			if there := got[0].State != 0; there != (answer == nil) {
				t.Fatalf("round %d: the answer is %v, and the job is there: %v", i, answer, there)
			}
		}
	}
}

// lateSystem is a system on which a process hears late that a sync of a segment
// is done: when the channel is closed.
type lateSystem struct {
	vfs.System
	wait atomic.Pointer[chan struct{}]
}

type lateFile struct {
	vfs.File
	s *lateSystem
}

func (s *lateSystem) Open(name string, flag int) (vfs.File, error) {
	f, err := s.System.Open(name, flag)
	if err == nil && strings.HasSuffix(name, ".log") {
		f = lateFile{f, s}
	}
	return f, err
}

func (f lateFile) Sync() error {
	err := f.File.Sync()
	if c := f.s.wait.Load(); c != nil {
		<-*c
	}
	return err
}

// durable says whether the log holds some bytes after a power cut that loses
// all that was not synced.
func durable(m *crashfs.Machine, b *Broker, mark []byte) bool {
	after := m.Crash(crashfs.KeepNone)
	for n := b.cur.Load().log.Pos().Segment + 1; n > 0; n-- {
		content, err := after.ReadFile(path.Join(labDir, segmentName(n)))
		if err == nil && bytes.Contains(content, mark) {
			return true
		}
	}
	return false
}
