package filebroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// clockwork is a system with alarm clocks, which can fail.
type clockwork struct {
	vfs.System
	noAlarm, noSet, noNext error
	made, open, rang       atomic.Int32
}

func (s *clockwork) Alarm() (vfs.Alarm, error) {
	s.made.Add(1)
	if s.noAlarm != nil {
		return nil, s.noAlarm
	}
	s.open.Add(1)
	never := time.NewTimer(time.Hour)
	never.Stop()
	return &fakeAlarm{s: s, timer: never, closed: make(chan struct{})}, nil
}

type fakeAlarm struct {
	s      *clockwork
	timer  *time.Timer
	closed chan struct{}
}

func (a *fakeAlarm) Set(at time.Duration) error {
	if a.s.noSet != nil {
		return a.s.noSet
	}
	a.timer.Reset(at - a.s.Monotonic())
	return nil
}

func (a *fakeAlarm) Next() error {
	select {
	case <-a.timer.C:
		a.s.rang.Add(1)
		return a.s.noNext
	case <-a.closed:
		return fs.ErrClosed
	}
}

func (a *fakeAlarm) Close() error {
	a.s.open.Add(-1)
	close(a.closed)
	return nil
}

// waitingFor opens a store with one job in each of n queues, due 7 ms apart,
// and claims each by a call that waits, all at the same time. It returns how
// late each was, once the store is closed, and what was logged.
func waitingFor(t *testing.T, s *clockwork, n int) (late []time.Duration, logged string) {
	t.Helper()
	var text bytes.Buffer
	b, err := openOn(s, func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
	must(t, err)
	begun := s.Monotonic()
	gap := 7*time.Millisecond + 123*time.Microsecond
	late = make([]time.Duration, n)
	var claims sync.WaitGroup
	for i := range n {
		due := time.Duration((i+n/2)%n+1) * gap // the first to wait is not the first to be served
		queue := fmt.Sprintf("q%d", i)
		_, err := b.Enqueue(t.Context(), broker.Call{}, queue, []broker.NewJob{{Task: "t", Delay: due}})
		must(t, err)
		claims.Go(func() {
			got, err := b.Claim(t.Context(), broker.Call{}, broker.ClaimRequest{Queues: []string{queue}, Max: 1, Wait: time.Second})
			if err != nil || len(got.Leases) != 1 {
				t.Errorf("%s: %d leases, error %v", queue, len(got.Leases), err)
			}
			late[i] = s.Monotonic() - begun - due
		})
	}
	claims.Wait()
	must(t, b.Close())
	synctest.Wait()
	return late, text.String()
}

func TestAWaitingClaimEndsWhenItsJobIsDue(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name  string
		s     *clockwork
		rings bool // the alarm clock does
		warns bool
	}{
		{"by the alarm clock", &clockwork{}, true, false},
		{"by a timer where the system has no alarm clock", &clockwork{noAlarm: errors.ErrUnsupported}, false, false},
		{"by a timer when no alarm clock can be made", &clockwork{noAlarm: broken}, false, true},
		{"by a timer when the alarm clock cannot be set", &clockwork{noSet: broken}, false, true},
		{"by a timer when the alarm clock breaks", &clockwork{noNext: broken}, true, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := c.s
				s.System = crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour}).Process()
				const claims = 5
				late, logged := waitingFor(t, s, claims)
				for i, d := range late {
					if d != 0 {
						t.Errorf("claim %d was %v late", i, d)
					}
				}
				if s.made.Load() != 1 || s.open.Load() != 0 {
					t.Errorf("%d alarm clocks were made and %d left open, want one and none", s.made.Load(), s.open.Load())
				}
				if rang := s.rang.Load(); (rang > 0) != c.rings || rang > claims {
					t.Errorf("the alarm clock rang %d times for %d claims", rang, claims)
				}
				if warned := bytes.Contains([]byte(logged), []byte("no alarm clock")); warned != c.warns {
					t.Errorf("warned: %v, want %v: %s", warned, c.warns, logged)
				}
			})
		})
	}
}

func TestAClaimThatWaitsForTheAlarmClockCanBeEnded(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(t *testing.T, b *Broker, cancel func())
		jobs int
	}{
		{"by its context", func(_ *testing.T, _ *Broker, cancel func()) { cancel() }, 0},
		{"by Close", func(t *testing.T, b *Broker, _ func()) { must(t, b.Close()) }, 0},
		{"by a job", func(t *testing.T, b *Broker, _ func()) {
			_, err := b.Enqueue(t.Context(), broker.Call{}, "q", []broker.NewJob{{Task: "t"}})
			must(t, err)
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &clockwork{System: crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour}).Process()}
				b, err := openOn(s)
				must(t, err)
				_, err = b.Enqueue(t.Context(), broker.Call{}, "q", []broker.NewJob{{Task: "t", Delay: time.Second}})
				must(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan int)
				go func() {
					got, _ := b.Claim(ctx, broker.Call{}, broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Wait: time.Minute})
					ended <- len(got.Leases)
				}()
				synctest.Wait()
				begun := s.Monotonic()
				c.end(t, b, cancel)
				if jobs, took := <-ended, s.Monotonic()-begun; jobs != c.jobs || took != 0 || s.made.Load() != 1 {
					t.Errorf("ended with %d jobs after %v with %d alarm clocks made, want %d at once with one", jobs, took, s.made.Load(), c.jobs)
				}
				time.Sleep(2 * time.Second) // what is left of the wait passes
				must(t, b.Close())
				if open := s.open.Load(); open != 0 {
					t.Errorf("%d alarm clocks are open after Close", open)
				}
			})
		})
	}
}
