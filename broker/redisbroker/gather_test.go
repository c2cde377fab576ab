package redisbroker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
)

// fakeServer answers each call with itself, or does what a test says.
type fakeServer struct {
	mu    sync.Mutex
	runs  [][]string
	again []bool          // of each run: a reply to it was lost before
	take  time.Duration   // of a run
	takes []time.Duration // of the first runs
	deaf  bool            // a context's end does not end a run
	fail  func(run int) error
}

func (f *fakeServer) attempt(ctx context.Context, _ *script, _ string, calls [][]byte, again bool) ([][]byte, error) {
	texts := make([]string, len(calls))
	for i, c := range calls {
		texts[i] = string(c)
	}
	f.mu.Lock()
	f.runs, f.again = append(f.runs, texts), append(f.again, again)
	n, take, fail := len(f.runs), f.take, f.fail
	if n <= len(f.takes) {
		take = f.takes[n-1]
	}
	if f.deaf {
		ctx = context.WithoutCancel(ctx)
	}
	f.mu.Unlock()
	if take > 0 {
		select {
		case <-time.After(take):
		case <-ctx.Done():
			return nil, &failure{lost, ctx.Err()}
		}
	}
	if fail != nil {
		if err := fail(n); err != nil {
			return nil, err
		}
	}
	answers := make([][]byte, len(calls))
	for i, c := range calls {
		answers[i] = append([]byte("re:"), c...)
	}
	return answers, nil
}

func (f *fakeServer) seen() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.runs {
		all = append(all, strings.Join(r, "+"))
	}
	return all
}

// bubble runs a test of a gather in a bubble, and closes it at its end.
func bubble(t *testing.T, f *fakeServer, test func(t *testing.T, g *gather)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		g := newGather(f.attempt)
		defer g.leads.Wait()
		defer g.close()
		test(t, g)
	})
}

var plain = &script{name: "plain"}

// outcome is what a caller got.
type outcome struct {
	answer string
	err    error
	after  time.Duration
}

// ask makes a call and sends its outcome.
func asks(ctx context.Context, g *gather, s *script, call string) <-chan outcome {
	out := make(chan outcome, 1)
	began := time.Now()
	go func() {
		answers, err := g.run(ctx, s, "q", [][]byte{[]byte(call)})
		o := outcome{err: err, after: time.Since(began)}
		if err == nil {
			o.answer = string(answers[0])
		}
		out <- o
	}()
	synctest.Wait()
	return out
}

func wantRuns(t *testing.T, f *fakeServer, want ...string) {
	t.Helper()
	if got := f.seen(); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("runs %q, want %q", got, want)
	}
}

func TestCallsTravelTogetherWhileARunIsOut(t *testing.T) {
	f := &fakeServer{take: time.Millisecond}
	bubble(t, f, func(t *testing.T, g *gather) {
		var outs []<-chan outcome
		for _, c := range []string{"a", "b", "c", "d"} {
			outs = append(outs, asks(t.Context(), g, plain, c))
		}
		for i, out := range outs {
			o := <-out
			if want := "re:" + string(rune('a'+i)); o.answer != want || o.err != nil {
				t.Errorf("call %d: %q, %v; want %q", i, o.answer, o.err, want)
			}
		}
		wantRuns(t, f, "a", "b+c+d")
	})
}

var twice = &script{name: "twice", flights: 2}

func TestASecondRunGoesOutWhereTheScriptAllowsTwo(t *testing.T) {
	f := &fakeServer{take: time.Millisecond, takes: []time.Duration{time.Millisecond, time.Millisecond, 3 * time.Millisecond}}
	bubble(t, f, func(t *testing.T, g *gather) {
		<-asks(t.Context(), g, twice, "first") // before it nobody knows how fast the server is
		var outs []<-chan outcome
		for _, c := range []string{"a", "b", "c", "d", "e", "f"} {
			outs = append(outs, asks(t.Context(), g, twice, c))
		}
		for _, out := range outs {
			if o := <-out; o.err != nil {
				t.Error(o.err)
			}
		}
		// Of the four that waited each of the two takes its share.
		wantRuns(t, f, "first", "a", "b", "c+d+e", "f")
	})
}

