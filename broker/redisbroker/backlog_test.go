package redisbroker

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

var full = flag.Bool("full", false, "run the proofs at the size that they are stated for, on a machine that does nothing else")

const (
	asynqBytes   = 633 // what asynq 0.26 takes of Redis for a waiting job with this payload
	pastBacklog  = 0.8 // how fast claims are past a backlog that a limit holds back
	longestFull  = 5 * time.Millisecond
	rounds       = 5
	claimsARound = 1000
)

// TestProofOfABacklog lets a million jobs wait behind a limit of one (with -full; else 20,000),
// in one lane and in a thousand, and looks at what they cost those who have to
// do with others: memory, the server's time for claims of another task, commands
// for each script. With -full no operation may have a script that takes the server
// longer than 5 ms each time.
func TestProofOfABacklog(t *testing.T) {
	slow(t)
	n := 20_000
	if *full {
		n = 1_000_000
	}
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "backlog", nil)
	defer b.Close()
	ctx := context.Background()
	fill(t, b, "free", 100, 100, nil)
	limit := broker.Setting{Kind: broker.LimitSetting, Name: "one", Limit: &broker.Limit{Tasks: []string{"t"}, Running: 1}}
	for _, q := range []string{"free", "held"} {
		if err := b.Configure(ctx, broker.NewCall(), q, broker.Change{Set: []broker.Setting{limit}}); err != nil {
			t.Fatal(err)
		}
	}
	l := &backlog{t, s, b, "held"}
	small := l.all()
	empty := memory(s)
	fill(t, b, "held", n/2, maxBatch, nil)
	each := float64(memory(s)-empty) / float64(n/2)
	t.Logf("%d jobs wait: %.0f B of the server's memory for each", n/2, each)
	if each > asynqBytes {
		t.Errorf("a waiting job takes %.0f B, more than asynq's %d", each, asynqBytes)
	}
	fill(t, b, "held", n/2, maxBatch, func(i int, j *broker.NewJob) { j.Group = fmt.Sprint("group-", i%1000) })
	if took := l.claim("t", 10); took != 1 {
		t.Fatalf("%d jobs were claimed, the limit is 1", took)
	}
	l.claim("t", 10) // parks what stands in the way
	l.compareClaims()
	large := l.all()
	for range 2 { // what else the machine does makes one script long, and rarely the next one, too
		for i, again := range l.all() {
			large[i].longest = min(large[i].longest, again.longest)
		}
	}
	for i, now := range large {
		was := small[i]
		t.Logf("%-8s %4d scripts, %5.1f commands each (%5.1f without a backlog), the longest at best %v", now.name, now.scripts, now.commands, was.commands, now.longest)
		if now.scripts == 0 {
			t.Errorf("%s: no script ran", now.name)
		}
		if *full && now.longest > longestFull {
			t.Errorf("%s: a script took the server %v", now.name, now.longest)
		}
		if now.commands > mostCommands {
			t.Errorf("%s: a script made %.0f commands, more than any is to make", now.name, now.commands)
		}
	}
}

// mostCommands is what a script may make on the average, whatever waits: 128 jobs
// that a step of a command changes take some ten each.
const mostCommands = 2500

// backlog is a queue with many jobs that wait.
type backlog struct {
	t     *testing.T
	s     *redistest.Server
	b     *Broker
	queue string
}

