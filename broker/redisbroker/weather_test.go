package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// keep is a transition that a test can judge: it appends each call to a list
// once, however often it is repeated, and publishes it.
var keep = &script{name: "keep", durable: true, source: `#!lua
local log, answers = KEYS[1] .. ':log', {}
for i, call in ipairs(ARGV) do
  local place = redis.call('HGET', KEYS[1], call)
  if not place then
    place = tostring(redis.call('RPUSH', log, call))
    redis.call('HSET', KEYS[1], call, place)
    redis.call('PUBLISH', string.gsub(KEYS[1], 'c$', 'm'), call)
  end
  answers[i] = place
end
return answers`}

// connect opens a transport.
func connect(t *testing.T, url string, cfg Config) *network {
	t.Helper()
	to, err := parse(url, &cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg = cfg.withDefaults()
	n, err := newNetwork(t.Context(), to, cfg, namesOf(cfg.Namespace))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.close() })
	return n
}

// put makes one call of keep.
func put(ctx context.Context, n *network, call string) error {
	_, err := n.run(ctx, keep, "q", [][]byte{[]byte(call)})
	return err
}

// callers make calls of keep, one after the other each, and repeat those whose
// outcome is unknown.
type callers struct {
	n    *network
	stop atomic.Bool
	wg   sync.WaitGroup

	mu      sync.Mutex
	kept    []string       // acknowledged
	refused map[string]any // by call: why it did not take place
	fresh   chan struct{}  // told of each acknowledged call
}

func startCallers(t *testing.T, n *network, many int) *callers {
	t.Helper()
	c := &callers{n: n, refused: map[string]any{}, fresh: make(chan struct{}, 1)}
	t.Cleanup(func() { c.stop.Store(true) })
	for who := range many {
		c.wg.Go(func() {
			for i := 0; !c.stop.Load(); i++ {
				c.call(fmt.Sprintf("%d-%d", who, i))
			}
		})
	}
	return c
}

func (c *callers) call(call string) {
	err := broker.ErrUnknown
	for errors.Is(err, broker.ErrUnknown) {
		err = put(context.Background(), c.n, call)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.refused[call] = err
		return
	}
	c.kept = append(c.kept, call)
	select {
	case c.fresh <- struct{}{}:
	default:
	}
}

// more waits until so many further calls are acknowledged.
func (c *callers) more(t *testing.T, calls int) {
	t.Helper()
	late := time.After(60 * time.Second)
	for range calls {
		select {
		case <-c.fresh:
		case <-late:
			t.Fatal("no call is acknowledged any more")
		}
	}
}

// nothingDoubledNothingLost ends the callers and compares what they were told
// with what the server kept.
func (c *callers) nothingDoubledNothingLost(t *testing.T, log func() []string) {
	t.Helper()
	c.stop.Store(true)
	c.wg.Wait()
	times := map[string]int{}
	for _, call := range log() {
		if times[call]++; times[call] == 2 {
			t.Errorf("%s took place twice", call)
		}
	}
	for _, call := range c.kept {
		if times[call] == 0 {
			t.Errorf("%s was acknowledged and is lost", call)
		}
	}
	for call, why := range c.refused {
		t.Errorf("%s was refused: %v", call, why)
		if times[call] != 0 {
			t.Errorf("and took place")
		}
	}
	t.Logf("%d calls acknowledged, %d kept", len(c.kept), len(times))
}

// logOf reads what keep kept on a server.
func logOf(s *redistest.Server) []string {
	list, _ := s.Must("LRANGE", namesOf("spool")("q").config+":log", 0, -1).([]any)
	all := make([]string, len(list))
	for i, v := range list {
		all[i] = fmt.Sprint(v)
	}
	return all
}

func TestAReplyLostAfterTheScriptRanDoublesNothing(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	n := connect(t, p.URL(), Config{})
	for nth := 1; nth <= 5; nth++ {
		p.Judge(redistest.Nth(1, redistest.DropReply, "EVALSHA", "EVAL"))
		if err := put(t.Context(), n, fmt.Sprint("reply lost ", nth)); err != nil {
			t.Error(err)
		}
		p.Judge(redistest.Nth(1, redistest.DropRequest, "EVALSHA", "EVAL"))
		if err := put(t.Context(), n, fmt.Sprint("request lost ", nth)); err != nil {
			t.Error(err)
		}
	}
	if got := logOf(s); len(got) != 10 {
		t.Errorf("kept %q", got)
	}
}