func TestNoSecondRunGoesOutWhileTheServerIsAway(t *testing.T) {
	f := &fakeServer{fail: func(run int) error {
		if run < 4 {
			return &failure{deferred, io.EOF}
		}
		return nil
	}}
	bubble(t, f, func(t *testing.T, g *gather) {
		a := asks(t.Context(), g, twice, "a")
		b, c := asks(t.Context(), g, twice, "b"), asks(t.Context(), g, twice, "c")
		for _, out := range []<-chan outcome{a, b, c} {
			if o := <-out; o.err != nil {
				t.Error(o.err)
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		for i, r := range f.runs[1:] {
			if len(r) != 3 {
				t.Errorf("run %d has %v: want one at a time, with all that wait", i+2, r)
			}
		}
	})
}

func TestTheFirstCallerGoesAtOnce(t *testing.T) {
	f := &fakeServer{}
	bubble(t, f, func(t *testing.T, g *gather) {
		if o := <-asks(t.Context(), g, plain, "a"); o.after != 0 || o.err != nil {
			t.Errorf("answered after %s with %v, want at once", o.after, o.err)
		}
	})
}

func TestARunIsBoundedByWeightAndBytes(t *testing.T) {
	heavy := &script{name: "heavy", most: 3, weigh: func(call []byte) int { return len(call) }}
	large := strings.Repeat("x", mostBytes/2+1)
	for _, c := range []struct {
		name   string
		script *script
		calls  []string
		want   []string
	}{
		{"by the weight of its calls", heavy, []string{"f", "a", "bb", "c", "d"}, []string{"f", "a+bb", "c+d"}},
		{"a call above the bound travels alone", heavy, []string{"f", "aaaaa", "b"}, []string{"f", "aaaaa", "b"}},
		{"by the bytes of its calls", plain, []string{"f", large, large}, []string{"f", large, large}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeServer{take: time.Millisecond}
			bubble(t, f, func(t *testing.T, g *gather) {
				var outs []<-chan outcome
				for _, call := range c.calls {
					outs = append(outs, asks(t.Context(), g, c.script, call))
				}
				for _, out := range outs {
					if o := <-out; o.err != nil {
						t.Error(o.err)
					}
				}
				wantRuns(t, f, c.want...)
			})
		})
	}
}

func TestQueuesAndScriptsDoNotWaitForEachOther(t *testing.T) {
	f := &fakeServer{take: time.Second}
	bubble(t, f, func(t *testing.T, g *gather) {
		one := asks(t.Context(), g, plain, "a")
		two := asks(t.Context(), g, &script{name: "other"}, "b")
		if o := <-one; o.after != time.Second {
			t.Errorf("one after %s", o.after)
		}
		if o := <-two; o.after != time.Second {
			t.Errorf("the other after %s", o.after)
		}
	})
}

func TestACallThatWasNotSentIsTakenBackWithItsContext(t *testing.T) {
	f := &fakeServer{take: time.Second}
	bubble(t, f, func(t *testing.T, g *gather) {
		first := asks(t.Context(), g, plain, "a")
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		second := asks(ctx, g, plain, "b")
		third := asks(t.Context(), g, plain, "c")
		if o := <-second; !errors.Is(o.err, context.DeadlineExceeded) || errors.Is(o.err, broker.ErrUnknown) || o.after != 100*time.Millisecond {
			t.Errorf("got %v after %s, want the context's error alone, at once", o.err, o.after)
		}
		<-first
		<-third
		wantRuns(t, f, "a", "c")
	})
}

func TestAContextThatHasEndedSendsNothing(t *testing.T) {
	f := &fakeServer{}
	bubble(t, f, func(t *testing.T, g *gather) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if o := <-asks(ctx, g, plain, "a"); !errors.Is(o.err, context.Canceled) {
			t.Error(o.err)
		}
		wantRuns(t, f)
	})
}

func TestACallOnItsWayGetsItsOutcomeOrUnknown(t *testing.T) {
	for _, c := range []struct {
		name    string
		take    time.Duration
		deaf    bool
		after   time.Duration
		unknown bool
	}{
		{"the reply comes soon after the context's end", 150 * time.Millisecond, true, 150 * time.Millisecond, false},
		{"no reply comes, and the attempt ends with the context", time.Hour, false, 100 * time.Millisecond, true},
		{"no reply comes, and the attempt hears of nothing", time.Hour, true, 100*time.Millisecond + grace, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeServer{take: c.take, deaf: c.deaf}
			bubble(t, f, func(t *testing.T, g *gather) {
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				o := <-asks(ctx, g, plain, "a")
				if o.after != c.after {
					t.Errorf("it returned after %s, want %s", o.after, c.after)
				}
				if !c.unknown && o.err != nil || c.unknown && !(errors.Is(o.err, broker.ErrUnknown) && errors.Is(o.err, context.DeadlineExceeded)) {
					t.Errorf("got %v", o.err)
				}
			})
		})
	}
}