// claim claims jobs of a task and returns how many it got.
func (l *backlog) claim(task string, most int) int {
	l.t.Helper()
	got, err := l.b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{
		Queues: []string{l.queue}, Tasks: []string{task}, Max: most, TTL: time.Hour, Worker: "w", Remote: true,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	return len(got.Leases)
}

// compareClaims claims and acks jobs of another task past the backlog, and in a
// queue that has none, in turns.
func (l *backlog) compareClaims() {
	l.t.Helper()
	past, free := make([]float64, rounds), make([]float64, rounds)
	for i := range rounds {
		for _, c := range []struct {
			queue string
			took  *float64
		}{{l.queue, &past[i]}, {"free", &free[i]}} {
			fill(l.t, l.b, c.queue, claimsARound, 100, func(_ int, j *broker.NewJob) { j.Task = "u" })
			claim, _ := drain(l.t, l.s, l.b, broker.ClaimRequest{Queues: []string{c.queue}, Tasks: []string{"u"}, Max: 10, TTL: time.Minute, Worker: "w"}, claimsARound)
			*c.took = float64(claim.Microseconds()) / claimsARound
		}
	}
	slices.Sort(past)
	slices.Sort(free)
	// The least of a few: what else the machine does only adds.
	l.t.Logf("a claim of another task took the server %.1f µs (up to %.1f), %.1f (up to %.1f) without the backlog", past[0], past[rounds-1], free[0], free[rounds-1])
	if free[0] < pastBacklog*past[0] {
		l.t.Errorf("claims past the backlog have %.2f of the speed that they have without, want %.2f", free[0]/past[0], pastBacklog)
	}
}

// cost is what one operation cost the server.
type cost struct {
	name     string
	scripts  int
	commands float64 // for each script
	longest  time.Duration
	long     int // scripts that took longer than longestFull
}

// all measures each operation in a queue.
func (l *backlog) all() (all []cost) {
	l.t.Helper()
	ctx, b, payload := context.Background(), l.b, []byte("payload")
	times := func(n int, do func() error) func() error {
		return func() error {
			for range n {
				if err := do(); err != nil {
					return err
				}
			}
			return nil
		}
	}
	apply := func(kind broker.CommandKind) func() error {
		cursor := ""
		return times(20, func() error {
			step, err := b.Apply(ctx, broker.NewCall(), broker.Command{Kind: kind, Filter: broker.Filter{Queue: l.queue}, Cursor: cursor})
			cursor = step.Cursor
			return err
		})
	}
	var leases []broker.Settlement
	for _, op := range []struct {
		name string
		do   func() error
	}{
		{"enqueue", times(10, func() error {
			jobs := make([]broker.NewJob, maxBatch)
			for i := range jobs {
				jobs[i] = broker.NewJob{Task: "v", Payload: payload}
				jobs[i].MakeID()
			}
			_, err := b.Enqueue(ctx, broker.NewCall(), l.queue, jobs)
			return err
		})},
		{"claim", times(10, func() error {
			got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{l.queue}, Max: maxBatch, TTL: time.Hour, Worker: "w", Remote: true})
			for _, one := range got.Leases {
				leases = append(leases, broker.Settlement{Ref: one.Job.Ref(), Token: one.Token, Kind: broker.Ack})
			}
			return err
		})},
		{"settle", func() error {
			for part := range slices.Chunk(leases, maxBatch) {
				if _, err := b.Settle(ctx, broker.NewCall(), part); err != nil {
					return err
				}
			}
			return nil
		}},
		{"maintain", times(20, func() error { _, err := b.Maintain(ctx); return err })},
		{"list", times(10, func() error {
			_, err := b.List(ctx, broker.Filter{Queue: l.queue, States: []broker.State{broker.Ready}}, "", 100)
			return err
		})},
		{"search", times(10, func() error {
			_, err := b.List(ctx, broker.Filter{Queue: l.queue, States: []broker.State{broker.Ready}, Task: "none"}, "", 100)
			return err
		})},
		{"counts", times(10, func() error { _, err := b.Counts(ctx, l.queue); return err })},
		{"cancel", apply(broker.CancelJobs)},
		{"requeue", apply(broker.RequeueJobs)},
		{"purge", apply(broker.DeleteJobs)},
	} {
		all = append(all, l.measure(op.name, op.do))
	}
	return all
}

// measure does something and asks the server what it cost.
func (l *backlog) measure(name string, do func() error) cost {
	l.t.Helper()
	l.s.Must("CONFIG", "SET", "slowlog-log-slower-than", "1000", "slowlog-max-len", "10000")
	l.s.Must("CONFIG", "RESETSTAT")
	l.s.Must("SLOWLOG", "RESET")
	if err := do(); err != nil {
		l.t.Fatalf("%s: %v", name, err)
	}
	c := cost{name: name}
	all := 0
	for line := range strings.Lines(fmt.Sprint(l.s.Must("INFO", "commandstats"))) {
		command, stat, _ := strings.Cut(line, ":calls=")
		digits, _, _ := strings.Cut(stat, ",")
		n, _ := strconv.Atoi(digits)
		all += n
		if strings.HasPrefix(command, "cmdstat_eval") {
			c.scripts += n
		}
	}
	c.commands = float64(all) / float64(max(c.scripts, 1))
	entries, _ := l.s.Must("SLOWLOG", "GET", "-1").([]any)
	for _, e := range entries {
		took, _ := e.([]any)[2].(int64)
		c.longest = max(c.longest, time.Duration(took)*time.Microsecond)
		if time.Duration(took)*time.Microsecond > longestFull {
			c.long++
		}
	}
	return c
}