func TestConnectionsCutAgainAndAgainDoubleAndLoseNothing(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	c := startCallers(t, connect(t, p.URL(), Config{}), 16)
	for range 30 {
		c.more(t, 50)
		p.Cut()
	}
	c.more(t, 50)
	c.nothingDoubledNothingLost(t, func() []string { return logOf(s) })
}

func TestAServerKilledAndRestartedDoublesAndLosesNothing(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	c := startCallers(t, connect(t, s.URL(), Config{}), 16)
	for range 5 {
		c.more(t, 200)
		s.Kill()
		s.Restart()
	}
	c.more(t, 200)
	c.nothingDoubledNothingLost(t, func() []string { return logOf(s) })
}

func TestCallsWaitWhileAServerLoadsItsData(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always, Args: []string{"--enable-debug-command", "yes", "--key-load-delay", "2000", "--loading-process-events-interval-bytes", "1024"}})
	n := connect(t, s.URL(), Config{})
	if err := put(t.Context(), n, "before"); err != nil {
		t.Fatal(err)
	}
	s.Must("DEBUG", "POPULATE", 1000)
	s.Must("BGREWRITEAOF")
	for s.Info("aof_rewrite_in_progress") != "0" || s.Info("aof_rewrite_scheduled") != "0" || s.Info("aof_last_bgrewrite_status") != "ok" {
		runtime.Gosched()
	}
	s.Relaunch()
	if _, err := s.Do("SET", "x", "y"); err == nil || !strings.HasPrefix(err.Error(), "LOADING ") {
		t.Fatalf("the server does not load: %v", err)
	}
	h, err := n.health(t.Context())
	if err != nil || h.Status != broker.Unreachable || !strings.Contains(h.Text, "load") {
		t.Errorf("health %+v, %v", h, err)
	}
	if err := put(t.Context(), n, "while it loaded"); err != nil {
		t.Error(err)
	}
	if got := logOf(s); !slices.Equal(got, []string{"before", "while it loaded"}) {
		t.Errorf("kept %q", got)
	}
}

func TestAScriptThatTheServerForgotIsSentAgain(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	n := connect(t, s.URL(), Config{})
	for i := range 3 {
		if err := put(t.Context(), n, fmt.Sprint(i)); err != nil {
			t.Error(err)
		}
		s.Must("SCRIPT", "FLUSH")
	}
	if got := logOf(s); len(got) != 3 {
		t.Errorf("kept %q", got)
	}
}

func TestCallsWaitForAPrimaryWhileTheServerIsAReplica(t *testing.T) {
	s, other := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
	n := connect(t, s.URL(), Config{})
	if err := put(t.Context(), n, "before"); err != nil {
		t.Fatal(err)
	}
	host, port, _ := net.SplitHostPort(other.Addr())
	s.Must("REPLICAOF", host, port)
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := put(ctx, n, "refused"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, broker.ErrUnknown) {
		t.Errorf("got %v, want the context's error alone: a replica refused it", err)
	}
	h, err := n.health(t.Context())
	if err != nil || h.Status != broker.Unreachable || !strings.Contains(h.Text, "replica") {
		t.Errorf("health %+v, %v", h, err)
	}
	waits := make(chan error, 1)
	go func() { waits <- put(context.Background(), n, "after") }()
	s.Must("REPLICAOF", "NO", "ONE")
	if err := <-waits; err != nil {
		t.Error(err)
	}
	if got := logOf(s); !slices.Equal(got[max(0, len(got)-1):], []string{"after"}) {
		t.Errorf("kept %q", got)
	}
}

// A failover loses what its replica has not received, so that only what was
// waited for can be held against it.
func TestAFailoverUnderLoadDoublesNothingAndLosesNothingThatAReplicaConfirmed(t *testing.T) {
	slow(t)
	set := redistest.StartSentinel(t, redistest.Options{})
	n := connect(t, set.URL(), Config{WaitReplicas: 1, WaitTimeout: 200 * time.Millisecond})
	c := startCallers(t, n, 8)
	c.more(t, 100)
	set.Failover()
	c.more(t, 100)
	c.nothingDoubledNothingLost(t, func() []string { return logOf(set.Replica) })
	h, err := n.health(t.Context())
	if _, port, _ := net.SplitHostPort(set.Replica.Addr()); err != nil || h.Status != broker.Healthy || !strings.Contains(h.Detail, port) {
		t.Errorf("health %+v, %v; want it of %s", h, err, set.Replica.Addr())
	}
}

