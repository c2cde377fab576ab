package redisbroker

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/migrate"
	"github.com/spoolq/spool/internal/redistest"
)

// begunMove is a move of queue q between two stores of a server, of which one batch is
// on its way.
type begunMove struct {
	t        *testing.T
	s        *redistest.Server
	from, to *Broker
	id       broker.ID
	batch    broker.MoveBatch
}

func beginMove(t *testing.T, s *redistest.Server) *begunMove {
	t.Helper()
	x := &begunMove{t: t, s: s, from: open(t, s.URL(), newNamespace(), nil), to: open(t, s.URL(), newNamespace(), nil), id: broker.NewID()}
	t.Cleanup(func() { _, _ = x.from.Close(), x.to.Close() })
	whole := made("whole")
	whole.BatchSize = 1
	for _, jobs := range [][]broker.NewJob{{whole, {Task: "t", Batch: whole.ID}}, {{Task: "keyed", Key: "k", KeyHold: broker.HoldFor, KeyFor: time.Hour}}} {
		_, err := x.from.Enqueue(t.Context(), broker.NewCall(), "q", jobs)
		x.must(err)
	}
	l := take(t, x.from, "q", 2)
	here, err := x.from.BeginMove(t.Context(), broker.NewCall(), broker.MoveBegin{ID: x.id, Queue: "q", State: broker.Leaving, Peer: "there", Runner: x.id, TTL: time.Millisecond})
	x.must(err)
	_, err = x.to.BeginMove(t.Context(), broker.NewCall(), broker.MoveBegin{ID: x.id, Queue: "q", State: broker.Arriving, Peer: "here", Now: here.Now, First: here.First, Seq: here.Seq})
	x.must(err)
	x.batch, err = x.from.TakeMoved(t.Context(), broker.NewCall(), broker.MoveTake{ID: x.id, Queue: "q", Runner: x.id, Batch: 1})
	x.must(err)
	for _, one := range l { // the completion job has left
		ack(t, x.from, one)
	}
	return x
}

func (x *begunMove) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// end brings the move to its end.
func (x *begunMove) end() {
	x.t.Helper()
	m := migrate.Mover{From: migrate.Side{Broker: x.from, Name: "here"}, To: migrate.Side{Broker: x.to, Name: "there"}}
	_, err := m.Queue(x.t.Context(), "q")
	x.must(err)
}

// key is the name of a key of a side's queue.
func (x *begunMove) key(b *Broker, name string) string {
	return strings.TrimSuffix(b.t.(*network).names("q").config, "c") + name
}

// put right lists what upkeep of a side puts right in one round.
func (x *begunMove) putRight(b *Broker) (what []string) {
	x.t.Helper()
	e := x.key(b, "E")
	x.s.Must("DEL", e)
	for x.s.Must("HGET", e, "over") == nil {
		_, err := b.Maintain(x.t.Context())
		x.must(err)
	}
	for _, field := range x.s.Must("HKEYS", e).([]any) {
		if name, ok := strings.CutPrefix(field.(string), "fixed:"); ok {
			what = append(what, name)
		}
	}
	return what
}

// olderScripts are those of a build that knows of no moves: it takes one version
// of a queue.
func olderScripts(t *testing.T) *scripts {
	t.Helper()
	s := *newScripts("")
	for _, one := range []**script{&s.enqueue, &s.claim, &s.counts} {
		old := **one
		old.source = strings.Replace(old.source, " and string.byte(s) ~= 3", "", 1)
		if old.source == (*one).source {
			t.Fatalf("script %s does not tell a queue that rests from others", old.name)
		}
		*one = &old
	}
	return &s
}

func TestAQueueThatRestsForAMoveIsLeftAloneByOlderBuilds(t *testing.T) {
	slow(t)
	s := redistest.Start(t, redistest.Options{})
	x := beginMove(t, s)
	wants := func(when string, b *Broker, want error) {
		t.Helper()
		old := newBrokerWith(b.t, olderScripts(t))
		_, err1 := old.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
		_, err2 := old.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1})
		_, err3 := old.Counts(t.Context(), "q")
		for i, err := range []error{err1, err2, err3} {
			if !errors.Is(err, want) {
				t.Errorf("%s, call %d of an older build: %v, want %v", when, i, err, want)
			}
		}
	}
	wants("while it leaves", x.from, broker.ErrUnsupported)
	wants("while it arrives", x.to, broker.ErrUnsupported)
	x.end()
	wants("when it has left", x.from, broker.ErrUnsupported)
	wants("when it has arrived", x.to, nil)
}

func TestAnEnqueueGoesTheShortWayWhereAQueueHasArrived(t *testing.T) {
	slow(t)
	s := redistest.Start(t, redistest.Options{})
	x := beginMove(t, s)
	x.end()
	fill(t, x.to, "q", 2, 1, nil)
	if n := commands(t, s, func() { fill(t, x.to, "q", 1, 1, nil) }); n > 12 {
		t.Errorf("it takes %d commands, at most 12 are allowed", n)
	}
}

