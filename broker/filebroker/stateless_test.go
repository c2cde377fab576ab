package filebroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// large makes every store one that Open does not read whole.
func large(c *Config) { c.small = 1 }

// crew is a machine with a store that holds one job, and a process that has
// loaded it.
type crew struct {
	testing.TB
	m      *crashfs.Machine
	loaded *Broker
}

func newCrew(t testing.TB) *crew {
	c := &crew{TB: t, m: crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})}
	var err error
	c.loaded, err = openOn(c.m.Process())
	must(t, err)
	t.Cleanup(func() { must(t, c.loaded.Close()) })
	c.add(c.loaded, 1)
	return c
}

// producer opens the store in a process of its own, and wants that it never
// loads the state.
func (c *crew) producer(change ...func(*Config)) *Broker {
	c.Helper()
	b, err := openLazy(c.m.Process(), append(change, large)...)
	must(c, err)
	c.Cleanup(func() { must(c, b.Close()) })
	return b
}

// add enqueues n jobs, one a call.
func (c *crew) add(b *Broker, n int) (ids []broker.ID) {
	c.Helper()
	for range n {
		got, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		must(c, err)
		ids = append(ids, got[0].ID)
	}
	return ids
}

// loads wants that b has loaded the state so often.
func (c *crew) loads(b *Broker, n int64) {
	c.Helper()
	if got := b.Stats().Loads.Load(); got != n {
		c.Errorf("the state was loaded %d times, want %d", got, n)
	}
}

// ready wants that the jobs of queue q that can be claimed are these, in order.
func (c *crew) ready(ids []broker.ID) {
	c.Helper()
	var got []broker.ID
	for _, l := range take(c, c.loaded, 1000) {
		got = append(got, l.Job.ID)
	}
	if !slices.Equal(got, ids) {
		c.Errorf("claimed %v, want %v", got, ids)
	}
}

func TestAProducerDoesNotLoadTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		take(t, c.loaded, 1)
		a, b := c.producer(), c.producer()
		var ids []broker.ID
		for range 5 {
			ids = append(ids, c.add(a, 3)...)
			ids = append(ids, c.add(c.loaded, 1)...)
			ids = append(ids, c.add(b, 1)...)
		}
		c.loads(a, 0)
		c.loads(b, 0)
		c.ready(ids)
		if n := counts(t, a); n.Leased != int64(len(ids))+1 {
			t.Errorf("counts of a producer: %+v", n)
		}
		c.loads(a, 1)
	})
}

func TestAProducerAloneDoesNotLoadTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		must(t, c.loaded.Close())
		a := c.producer()
		c.add(a, 5)
		c.loads(a, 0)
		must(t, a.Close())
		b, err := openOn(c.m.Process())
		must(t, err)
		if n := counts(t, b); n.Ready != 6 {
			t.Errorf("counts %+v", n)
		}
		must(t, b.Close())
	})
}

func TestAProducerThatRecoveredTheStoreKeepsNoState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		b, err := openLazy(c.m.Crash(crashfs.KeepNone).Process(), large)
		must(t, err)
		c.loads(b, 1) // the machine was started anew
		c.add(b, 5)
		if b.cur.Load().s != nil {
			t.Error("the state that the recovery needed is kept")
		}
		if n := counts(t, b); n.Ready != 6 {
			t.Errorf("counts %+v", n)
		}
		must(t, b.Close())
	})
}

// TestOpenOfALargeStoreReadsLittle counts what a process reads that opens a
// store of some MB, enqueues and leaves.
func TestOpenOfALargeStoreReadsLittle(t *testing.T) {
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			c := newCrew(t)
			for range 300 {
				_, err := c.loaded.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: make([]byte, 10_000)}})
				must(t, err)
			}
			if alone {
				must(t, c.loaded.Close())
			}
			synctest.Wait()
			p := c.m.Process()
			var read atomic.Int64
			c.m.Inject(func(op crashfs.Op) error {
				if op.Process == p && op.Kind == crashfs.OpReadAt {
					read.Add(int64(op.Length))
				}
				return nil
			})
			b, err := openLazy(p) // with the usual bound of a small store
			must(t, err)
			c.add(b, 1)
			if served, err := b.Served("q", "t"); err != nil || served {
				t.Errorf("served: %v %v", served, err)
			}
			must(t, b.Close())
			c.m.Inject(nil)
			c.loads(b, 0)
			if n := read.Load(); n > 128<<10 {
				t.Errorf("alone=%v: %d bytes were read", alone, n)
			}
		})
	}
}