// The control of the one before: without WaitReplicas a failover loses, as Caps
// says, what had not reached the replica.
func TestAFailoverLosesWhatDidNotReachItsReplica(t *testing.T) {
	slow(t)
	set := redistest.StartSentinel(t, redistest.Options{})
	b := open(t, set.URL(), "ns", nil)
	defer b.Close()
	if said := b.Caps().Durability; !strings.Contains(said, "loses what that had not received yet") {
		t.Errorf("Caps says %q", said)
	}
	set.Replica.Stop()
	set.Primary.Must("CLIENT", "KILL", "TYPE", "replica")
	for range 10 {
		put1(t, b, "q", broker.NewJob{Task: "t"})
	}
	set.Primary.Kill()
	set.Replica.Cont()
	set.Promoted()
	counts, err := b.Counts(t.Context(), "q")
	if err != nil || len(counts) != 0 {
		t.Errorf("what no replica had is there: %+v, %v", counts, err)
	}
}

func TestThePrimarysDeathIsSurvivedAndTheLossOfItsReplicaTold(t *testing.T) {
	slow(t)
	set := redistest.StartSentinel(t, redistest.Options{})
	n := connect(t, set.URL(), Config{WaitReplicas: 1, WaitTimeout: time.Second})
	if err := put(t.Context(), n, "before"); err != nil {
		t.Fatal(err)
	}
	set.Primary.Kill()
	if err := put(t.Context(), n, "after"); !errors.Is(err, broker.ErrUnknown) || !strings.Contains(err.Error(), "0 of 1 replicas") {
		t.Errorf("with no replica left: %v", err)
	}
	set.Promoted()
	if got := logOf(set.Replica); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("kept %q", got)
	}
}

// A command that runs once is not to fail since it came in those seconds.
func TestOpenWaitsForTheSentinelsToReplaceADeadPrimary(t *testing.T) {
	slow(t)
	set := redistest.StartSentinel(t, redistest.Options{})
	set.Primary.Kill()
	b, err := Open(t.Context(), set.URL(), Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	put1(t, b, "q", broker.NewJob{Task: "t"})
	if h, err := b.Health(t.Context()); err != nil || h.Status != broker.Healthy {
		t.Errorf("health %+v, %v", h, err)
	}
	for _, one := range set.Sentinels {
		one.Kill()
	}
	began := time.Now()
	if b, err := Open(t.Context(), set.URL(), Config{}); b != nil || err == nil || time.Since(began) > 10*time.Second {
		t.Errorf("without sentinels: %v after %v", err, time.Since(began))
	}
}

func TestASlotThatMovesUnderLoadDoublesAndLosesNothing(t *testing.T) {
	set := redistest.StartCluster(t, redistest.Options{})
	queue := namesOf("spool")("q")
	slot := set.Slot(queue.config)
	c := startCallers(t, connect(t, set.URL(), Config{}), 16)
	for range 3 {
		c.more(t, 100)
		m := set.Migrate(slot)
		m.Begin()
		m.Move(1)
		_, err := set.Nodes[set.Owner(slot)].Do("EVAL", keep.source, 2, queue.config, queue.absent, "x")
		if err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") && !strings.HasPrefix(err.Error(), "ASK") {
			t.Errorf("with the queue's keys on both sides a script is not refused: %v", err)
		}
		m.End()
	}
	c.more(t, 100)
	c.nothingDoubledNothingLost(t, func() []string { return logOf(set.Nodes[set.Owner(slot)]) })
}