func TestUpkeepProvesWhatBelongsToAMove(t *testing.T) {
	slow(t)
	s := redistest.Start(t, redistest.Options{})
	id := broker.NewID()
	for _, c := range []struct {
		name  string
		ended bool
		hurt  func(x *begunMove)
		want  string // what is put right
	}{
		{"nothing is wrong while it leaves", false, func(*begunMove) {}, ""},
		{"nothing is wrong when it has left", true, func(*begunMove) {}, ""},
		{"the configuration does not know of the move", false, func(x *begunMove) {
			config := []byte(x.s.Must("GET", x.key(x.from, "c")).(string))
			config[0], config[4] = 2, config[4]&^96 // flags are bytes 1 to 4
			x.s.Must("SET", x.key(x.from, "c"), string(config))
		}, "M"},
		{"keys of jobs that have left are there without a move", true, func(x *begunMove) {
			x.s.Must("HSET", x.key(x.from, "K!"), "\x00\x00\x01k", string(id[:])+strings.Repeat("\x00", 24))
		}, "M"},
		{"a batch is there without a move", true, func(x *begunMove) { x.s.Must("SET", x.key(x.from, "O!"), "batch") }, "M"},
	} {
		t.Run(c.name, func(t *testing.T) {
			x := beginMove(t, s)
			if c.ended {
				x.end()
			}
			before := x.s.Must("GET", x.key(x.from, "c")).(string)
			c.hurt(x)
			if got := strings.Join(x.putRight(x.from), " "); got != c.want {
				t.Errorf("upkeep put right %q, want %q", got, c.want)
			}
			after := x.s.Must("GET", x.key(x.from, "c")).(string)
			if before[0] != after[0] || before[1:5] != after[1:5] {
				t.Errorf("the configuration has version %d and flags %x, had %d and %x", after[0], after[1:5], before[0], before[1:5])
			}
			if !c.ended {
				x.end()
			}
			if got := x.putRight(x.from); len(got) > 0 {
				t.Errorf("upkeep put right %v after all", got)
			}
			left := x.s.Must("EXISTS", x.key(x.from, "K!"), x.key(x.from, "O!"), x.key(x.from, "B!"))
			if left != int64(0) {
				t.Errorf("%v keys of the move are left", left)
			}
			take(t, x.to, "q", 1) // the completion job
		})
	}
}

func TestUpkeepCountsTheEndOfAMemberThatMissedItsCompletionJob(t *testing.T) {
	x := beginMove(t, redistest.Start(t, redistest.Options{}))
	_, err := x.to.PutMoved(context.Background(), broker.NewCall(), broker.MovePut{ID: x.id, Queue: "q", Batch: x.batch})
	x.must(err)
	whole := x.batch.Jobs[0].ID
	x.s.Must("ZADD", x.key(x.to, "B!"), 0, string(whole[:])+"\x00\x00\x00\x00")
	if got := strings.Join(x.putRight(x.to), " "); got != "B!" {
		t.Errorf("upkeep put right %q", got)
	}
	jobs, err := x.to.Get(t.Context(), []broker.Ref{{Queue: "q", ID: whole}})
	if err != nil || jobs[0].State != broker.Ready {
		t.Errorf("the completion job is %v, %v", jobs[0].State, err)
	}
}

func TestAMoveWaitsForFollowUpsThatNobodyHasDelivered(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	from, to := open(t, s.URL(), newNamespace(), nil), open(t, s.URL(), newNamespace(), nil)
	defer from.Close()
	defer to.Close()
	put1(t, from, "q", broker.NewJob{Task: "t"})
	dies := newBrokerWith(&failing{transport: from.t, fails: func(script string) bool { return script == "deliver" }}, usualScripts())
	ack(t, dies, take(t, from, "q", 1)[0], broker.FollowUp{Queue: "r", Job: broker.NewJob{Task: "follows"}})
	m := migrate.Mover{From: migrate.Side{Broker: from, Name: "here"}, To: migrate.Side{Broker: to, Name: "there"}, Poll: time.Millisecond}
	for _, queue := range []string{"q", "r"} {
		if _, err := m.Queue(t.Context(), queue); err != nil {
			t.Fatal(err)
		}
	}
	take(t, to, "r", 1)
}

// A batch arrives in parts; who brings them may be killed between two.
func TestABatchOfManyJobsArrivesWhole(t *testing.T) {
	x := beginMove(t, redistest.Start(t, redistest.Options{}))
	big := broker.MoveBatch{Number: 1, Now: x.batch.Now}
	for range broker.MaxMoveJobs {
		j := broker.MovedJob{Job: broker.Job{ID: broker.NewID(), Task: "many", State: broker.Ready, MaxAttempts: 3, EnqueuedAt: time.Now(), RunAt: time.Now()}}
		big.Jobs = append(big.Jobs, j)
		big.Keys = append(big.Keys, broker.MovedKey{Task: "many", Key: j.ID.String(), ID: broker.NewID(), Until: time.Now().Add(time.Hour)})
	}
	put := broker.MovePut{ID: x.id, Queue: "q", Batch: big}
	lossy := newBrokerWith(&failing{transport: x.to.t}, usualScripts())
	puts := 0
	lossy.t.(*failing).fails = func(script string) bool {
		if script == "put" {
			puts++
		}
		return script == "put" && puts == 2
	}
	if _, err := lossy.PutMoved(t.Context(), broker.NewCall(), put); !errors.Is(err, broker.ErrUnknown) {
		t.Fatalf("put: %v", err)
	}
	end := broker.MoveEnd{ID: x.id, Queue: "q", Batch: 0}
	if err := x.to.EndMove(t.Context(), broker.NewCall(), end); !errors.Is(err, broker.ErrConflict) {
		t.Errorf("end amid a batch: %v", err)
	}
	for range 2 {
		a, err := x.to.PutMoved(t.Context(), broker.NewCall(), put)
		if err != nil || a.Known != 0 || a.Duplicates != 0 {
			t.Errorf("put: %+v, %v", a, err)
		}
	}
	if n := x.s.Must("HLEN", x.key(x.to, "K")); n != int64(broker.MaxMoveJobs) {
		t.Errorf("%v keys", n)
	}
	c, err := x.to.Counts(t.Context(), "q")
	if err != nil || c[0].Ready != broker.MaxMoveJobs || c[0].Totals.Enqueued != broker.MaxMoveJobs {
		t.Errorf("counts %+v, %v", c, err)
	}
}
