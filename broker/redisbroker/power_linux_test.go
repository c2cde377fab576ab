package redisbroker

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// TestAPowerCutOfTheServerLosesNoMoreThanCapsSays cuts the power of the disk of a
// server under load. What is lost of that which was acknowledged before lies
// within what Caps says; that of the server which never syncs is the control.
func TestAPowerCutOfTheServerLosesNoMoreThanCapsSays(t *testing.T) {
	slow(t)
	for _, c := range []struct {
		name   string
		keeps  redistest.Persistence
		cfg    Config
		says   string
		within time.Duration // of the cut: what was acknowledged before that is there
		loses  bool          // something has to be lost
	}{
		{"nothing with always", redistest.Always, Config{}, "and a power cut (appendfsync always)", 0, false},
		{"nothing where the disk is waited for", redistest.Everysec, Config{WaitDisk: true}, "its sync to the disk is waited for", 0, false},
		{"the last two seconds with everysec", redistest.Everysec, Config{}, "loses up to the last 2 seconds", 2 * time.Second, false},
		{"much without a sync", redistest.Unsynced, Config{}, "loses what the system had not written by itself", time.Hour, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel() // it mostly waits
			disk := redistest.NewDisk(t)
			s := redistest.Start(t, redistest.Options{Persistence: c.keeps, Dir: disk.Dir()})
			t.Cleanup(s.Kill) // before the disk goes
			c.cfg.Namespace = "ns"
			b, err := Open(t.Context(), s.URL(), c.cfg)
			if errors.Is(err, broker.ErrUnsupported) {
				t.Skip(err) // WAITAOF came with Redis 7.2
			}
			if err != nil {
				t.Fatal(err)
			}
			if said := b.Caps().Durability; !strings.Contains(said, c.says) {
				t.Errorf("Caps says %q", said)
			}
			l := startLoad(t, b)
			for began := time.Now(); time.Since(began) < 3500*time.Millisecond || !l.enough() && time.Since(began) < time.Minute; {
				<-time.After(50 * time.Millisecond)
			}
			cut := time.Now()
			disk.Cut()
			s.Kill()
			l.end()
			_ = b.Close() // nobody is there to hear it
			disk.Repower()
			s.Restart()
			lost, oldest := l.lost(open(t, s.URL(), "ns", nil), cut)
			t.Logf("of %d acknowledged jobs and %d acknowledged acks %d are lost, the oldest acknowledged %v before the cut", len(l.added), len(l.acked), lost, oldest.Round(time.Millisecond))
			switch {
			case !l.enough():
				t.Error("that is too little to show anything")
			case lost > 0 && oldest > c.within:
				t.Errorf("what was acknowledged %v before the cut is lost, allowed is %v", oldest, c.within)
			case c.loses && lost == 0:
				t.Error("nothing is lost though nothing was synced: the cut is none")
			}
		})
	}
}

// load adds jobs and acks some of them, and remembers when what was acknowledged.
type load struct {
	t    *testing.T
	b    *Broker
	stop context.CancelFunc
	wg   sync.WaitGroup

	mu           sync.Mutex
	added, acked map[broker.ID]time.Time
}

func startLoad(t *testing.T, b *Broker) *load {
	ctx, stop := context.WithCancel(t.Context())
	l := &load{t: t, b: b, stop: stop, added: map[broker.ID]time.Time{}, acked: map[broker.ID]time.Time{}}
	for range 4 {
		l.wg.Go(func() {
			for ctx.Err() == nil && l.round(ctx) == nil {
			}
		})
	}
	return l
}

// round adds two jobs, and claims and acks one. An error means that the power is gone.
func (l *load) round(ctx context.Context) error {
	for range 2 {
		job := broker.NewJob{Task: "t", Retain: time.Hour}
		job.MakeID()
		if _, err := l.b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{job}); err != nil {
			return err
		}
		l.note(l.added, job.ID)
	}
	got, err := l.b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, TTL: time.Hour, Remote: true})
	if err != nil || len(got.Leases) == 0 {
		return err
	}
	j := &got.Leases[0]
	settled, err := l.b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: j.Job.Ref(), Token: j.Token, Kind: broker.Ack}})
	if err == nil && settled[0].Err == nil {
		l.note(l.acked, j.Job.ID)
	}
	return err
}

// enough reports whether there was so much that a loss would be seen. A disk that
// others use, too, may take a second for each of the syncs.
func (l *load) enough() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.added) >= 100 && len(l.acked) >= 30
}

func (l *load) note(in map[broker.ID]time.Time, id broker.ID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	in[id] = time.Now()
}

func (l *load) end() {
	l.stop()
	l.wg.Wait()
}

// lost counts what is not there of that which was acknowledged, and says how long
// before the cut the oldest of it was.
func (l *load) lost(b *Broker, cut time.Time) (n int, oldest time.Duration) {
	l.t.Helper()
	defer func() { _ = b.Close() }()
	check := func(all map[broker.ID]time.Time, there func(j *broker.Job) bool) {
		var refs []broker.Ref
		for id := range all {
			refs = append(refs, broker.Ref{Queue: "q", ID: id})
		}
		jobs, err := b.Get(l.t.Context(), refs)
		if err != nil {
			l.t.Fatal(err)
		}
		for i := range jobs {
			if !there(&jobs[i]) {
				n++
				oldest = max(oldest, cut.Sub(all[jobs[i].ID]))
			}
		}
	}
	check(l.added, func(j *broker.Job) bool { return j.State != 0 })
	check(l.acked, func(j *broker.Job) bool { return j.State == broker.Done })
	return n, oldest
}