func TestACapacityBindsProducersThatHaveNotLoadedTheState(t *testing.T) {
	set := func(b *Broker, limit int64, tenant string) error {
		change := broker.Change{Set: []broker.Setting{{Kind: broker.CapacitySetting, Name: tenant, Capacity: &broker.Capacity{Jobs: limit}}}}
		if limit == 0 {
			change = broker.Change{Clear: []broker.SettingName{{Kind: broker.CapacitySetting, Name: tenant}}}
		}
		return b.Configure(context.Background(), broker.NewCall(), "q", change)
	}
	refused := func(t *testing.T, b *Broker) {
		t.Helper()
		_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		if full := (*broker.FullError)(nil); !errors.As(err, &full) {
			t.Errorf("an enqueue over the capacity: %v", err)
		}
	}
	for _, tenant := range []string{"", broker.TenantCapacity} {
		for _, compact := range []bool{false, true} {
			t.Run(fmt.Sprintf("tenant %q, compacted %v", tenant, compact), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := newCrew(t)
					a, idle := c.producer(), c.producer()
					c.add(a, 2)
					c.add(idle, 1)
					must(t, set(c.loaded, 6, tenant))
					if compact {
						_, err := c.loaded.Compact(context.Background())
						must(t, err)
					}
					c.add(a, 2)
					refused(t, a)
					refused(t, idle)
					refused(t, c.producer())
					must(t, set(c.loaded, 0, tenant))
					fresh := c.producer()
					c.add(fresh, 3)
					c.add(idle, 1)
					c.loads(fresh, 0)
					if n := counts(t, c.loaded); n.Ready != 10 {
						t.Errorf("counts %+v", n)
					}
				})
			})
		}
	}
}

func TestAKnownIDOrAKeyIsFoundByAProducer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		enqueue := func(b *Broker, j broker.NewJob) broker.Enqueued {
			t.Helper()
			got, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{j})
			must(t, err)
			return got[0]
		}
		j := broker.NewJob{Task: "t"}
		j.MakeID()
		a := c.producer()
		if got := enqueue(a, j); got.Existing || got.ID != j.ID {
			t.Errorf("a job with a new id: %+v", got)
		}
		c.loads(a, 0)
		known := broker.NewJob{ID: j.ID, Task: "t"}
		if got := enqueue(a, known); !got.Existing {
			t.Errorf("the same id: %+v", got)
		}
		if got := enqueue(c.producer(), known); !got.Existing {
			t.Errorf("the same id, from another: %+v", got)
		}
		first := enqueue(c.producer(), broker.NewJob{Task: "t", Key: "k"})
		if got := enqueue(c.producer(), broker.NewJob{Task: "t", Key: "k"}); !got.Existing || got.ID != first.ID {
			t.Errorf("a key that is held: %+v, want %v", got, first.ID)
		}
		if n := counts(t, c.loaded); n.Ready != 3 {
			t.Errorf("counts %+v", n)
		}
	})
}

// TestAProducerGoesOnThroughRollsAndCompactions lets a producer fill segments,
// and others drop them, also those that it has not read.
func TestAProducerGoesOnThroughRollsAndCompactions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		a, asleep := c.producer(), c.producer()
		want := int64(1)
		for round := range 6 {
			c.add(a, 40)
			want += 40
			if round%2 == 1 {
				_, err := c.loaded.Compact(context.Background())
				must(t, err)
			}
		}
		c.add(asleep, 1)
		c.add(a, 1)
		c.loads(a, 0)
		c.loads(asleep, 0)
		if n := counts(t, c.loaded); n.Ready != want+2 {
			t.Errorf("%d jobs are ready, want %d", n.Ready, want+2)
		}
		if pos := a.cur.Load().log.Pos(); pos.Segment < 5 {
			t.Errorf("the producer is at %v: it sealed no segment", pos)
		}
	})
}