func TestOneWhoLeavesEndsNoRunOfOthers(t *testing.T) {
	f := &fakeServer{take: time.Second}
	bubble(t, f, func(t *testing.T, g *gather) {
		first := asks(t.Context(), g, plain, "first")
		ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
		defer cancel()
		leaves, stays := asks(ctx, g, plain, "leaves"), asks(t.Context(), g, plain, "stays")
		if o := <-leaves; !errors.Is(o.err, broker.ErrUnknown) || o.after != 1500*time.Millisecond+grace {
			t.Errorf("the one who left: after %s %v", o.after, o.err)
		}
		<-first
		if o := <-stays; o.err != nil || o.after != 2*time.Second {
			t.Errorf("the one who stays: after %s %v", o.after, o.err)
		}
	})
}

// A server that has answered fast is near: the caller makes the run itself.
func TestACallerWhoMakesItsRunItselfIsNotHeldUpByAServerThatStalls(t *testing.T) {
	for _, c := range []struct {
		name    string
		stall   time.Duration // of the second run
		timeout time.Duration // of the caller
		after   time.Duration // it returns
		unknown bool
		runs    string
	}{
		{"it answers within the caller's patience", grace / 2, time.Hour, grace / 2, false, "a b"},
		{"the run is made again with more patience", time.Hour, time.Hour, grace, false, "a b b"},
		{"the caller's context has ended meanwhile", time.Hour, grace / 2, grace, true, "a b"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeServer{takes: []time.Duration{time.Millisecond, c.stall}}
			bubble(t, f, func(t *testing.T, g *gather) {
				<-asks(t.Context(), g, plain, "a")
				ctx, cancel := context.WithTimeout(t.Context(), c.timeout)
				defer cancel()
				o := <-asks(ctx, g, plain, "b")
				if o.after != c.after || errors.Is(o.err, broker.ErrUnknown) != c.unknown || !c.unknown && o.err != nil {
					t.Errorf("after %s: %v", o.after, o.err)
				}
				wantRuns(t, f, strings.Fields(c.runs)...)
			})
		})
	}
}

func TestALostReplyIsRepeatedUntilThereIsOne(t *testing.T) {
	f := &fakeServer{fail: func(run int) error {
		switch run {
		case 1:
			return &failure{lost, io.EOF}
		case 2:
			return &failure{deferred, errors.New("connection refused")}
		case 3:
			return &failure{refused, fmt.Errorf("%w: OOM", broker.ErrFull)} // says nothing of run 1
		}
		return nil
	}}
	bubble(t, f, func(t *testing.T, g *gather) {
		if o := <-asks(t.Context(), g, plain, "a"); o.answer != "re:a" || o.err != nil {
			t.Errorf("got %q, %v", o.answer, o.err)
		}
		wantRuns(t, f, "a", "a", "a", "a")
		if !slices.Equal(f.again, []bool{false, true, true, true}) {
			t.Errorf("repeats after a lost reply: %v", f.again)
		}
	})
}

func TestARefusalIsTheOutcomeOfThoseWhoWereNeverLost(t *testing.T) {
	f := &fakeServer{take: time.Millisecond, fail: func(run int) error {
		if run == 1 {
			return &failure{lost, io.EOF}
		}
		if run < 6 {
			return &failure{refused, fmt.Errorf("%w: OOM", broker.ErrFull)}
		}
		return nil
	}}
	bubble(t, f, func(t *testing.T, g *gather) {
		old, fresh := asks(t.Context(), g, plain, "old"), asks(t.Context(), g, plain, "fresh")
		if o := <-fresh; !errors.Is(o.err, broker.ErrFull) {
			t.Errorf("fresh: %v, want ErrFull", o.err)
		}
		if o := <-old; o.err != nil {
			t.Errorf("old: %v", o.err)
		}
		wantRuns(t, f, "old", "old+fresh", "old", "old", "old", "old")
	})
}

func TestRepeatsEndWithTheTimeForWhichTheyAreKnown(t *testing.T) {
	cause := errors.New("connection refused")
	for _, c := range []struct {
		name    string
		first   fate
		unknown bool
	}{
		{"never reached", deferred, false},
		{"reached once, and the reply lost", lost, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeServer{fail: func(run int) error {
				if run == 1 {
					return &failure{c.first, cause}
				}
				return &failure{deferred, cause}
			}}
			bubble(t, f, func(t *testing.T, g *gather) {
				o := <-asks(t.Context(), g, plain, "a")
				if errors.Is(o.err, broker.ErrUnknown) != c.unknown || !errors.Is(o.err, cause) {
					t.Errorf("got %v", o.err)
				}
				if o.after > retryFor || o.after < retryFor-2*backoffMost {
					t.Errorf("given up after %s", o.after)
				}
				if n := len(f.seen()); n < 120 || n > 1000 {
					t.Errorf("%d attempts in %s", n, o.after)
				}
			})
		})
	}
}