func TestReplicasThatAreNotThereAreWaitedForAndToldWhereverTheSlotIs(t *testing.T) {
	set := redistest.StartCluster(t, redistest.Options{})
	slot := set.Slot(namesOf("spool")("q").config)
	n := connect(t, set.URL(), Config{WaitReplicas: 1, WaitTimeout: 20 * time.Millisecond})
	for _, call := range []string{"a", "b", "c"} {
		if err := put(t.Context(), n, call); !errors.Is(err, broker.ErrUnknown) || !strings.Contains(err.Error(), "0 of 1 replicas") {
			t.Errorf("%s: %v", call, err)
		}
		m := set.Migrate(slot)
		m.Begin()
		m.End()
	}
	if got := logOf(set.Nodes[set.Owner(slot)]); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Errorf("kept %q", got)
	}
}

func TestAFullMemoryRefusesWhatGrowsAndLetsPassWhatMay(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	n := connect(t, s.URL(), Config{})
	if err := put(t.Context(), n, "before"); err != nil {
		t.Fatal(err)
	}
	s.Must("CONFIG", "SET", "maxmemory", "1mb")
	if err := put(t.Context(), n, "full"); !errors.Is(err, broker.ErrFull) {
		t.Errorf("at the memory's limit: %v, want ErrFull", err)
	}
	passes := &script{name: "passes", durable: true, source: "#!lua flags=allow-oom\nredis.call('SET', KEYS[1] .. ':x', '1')\nreturn ARGV"}
	if _, err := n.run(t.Context(), passes, "q", [][]byte{[]byte("x")}); err != nil {
		t.Errorf("a script that may pass the limit: %v", err)
	}
	h, err := n.health(t.Context())
	if err != nil || h.Status != broker.DiskFull || !strings.Contains(h.Text, "maxmemory") {
		t.Errorf("health %+v, %v", h, err)
	}
	s.Must("CONFIG", "SET", "maxmemory", "0")
	if err := put(t.Context(), n, "after"); err != nil {
		t.Error(err)
	}
	if got := logOf(s); !slices.Equal(got, []string{"before", "after"}) {
		t.Errorf("kept %q", got)
	}
}

// A pause of a disk or of a network is no reason to tell people of it.
func TestAnAnswerThatTakesAWhileIsNoWeather(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	var slow atomic.Bool
	p.Judge(func(args []string) redistest.Verdict {
		if args[0] == "EVALSHA" && slow.Swap(false) {
			<-time.After(3 * grace)
		}
		return redistest.Pass
	})
	var log strings.Builder
	n := connect(t, p.URL(), Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for i := range 10 { // so that callers make their runs themselves
		if err := put(t.Context(), n, fmt.Sprint("before ", i)); err != nil {
			t.Fatal(err)
		}
	}
	slow.Store(true)
	if err := put(t.Context(), n, "slow"); err != nil {
		t.Error(err)
	}
	if slow.Load() {
		t.Error("no answer was late")
	}
	if err := n.close(); err != nil || log.Len() > 0 {
		t.Errorf("closed with %v, and the log says %q", err, &log)
	}
	if got := logOf(s); len(got) != 11 || got[10] != "slow" {
		t.Errorf("kept %q", got)
	}
}

func TestACallerWhoWaitsNoLongerIsToldWhatHeWaitedFor(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	n := connect(t, s.URL(), Config{})
	if err := put(t.Context(), n, "before"); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	err := put(ctx, n, "after")
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), s.Addr()) || !strings.Contains(err.Error(), "has not answered for") {
		t.Errorf("%v, want its deadline, and that the server does not answer", err)
	}
}

func TestCallersOfAServerThatStandsStillReturnWithTheirContexts(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	before := runtime.NumGoroutine()
	cfg := Config{CallTimeout: 300 * time.Millisecond}
	n := connect(t, s.URL(), cfg)
	if err := put(t.Context(), n, "before"); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			began := time.Now()
			err := put(ctx, n, fmt.Sprint("stopped ", i))
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("it took %s", took)
			}
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("got %v", err)
			}
		})
	}
	wg.Wait()
	h, err := n.health(t.Context())
	if err != nil || h.Status != broker.Unreachable {
		t.Errorf("health %+v, %v", h, err)
	}
	began := time.Now()
	_ = n.close()
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("closing took %s", took)
	}
	s.Cont()
	untilGoroutines(t, before)
}

// untilGoroutines waits until no more goroutines are there than before.
func untilGoroutines(t *testing.T, before int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before; <-time.After(10 * time.Millisecond) {
		if time.Now().After(end) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines, before %d:\n%s", runtime.NumGoroutine(), before, stacks[:runtime.Stack(stacks, true)])
		}
	}
}