func TestAProducerWakesOneOfTheIdleWorkersThatAreAlike(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancel(context.Background())
		c := newCrew(t)
		take(t, c.loaded, 1)
		got := make(chan time.Time, 8)
		for i, tasks := range [][]string{{"t"}, {"t"}, {"t"}, {"other"}} {
			b, err := openOn(c.m.Process())
			must(t, err)
			t.Cleanup(func() { must(t, b.Close()) })
			id := fmt.Sprint(i)
			_, err = b.Extend(ctx, broker.ExtendRequest{Worker: broker.Worker{ID: id, Name: id, Queues: []string{"q"}, Tasks: tasks}})
			must(t, err)
			go func() {
				claimed, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Tasks: tasks, Max: 1, Worker: id, Wait: time.Hour})
				if err == nil && len(claimed.Leases) == 1 {
					got <- time.Now()
				}
			}()
		}
		synctest.Wait()
		a := c.producer()
		for task, want := range map[string]bool{"t": true, "other": true, "third": false} {
			if served, err := a.Served("q", task); err != nil || served != want {
				t.Errorf("served %s: %v %v", task, served, err)
			}
		}
		before := time.Now()
		h := a.cur.Load()
		c.add(a, 1)
		if took := (<-got).Sub(before); took > 10*time.Millisecond {
			t.Errorf("the job was claimed after %v", took)
		}
		synctest.Wait()
		idle := 0
		words := h.log.Shared()
		for i := 0; i+slotWords <= len(words); i += slotWords {
			if atomic.LoadUint64(&words[i+slotIdle]) != 0 {
				idle++
			}
		}
		if idle != 3 {
			t.Errorf("%d of 4 are idle still, want 3", idle)
		}
		c.loads(a, 0)
		stop()
		synctest.Wait()
	})
}

func TestAPoisonedStoreStopsProducersAndTheyGoOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		a, b := c.producer(), c.producer()
		c.add(a, 2)
		c.add(b, 2)
		var done atomic.Bool
		c.m.Inject(func(op crashfs.Op) error {
			if op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") && done.CompareAndSwap(false, true) {
				return syscall.EIO
			}
			return nil
		})
		for name, p := range map[string]*Broker{"a": a, "b": b, "loaded": c.loaded} {
			if _, err := p.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); !errors.Is(err, broker.ErrPoisoned) {
				t.Errorf("%s: %v", name, err)
			}
		}
		<-time.After(time.Minute)
		c.add(a, 1)
		c.add(b, 1)
		if n := counts(t, c.loaded); n.Ready < 7 {
			t.Errorf("counts %+v", n)
		}
	})
}

func TestAFullDiskRefusesProducersAndLetsOthersFinish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		a := c.producer()
		c.m.SetDiskBytes(c.m.Used())
		full := false
		for range 1000 {
			_, err := a.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: make([]byte, 500)}})
			if full = errors.Is(err, broker.ErrFull); full {
				break
			}
			must(t, err)
		}
		if !full {
			t.Fatal("the disk does not fill up")
		}
		c.loads(a, 0)
		settle(t, c.loaded, broker.Ack, take(t, c.loaded, 1)...)
		c.m.SetDiskBytes(0)
		<-time.After(5 * time.Second)
		c.add(a, 1)
		c.loads(a, 0)
	})
}

// TestADamagedStoreRefusesAProducerOnceItKnows: damage where Open did not look is
// found by the first call that loads the state, and by no enqueue after it.
func TestADamagedStoreRefusesAProducerOnceItKnows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		c.add(c.loaded, 20)
		for range 20 { // so that Open does not look at the start
			_, err := c.loaded.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: make([]byte, 10_000)}})
			must(t, err)
		}
		must(t, c.loaded.Close())
		name := labDir + "/" + segmentName(1)
		f, err := c.m.Process().Open(name, 2)
		must(t, err)
		content, err := c.m.ReadFile(name)
		must(t, err)
		at := int64(700)
		_, err = f.WriteAt([]byte{content[at] ^ 1}, at)
		must(t, err)
		must(t, f.Close())
		b := c.producer()
		c.add(b, 1)
		if _, err := b.Counts(context.Background(), "q"); !errors.Is(err, broker.ErrCorrupt) || !strings.Contains(err.Error(), ".log") {
			t.Errorf("counts: %v", err)
		}
		if h, err := b.Health(context.Background()); err != nil || h.Status != broker.Corrupt {
			t.Errorf("health: %+v %v", h, err)
		}
		if _, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); !errors.Is(err, broker.ErrCorrupt) {
			t.Errorf("an enqueue afterwards: %v", err)
		}
	})
}