func TestACallThatWaitsToBeRepeatedEndsWithItsContext(t *testing.T) {
	for _, c := range []struct {
		name string
		fate fate
		want error
		not  error
	}{
		{"never sent: nothing took place", deferred, context.DeadlineExceeded, broker.ErrUnknown},
		{"a reply was lost", lost, broker.ErrUnknown, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeServer{fail: func(int) error { return &failure{c.fate, io.EOF} }}
			bubble(t, f, func(t *testing.T, g *gather) {
				ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
				defer cancel()
				o := <-asks(ctx, g, plain, "a")
				if !errors.Is(o.err, c.want) || !errors.Is(o.err, context.DeadlineExceeded) || c.not != nil && errors.Is(o.err, c.not) || o.after != 10*time.Second {
					t.Errorf("after %s: %v", o.after, o.err)
				}
				synctest.Wait()
				g.mu.Lock()
				defer g.mu.Unlock()
				for _, l := range g.lines {
					if l.flights[0].led {
						t.Error("somebody still leads for a caller who has left")
					}
				}
			})
		})
	}
}

func TestACloseSettlesAllCalls(t *testing.T) {
	f := &fakeServer{take: time.Hour}
	bubble(t, f, func(t *testing.T, g *gather) {
		out, waits := asks(t.Context(), g, plain, "a"), asks(t.Context(), g, plain, "b")
		g.close()
		if o := <-waits; !errors.Is(o.err, broker.ErrClosed) || errors.Is(o.err, broker.ErrUnknown) {
			t.Errorf("one that waited: %v", o.err)
		}
		if o := <-out; !errors.Is(o.err, broker.ErrClosed) || !errors.Is(o.err, broker.ErrUnknown) {
			t.Errorf("one on its way: %v", o.err)
		}
		if o := <-asks(t.Context(), g, plain, "c"); !errors.Is(o.err, broker.ErrClosed) {
			t.Errorf("one that came after: %v", o.err)
		}
	})
}

func TestARequestOfSeveralCallsIsWholeOrUnknown(t *testing.T) {
	heavy := &script{name: "one at a time", most: 1}
	f := &fakeServer{fail: func(run int) error {
		if run == 2 {
			return &failure{refused, broker.ErrFull}
		}
		return nil
	}}
	bubble(t, f, func(t *testing.T, g *gather) {
		_, err := g.run(t.Context(), heavy, "q", [][]byte{[]byte("a"), []byte("b")})
		if !errors.Is(err, broker.ErrUnknown) || !errors.Is(err, broker.ErrFull) {
			t.Errorf("one call took place and one was refused: %v", err)
		}
		answers, err := g.run(t.Context(), heavy, "q", [][]byte{[]byte("a"), []byte("b")})
		if err != nil || string(bytes.Join(answers, nil)) != "re:are:b" {
			t.Errorf("got %q, %v", answers, err)
		}
	})
}

// TestEveryCallerGetsTheAnswerToItsOwnCall: callers come and go while the
// server fails in every way; what it remembers is neither doubled nor lost.
func TestEveryCallerGetsTheAnswerToItsOwnCall(t *testing.T) {
	const callers, each = 32, 100
	var mu sync.Mutex
	done := map[string]int{}
	server := func(_ context.Context, _ *script, _ string, calls [][]byte, _ bool) ([][]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		what := rand.IntN(10)
		if what == 0 {
			return nil, &failure{deferred, io.EOF}
		}
		answers := make([][]byte, len(calls))
		for i, c := range calls {
			done[string(c)] = 1
			answers[i] = append([]byte("re:"), c...)
		}
		if what == 1 {
			return nil, &failure{lost, io.EOF}
		}
		return answers, nil
	}
	synctest.Test(t, func(t *testing.T) {
		g := newGather(server)
		defer g.leads.Wait()
		defer g.close()
		var wg sync.WaitGroup
		for c := range callers {
			wg.Go(func() {
				for i := range each {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(rand.IntN(50))*time.Millisecond)
					call := fmt.Sprintf("%d/%d", c, i)
					answers, err := g.run(ctx, plain, "q", [][]byte{[]byte(call)})
					cancel()
					mu.Lock()
					switch {
					case err == nil && string(answers[0]) != "re:"+call:
						t.Errorf("%s got %s", call, answers[0])
					case err == nil && done[call] == 0:
						t.Errorf("%s was answered and not done", call)
					case err != nil && !errors.Is(err, broker.ErrUnknown) && done[call] != 0:
						t.Errorf("%s was done, and got %v", call, err)
					}
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	})
}