func TestAnExhaustedPoolMakesCallsWait(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	n := connect(t, p.URL(), Config{PoolSize: 1})
	sent, goOn := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.Judge(func([]string) redistest.Verdict {
		once.Do(func() { close(sent); <-goOn })
		return redistest.Pass
	})
	held, release := context.WithCancel(t.Context())
	holds := make(chan error, 1)
	go func() { holds <- put(held, n, "holds the connection") }()
	<-sent
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, err := n.run(ctx, keep, "other", [][]byte{[]byte("x")}); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, broker.ErrUnknown) {
		t.Errorf("with no connection left: %v, want the context's error alone: it was never sent", err)
	}
	release()
	if err := <-holds; !errors.Is(err, broker.ErrUnknown) {
		t.Errorf("the call that holds the connection: %v, want ErrUnknown", err)
	}
	close(goOn)
	p.Delay(20 * time.Millisecond)
	var wg sync.WaitGroup
	for i := range 20 { // a queue each, so that none travels with another
		wg.Go(func() {
			if _, err := n.run(t.Context(), keep, fmt.Sprint("q", i), [][]byte{[]byte("x")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestAServerOutOfConnectionsIsWaitedFor(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	n := connect(t, s.URL(), Config{})
	s.Must("CONFIG", "SET", "maxclients", 2)
	one := admitted(t, s)
	if _, err := one.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = one.Close() }() // nobody collects it before
	two := admitted(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if err := put(ctx, n, "a"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, broker.ErrUnknown) {
		t.Errorf("with no connection left: %v, want the context's error alone: it was never sent", err)
	}
	_ = two.Close()
	if err := put(t.Context(), n, "b"); err != nil {
		t.Error(err)
	}
}

// admitted returns a connection that the server serves: one that was closed
// before may still count for a moment.
func admitted(t *testing.T, s *redistest.Server) *redistest.Conn {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		c, err := redistest.Dial(s.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err = c.Do("PING"); err == nil {
			return c
		}
		_ = c.Close()
	}
	t.Fatal("the server admits nobody")
	return nil
}

func TestABusyServerIsWaitedFor(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Args: []string{"--lua-time-limit", "50"}})
	n := connect(t, s.URL(), Config{})
	busy, err := redistest.Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() {
		_, err := busy.Do("EVAL", "while true do end", 0)
		ended <- err
	}()
	for {
		if _, err := s.Do("PING"); err != nil && strings.HasPrefix(err.Error(), "BUSY") {
			break
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := put(ctx, n, "a"); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, broker.ErrUnknown) {
		t.Errorf("got %v, want the context's error alone: it was refused", err)
	}
	s.Must("SCRIPT", "KILL")
	<-ended
	if err := put(t.Context(), n, "b"); err != nil {
		t.Error(err)
	}
	if got := logOf(s); !slices.Equal(got, []string{"b"}) {
		t.Errorf("kept %q", got)
	}
}

// A repeat in the socket of a server that stands still would run whenever that
// goes on, even after what the server remembers of the call is over.
func TestNoRepeatIsSentToAServerThatStandsStill(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	var runs atomic.Int64
	p.Judge(func(args []string) redistest.Verdict {
		if args[0] == "EVALSHA" || args[0] == "EVAL" {
			runs.Add(1)
		}
		return redistest.Pass
	})
	n := connect(t, p.URL(), Config{CallTimeout: 100 * time.Millisecond})
	if err := put(t.Context(), n, "before"); err != nil {
		t.Fatal(err)
	}
	before := runs.Load()
	s.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
	defer cancel()
	if err := put(ctx, n, "stopped"); !errors.Is(err, broker.ErrUnknown) {
		t.Errorf("got %v, want ErrUnknown", err)
	}
	if got := runs.Load() - before; got != 1 {
		t.Errorf("the script was sent %d times to a server that did not answer, want once", got)
	}
	s.Cont()
	if err := put(t.Context(), n, "stopped"); err != nil {
		t.Error(err)
	}
	if got := logOf(s); !slices.Equal(got, []string{"before", "stopped"}) {
		t.Errorf("kept %q", got)
	}
}