// TestACallerLeavesALoadOnItsContext and the load goes on.
func TestACallerLeavesALoadOnItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		b := c.producer()
		synctest.Wait()
		p := b.cfg.sys.(*crashfs.Process)
		until := make(chan struct{})
		c.m.Inject(func(op crashfs.Op) error {
			if op.Process == p && op.Kind == crashfs.OpReadDir {
				<-until
			}
			return nil
		})
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if _, err := b.Counts(ctx, "q"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("counts: %v", err)
		}
		c.m.Inject(nil)
		close(until)
		if n := counts(t, b); n.Ready != 1 {
			t.Errorf("counts %+v", n)
		}
		c.loads(b, 1)
	})
}

// TestProducersWithoutTheStateLoseNothingInARandomLife mixes producers that come,
// go and are killed with one process that claims, compacts and sets capacities,
// and cuts the power now and then. Whatever was acknowledged has to be there,
// once, and every process has to come to the same state.
func TestProducersWithoutTheStateLoseNothingInARandomLife(t *testing.T) {
	t.Parallel()
	for seed := range uint64(many(400, 40)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { producersLife(t, rand.New(rand.NewPCG(seed, 6))) })
		})
	}
}

// life is what a random life remembers.
type life struct {
	testing.TB
	*rand.Rand
	m         *crashfs.Machine
	worker    *Broker
	producers []*Broker
	owed      map[broker.ID]bool // acknowledged, and not acked yet
	capacity  bool
}

func producersLife(t *testing.T, r *rand.Rand) {
	l := &life{TB: t, Rand: r, m: crashfs.New(crashfs.Config{Seed: r.Uint64(), FollowTime: true, Uptime: time.Hour}), owed: map[broker.ID]bool{}}
	l.open()
	for range 150 {
		switch n := l.IntN(100); {
		case n < 60 && len(l.producers) > 0:
			l.enqueue(l.producers[l.IntN(len(l.producers))])
		case n < 70 && len(l.producers) < 4:
			b, err := openLazy(l.m.Process(), large)
			must(t, err)
			l.producers = append(l.producers, b)
		case n < 76:
			l.dismiss()
		case n < 88:
			l.work()
		case n < 93:
			_, err := l.worker.Compact(context.Background())
			must(t, err)
		case n < 97:
			l.limit()
		default:
			l.cut()
		}
		synctest.Wait()
	}
	for l.capacity = false; len(l.owed) > 0; {
		before := len(l.owed)
		if l.work(); len(l.owed) == before {
			t.Fatalf("%d jobs that were acknowledged are gone", len(l.owed))
		}
	}
	fresh, err := openOn(l.m.Process())
	must(t, err)
	l.worker.cur.Load().readForward()
	if string(encoded(t, fresh)) != string(encoded(t, l.worker)) {
		t.Error("another process comes to another state")
	}
	must(t, fresh.Close())
	l.end()
}

func (l *life) open() {
	var err error
	l.worker, err = openOn(l.m.Process())
	must(l, err)
}

func (l *life) end() {
	for _, b := range append(l.producers, l.worker) {
		must(l, b.Close())
	}
	l.producers = nil
}

func (l *life) enqueue(b *Broker) {
	l.Helper()
	jobs := make([]broker.NewJob, 1+l.IntN(3))
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, l.IntN(300)), Group: []string{"", "g"}[l.IntN(2)]}
		if l.IntN(10) == 0 {
			jobs[i].Delay = time.Millisecond
		}
	}
	got, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs)
	if full := (*broker.FullError)(nil); l.capacity && errors.As(err, &full) {
		return
	}
	must(l, err)
	for _, e := range got {
		l.owed[e.ID] = true
	}
}

// work claims some jobs and acks them. Producers make no other.
func (l *life) work() {
	l.Helper()
	<-time.After(2 * time.Millisecond)
	got, err := l.worker.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 20, Worker: "w"})
	must(l, err)
	for _, lease := range got.Leases {
		if !l.owed[lease.Job.ID] {
			l.Fatalf("job %v was not acknowledged, or was acked before", lease.Job.ID)
		}
		delete(l.owed, lease.Job.ID)
	}
	settle(l, l.worker, broker.Ack, got.Leases...)
}

// limit sets a capacity of what is there, or clears it: the next enqueue of any
// producer is refused, or is not.
func (l *life) limit() {
	l.Helper()
	name := broker.SettingName{Kind: broker.CapacitySetting}
	change := broker.Change{Clear: []broker.SettingName{name}}
	if l.capacity = !l.capacity; l.capacity {
		change = broker.Change{Set: []broker.Setting{{Kind: name.Kind, Capacity: &broker.Capacity{Jobs: int64(max(len(l.owed), 1))}}}}
	}
	must(l, l.worker.Configure(context.Background(), broker.NewCall(), "q", change))
	if !l.capacity || len(l.owed) == 0 {
		return
	}
	for _, b := range l.producers {
		_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		if full := (*broker.FullError)(nil); !errors.As(err, &full) {
			l.Fatalf("a queue with a capacity of what it holds took a job: %v", err)
		}
	}
}

// dismiss closes a producer, or kills it, perhaps in the middle of a write.
func (l *life) dismiss() {
	l.Helper()
	if len(l.producers) == 0 {
		return
	}
	i := l.IntN(len(l.producers))
	b := l.producers[i]
	l.producers = slices.Delete(l.producers, i, i+1)
	p := b.cfg.sys.(*crashfs.Process)
	switch l.IntN(3) {
	case 0:
		must(l, b.Close())
		return
	case 1:
		n := l.IntN(120)
		l.m.Inject(func(op crashfs.Op) error {
			if op.Process == p && op.Kind == crashfs.OpWriteAt && strings.HasSuffix(op.Path, ".log") {
				return crashfs.ShortWrite{N: n, Err: crashfs.ErrKilled}
			}
			return nil
		})
		_, err := b.Enqueue(context.Background(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: make([]byte, 200)}})
		if full := (*broker.FullError)(nil); err == nil || errors.As(err, &full) && !l.capacity {
			l.Fatalf("killed in a write: %v", err)
		}
		l.m.Inject(nil)
	}
	p.Kill()
	b.Close() // the process is dead
}

// cut cuts the power, and opens the store again, first by a producer or by the
// worker.
func (l *life) cut() {
	l.Helper()
	next := l.m.Crash(crashfs.KeepNone)
	for _, b := range append(l.producers, l.worker) {
		b.cfg.sys.(*crashfs.Process).Kill()
		b.Close() // the process is dead
	}
	l.m, l.producers = next, nil
	if l.IntN(2) == 0 {
		b, err := openLazy(l.m.Process(), large)
		must(l, err)
		l.producers = append(l.producers, b)
		l.enqueue(b)
	}
	l.open()
}

// TestIdleHandlesLetGoOfWhatACompactionDropped leaves handles idle, those that
// only enqueue and those that know the jobs, while the store is compacted again
// and again. What they have open must not take the disk.
func TestIdleHandlesLetGoOfWhatACompactionDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const segment, handles = 64 << 10, 10
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		open := func() *Broker {
			b, err := openLazy(m.Process(), large, func(c *Config) { c.segment = segment })
			must(t, err)
			return b
		}
		busy := open()
		defer busy.Close()
		var idle []*Broker
		for i := range handles {
			b := open()
			_, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
			must(t, err)
			if i%2 == 0 {
				counts(t, b)
			}
			idle = append(idle, b)
			fillQueue(t, busy, "q", 100, 100)
			_, err = workOff(t, busy, "q", 1000)
			must(t, err)
			_, err = busy.Compact(t.Context())
			must(t, err)
		}
		time.Sleep(3 * letGoEvery)
		before := m.Used()
		_, err := idle[1].Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		must(t, err)
		for _, b := range idle {
			must(t, b.Close())
		}
		if freed := before - m.Used(); freed > segment {
			t.Errorf("%d idle handles held %d of %d bytes", handles, freed, before)
		}
	})
}
