package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// newJob is a job with an id that the library made.
func newJob(change func(n *broker.NewJob)) broker.NewJob {
	n := broker.NewJob{Task: "t"}
	n.MakeID()
	if change != nil {
		change(&n)
	}
	return n
}

// spreadTo opens a client of a store whose queue q is spread; the one that did it
// is another.
func spreadTo(t testing.TB, url, ns string, parts int) *Broker {
	t.Helper()
	by := open(t, url, ns, nil)
	if err := by.SetSpread(t.Context(), "q", parts); err != nil {
		t.Fatal(err)
	}
	if err := by.Close(); err != nil {
		t.Fatal(err)
	}
	b := open(t, url, ns, nil)
	t.Cleanup(func() { _ = b.Close() })
	return b
}

func TestThePartsOfAQueueAreInSlotsFarFromOneAnother(t *testing.T) {
	if slotOf("123456789") != 12739 { // as the cluster's specification has it
		t.Fatalf("the slot of 123456789 is %d", slotOf("123456789"))
	}
	for k := range 50 {
		for _, n := range []int{2, 3, 5, 16} {
			all := partNames(fmt.Sprint("queue", k), n)
			var at []int
			for i, part := range all {
				if q, parts, no := partOf(part); q != fmt.Sprint("queue", k) || parts != n || no != i {
					t.Errorf("%s is part %d of %d of %s", part, no, parts, q)
				}
				tag, _ := tagOf(part)
				at = append(at, slotOf(tag))
			}
			slices.Sort(at)
			for i := range at {
				gap := (at[(i+1)%n] - at[i] + slots) % slots
				if gap < slots/n/2 {
					t.Errorf("parts of %v are %d slots apart", all, gap)
				}
			}
		}
	}
}

func TestAClientThatKnowsOfNoSpreadingFindsEveryJob(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	old, by := open(t, s.URL(), "ns", nil), open(t, s.URL(), "ns", nil)
	defer old.Close()
	defer by.Close()
	for round, parts := range []int{3, 5} {
		// Known to old as a queue that is not spread, and then as one of other parts.
		put1(t, old, "q", newJob(nil))
		ack(t, old, take(t, old, "q", 1)[0])
		if round > 0 {
			if err := by.ClearSpread(t.Context(), "q"); err != nil {
				t.Fatal(err)
			}
		}
		if err := by.SetSpread(t.Context(), "q", parts); err != nil {
			t.Fatal(err)
		}
		var refs []broker.Ref
		for range 20 {
			n := newJob(nil)
			put1(t, by, "q", n)
			refs = append(refs, broker.Ref{Queue: "q", ID: n.ID})
		}
		jobs, err := old.Get(t.Context(), refs)
		for i, j := range jobs {
			if err != nil || j.State != broker.Ready || j.Queue != "q" || j.ID != refs[i].ID {
				t.Errorf("job %d is %v of queue %s, %v", i, j.State, j.Queue, err)
			}
		}
		counts, err := old.Counts(t.Context(), "")
		if err != nil || len(counts) != 1 || counts[0].Ready != 20 || counts[0].Depth != 20 || counts[0].Queue != "q" {
			t.Errorf("counts %+v, %v", counts, err)
		}
		for _, l := range take(t, old, "q", 20) {
			ack(t, old, l)
		}
	}
	if err := by.ClearSpread(t.Context(), "q"); err != nil {
		t.Fatal(err)
	}
	n := newJob(nil)
	put1(t, old, "q", n) // old takes it for one of five parts
	take(t, by, "q", 1)
	if s.Must("EXISTS", "ns:{q}:c") != int64(1) {
		t.Error("the queue is not where it was before")
	}
}

func TestAQueueWithJobsIsNeitherSpreadNorGathered(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	ctx := t.Context()
	refused := func(what string, err error, says string) {
		t.Helper()
		if !errors.Is(err, broker.ErrConflict) || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
	put1(t, b, "q", plainJob("p")) // it lies in the inbox
	refused("with a ready job", b.SetSpread(ctx, "q", 3), "it has jobs")
	l := take(t, b, "q", 1)[0]
	refused("with a job that runs", b.SetSpread(ctx, "q", 3), "it has jobs")
	_, err := b.Settle(ctx, broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Bury}})
	refused("with a dead letter", errors.Join(err, b.SetSpread(ctx, "q", 3)), "it has jobs")
	if _, err := b.Apply(ctx, broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: "q"}}); err != nil {
		t.Fatal(err)
	}
	put1(t, b, "q", newJob(func(n *broker.NewJob) { n.Key, n.KeyHold, n.KeyFor = "k", broker.HoldFor, time.Hour }))
	ack(t, b, take(t, b, "q", 1)[0])
	refused("with a key that is held", b.SetSpread(ctx, "q", 3), "keys")
	s.Must("DEL", "ns:{q}:K", "ns:{q}:U")
	limit := broker.Setting{Kind: broker.LimitSetting, Name: "l", Limit: &broker.Limit{Tasks: []string{"t"}, Running: 1}}
	set := func(change broker.Change) error { return b.Configure(ctx, broker.NewCall(), "q", change) }
	if err := set(broker.Change{Set: []broker.Setting{limit}}); err != nil {
		t.Fatal(err)
	}
	refused("with a limit", b.SetSpread(ctx, "q", 3), "limit")
	if err := set(broker.Change{Clear: []broker.SettingName{{Kind: broker.LimitSetting, Name: "l"}}}); err != nil {
		t.Fatal(err)
	}
	if err := b.SetSpread(ctx, "q", 3); err != nil {
		t.Fatal(err)
	}
	refused("over another number", b.SetSpread(ctx, "q", 4), "already")
	if err := set(broker.Change{Set: []broker.Setting{limit}}); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("a limit of a queue that is spread: %v", err)
	}
	for range 20 { // some in every part
		put1(t, b, "q", newJob(nil))
	}
	refused("gathered with jobs", b.ClearSpread(ctx, "q"), "it has jobs")
	for _, l := range take(t, b, "q", 20) {
		ack(t, b, l)
	}
	move := broker.MoveBegin{ID: broker.NewID(), Queue: "q", State: broker.Leaving, Runner: broker.NewID()}
	if _, err := b.BeginMove(ctx, broker.NewCall(), move); !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), "spread clear") {
		t.Errorf("a move of a queue that is spread: %v", err)
	}
	if err := b.ClearSpread(ctx, "q"); err != nil {
		t.Error(err)
	}
	if places, err := b.places(ctx); err != nil || !slices.Equal(places, []string{"q"}) {
		t.Errorf("the registry has %v, %v", places, err)
	}
}

// Who closes a queue dies after some of its parts, or somebody uses it meanwhile.
func TestAPartThatWasClosedIsOpenedByWhoUsesIt(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := spreadTo(t, s.URL(), "ns", 3)
	by := open(t, s.URL(), "ns", nil)
	defer by.Close()
	ctx := t.Context()
	was, err := by.mark(ctx, "q")
	if err != nil {
		t.Fatal(err)
	}
	names := partNames("q", 3)
	for _, part := range names[1:] {
		if why, _, err := by.spreading(ctx, closePart, part, was, 0); why != 0 || err != nil {
			t.Fatalf("%s is not closed: %d, %v", part, why, err)
		}
	}
	for range 20 {
		put1(t, b, "q", newJob(nil))
	}
	if why, _, err := by.spreading(ctx, closeFirst, names[0], was, 0); err != nil || why == 0 {
		t.Errorf("the queue is gathered though it is used: %d, %v", why, err)
	}
	// One that knew of the spreading before does not open a part for it again.
	if why, _, err := by.spreading(ctx, openPart, names[1], was, 0); err != nil || why != 0 {
		t.Errorf("a part that is open is not: %d, %v", why, err)
	}
	for _, l := range take(t, b, "q", 20) {
		ack(t, b, l)
	}
	if err := by.ClearSpread(ctx, "q"); err != nil {
		t.Fatal(err)
	}
	if why, _, err := by.spreading(ctx, openPart, names[1], was, 0); err != nil || why == 0 {
		t.Errorf("who is late opens a part of a queue that is not spread: %d, %v", why, err)
	}
	put1(t, b, "q", newJob(nil))
	take(t, by, "q", 1)
}

func TestARepeatOfACallIsKnownAfterTheQueueWasSpreadOrGathered(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	ctx := t.Context()
	for what, change := range map[string]func() error{
		"spread":   func() error { return b.SetSpread(ctx, "q", 3) },
		"gathered": func() error { return b.ClearSpread(ctx, "q") },
	} {
		if what == "gathered" {
			_ = b.SetSpread(ctx, "q", 3)
		} else {
			_ = b.ClearSpread(ctx, "q")
		}
		place := func(id broker.ID) string { return b.spread.now().place(broker.Ref{Queue: "q", ID: id}).Queue }
		n, c := newJob(func(n *broker.NewJob) { n.Tenant = "x" }), broker.NewCall()
		at := place(n.ID)
		if _, err := b.enqueue(ctx, c, at, []broker.NewJob{n}); err != nil {
			t.Fatal(err)
		}
		ack(t, b, take(t, b, "q", 1)[0])
		if err := change(); err != nil {
			t.Fatal(err)
		}
		// Its reply was lost, and the transport sends it to the same place again.
		if _, err := b.enqueue(ctx, c, at, []broker.NewJob{n}); err != nil {
			t.Errorf("%s: %v", what, err)
		}
		take(t, b, "q", 0)
	}
}

func TestKeysGroupsAndBatchesOfASpreadQueueHoldOverItsParts(t *testing.T) {
	c := redistest.StartCluster(t, redistest.Options{})
	b := spreadTo(t, c.URL(), "ns", 3)
	ctx := t.Context()
	in := map[string]int{}
	add := func(jobs ...broker.NewJob) []broker.Enqueued {
		t.Helper()
		got, err := b.Enqueue(ctx, broker.NewCall(), "q", jobs)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range got {
			in[b.spread.now().place(broker.Ref{Queue: "q", ID: a.ID}).Queue]++
		}
		return got
	}
	for i := range 20 {
		n := newJob(func(n *broker.NewJob) { n.Key = fmt.Sprint(i) })
		first, again := add(n)[0], add(newJob(func(n *broker.NewJob) { n.Key = fmt.Sprint(i) }))[0]
		if first.Existing || !again.Existing || again.ID != first.ID {
			t.Errorf("key %d: %+v, then %+v", i, first, again)
		}
		// The same enqueue again, with a call id of its own.
		if same := add(n)[0]; !same.Existing || same.ID != first.ID {
			t.Errorf("key %d once more: %+v", i, same)
		}
	}
	if len(in) != 3 {
		t.Errorf("keys are in %v", in)
	}
	for _, l := range take(t, b, "q", 20) {
		ack(t, b, l)
	}
	for range 3 {
		for g := range 10 {
			add(newJob(func(n *broker.NewJob) { n.Group, n.Ordered = fmt.Sprint(g), true }))
		}
	}
	for range 3 {
		leases := take(t, b, "q", 10) // one of each group
		groups := map[string]bool{}
		for _, l := range leases {
			groups[l.Job.Group] = true
			ack(t, b, l)
		}
		if len(groups) != 10 {
			t.Errorf("of %d groups one job runs", len(groups))
		}
	}
	for range 5 { // a batch inside another, with an ordered job
		jobs := []broker.NewJob{newJob(nil), newJob(nil), newJob(nil), newJob(func(n *broker.NewJob) { n.Group, n.Ordered = "g", true })}
		jobs[0].BatchSize, jobs[1].BatchSize = 2, 1
		jobs[1].Batch, jobs[2].Batch, jobs[3].Batch, jobs[3].BatchOrdinal = jobs[0].ID, jobs[1].ID, jobs[0].ID, 1
		got := add(jobs...)
		for _, l := range take(t, b, "q", 2) {
			ack(t, b, l)
		}
		inner := take(t, b, "q", 1)[0]
		ack(t, b, inner)
		outer := take(t, b, "q", 1)[0]
		ack(t, b, outer)
		if inner.Job.ID != got[1].ID || outer.Job.ID != got[0].ID {
			t.Errorf("the completion jobs are %v and %v of %v", inner.Job.ID, outer.Job.ID, got)
		}
	}
}

func TestAnIDThatTheUserChoseIsRefusedInAnotherPartThanItsKeys(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := spreadTo(t, s.URL(), "ns", 3)
	refused, kept := 0, 0
	for range 60 {
		n := broker.NewJob{ID: broker.NewID(), Task: "t", Key: "k"}
		got, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{n})
		switch {
		case errors.Is(err, broker.ErrInvalid) && strings.Contains(err.Error(), "leave the id away"):
			refused++
		case err != nil:
			t.Fatal(err)
		case !got[0].Existing && got[0].ID != n.ID:
			t.Errorf("job %v became %v", n.ID, got[0].ID)
		default:
			kept++
		}
	}
	if refused == 0 || kept == 0 {
		t.Errorf("%d refused, %d kept", refused, kept)
	}
	both := newJob(func(n *broker.NewJob) { n.Key, n.Ordered = "k", true })
	if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{both}); !errors.Is(err, broker.ErrInvalid) {
		t.Errorf("an ordered job with a key: %v", err)
	}
}

func TestFollowUpsFromAndToSpreadQueuesAreDeliveredOnceWhoeverDies(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	for step, dies := range []string{"deliver", "outbox"} {
		ns := newNamespace()
		other := spreadTo(t, s.URL(), ns, 3)
		if err := other.SetSpread(t.Context(), "r", 4); err != nil {
			t.Fatal(err)
		}
		for i := range 12 {
			f := &failing{transport: open(t, s.URL(), ns, nil).t}
			b := newBrokerWith(f, usualScripts()) // it knows of no spreading
			put1(t, b, "q", newJob(nil))
			l := take(t, b, "q", 1)[0]
			f.fails = func(script string) bool { return script == dies }
			key := fmt.Sprint("key", i)
			ack(t, b, l, broker.FollowUp{Queue: "r", Job: newJob(func(n *broker.NewJob) { n.Key = key })})
			for _, l := range take(t, other, "r", step) { // so that no job is left to know it by
				ack(t, other, l)
			}
			for range 3 {
				if _, err := other.Maintain(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			got := take(t, other, "r", 1-step)
			if len(got) == 1 {
				if got[0].Job.Queue != "r" {
					t.Errorf("it came to queue %q", got[0].Job.Queue)
				}
				again, err := other.Enqueue(t.Context(), broker.NewCall(), "r", []broker.NewJob{newJob(func(n *broker.NewJob) { n.Key = key })})
				if err != nil || !again[0].Existing || again[0].ID != got[0].Job.ID {
					t.Errorf("its key is not held: %+v, %v", again, err)
				}
				ack(t, other, got[0])
			}
			f.fails = nil
			if err := b.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestAClaimThatWaitsGetsTheJobOfAnyPart(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := spreadTo(t, s.URL(), "ns", 3)
	by := open(t, s.URL(), "ns", nil)
	defer by.Close()
	for _, queues := range [][]string{{"q"}, nil, {"a", "q"}} {
		for range 6 {
			got := make(chan broker.Claimed)
			go func() {
				c, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: queues, Max: 1, Wait: 30 * time.Second, Worker: "w"})
				if err != nil {
					t.Error(err)
				}
				got <- c
			}()
			began := time.Now()
			put1(t, by, "q", newJob(nil))
			c := <-got
			if took := time.Since(began); len(c.Leases) != 1 || took > 2*time.Second {
				t.Fatalf("%d leases after %v", len(c.Leases), took)
			}
			done := make(chan []broker.Job)
			go func() {
				jobs, err := by.Await(t.Context(), []broker.Ref{c.Leases[0].Job.Ref()}, 30*time.Second)
				if err != nil {
					t.Error(err)
				}
				done <- jobs
			}()
			ack(t, b, c.Leases[0])
			if jobs := <-done; len(jobs) != 1 || jobs[0].Queue != "q" {
				t.Errorf("awaited %+v", jobs)
			}
		}
	}
}

func TestSettingsOfASpreadQueueAreInForceInEveryPart(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := spreadTo(t, s.URL(), "ns", 3)
	ctx := t.Context()
	keep := broker.Setting{Kind: broker.RetentionSetting, Retention: &broker.Retention{Done: time.Hour}}
	tick := broker.Setting{Kind: broker.ScheduleSetting, Name: "s", Schedule: &broker.Schedule{Spec: "@hourly", Job: broker.NewJob{Task: "t"}}}
	die := &failing{transport: open(t, s.URL(), "ns", nil).t}
	dies := newBrokerWith(die, usualScripts()) // after it has set it in the first part
	defer dies.Close()
	if _, err := dies.Spreads(ctx, ""); err != nil {
		t.Fatal(err)
	}
	n := 0
	die.fails = func(script string) bool {
		if script == "configure" {
			n++
		}
		return script == "configure" && n > 1
	}
	if err := dies.Configure(ctx, broker.NewCall(), "q", broker.Change{Set: []broker.Setting{keep, tick}}); !errors.Is(err, broker.ErrUnknown) {
		t.Errorf("half of a change: %v", err)
	}
	if _, err := b.Counts(ctx, "q"); err != nil { // it learns that it is spread
		t.Fatal(err)
	}
	if _, err := b.Maintain(ctx); err != nil {
		t.Fatal(err)
	}
	for range 20 {
		put1(t, b, "q", newJob(nil))
	}
	for _, l := range take(t, b, "q", 20) {
		ack(t, b, l)
	}
	counts, err := b.Counts(ctx, "q")
	if err != nil || len(counts) != 1 || counts[0].Done != 20 {
		t.Errorf("%+v, %v: all are kept", counts, err)
	}
	all, err := b.Settings(ctx, "")
	if err != nil || len(all) != 2 || all[0].Queue != "q" {
		t.Errorf("settings %+v, %v", all, err)
	}
	for i, part := range b.spread.now()["q"] {
		is, err := b.readSettings(ctx, part)
		if err != nil || is.find(broker.SettingName{Kind: broker.ScheduleSetting, Name: "s"}) != nil != (i == 0) {
			t.Errorf("part %d has %+v, %v", i, is, err)
		}
	}
}

func TestAStormOnASpreadQueueLosesAndDoublesNothingWhileASlotMoves(t *testing.T) {
	slow(t)
	set := redistest.StartCluster(t, redistest.Options{})
	s := &storm{t: t, url: set.URL()}
	b := s.open()
	defer func() { _ = b.Close() }()
	if err := b.SetSpread(t.Context(), "q", 3); err != nil {
		t.Fatal(err)
	}
	nodes := map[int]bool{}
	var at []int
	for _, part := range partNames("q", 3) {
		at = append(at, set.Slot(namesOf("spool")(part).config))
		nodes[set.Owner(at[len(at)-1])] = true
	}
	if len(nodes) != 3 {
		t.Errorf("the parts are on %d nodes", len(nodes))
	}
	s.run(func(more func(jobs int64)) {
		for i := range 4 {
			more(300)
			m := set.Migrate(at[i%3])
			m.Begin()
			for m.Move(50) == 50 {
			}
			m.End()
		}
		more(300)
	})
}

// Clients use a queue while it is spread and gathered again and again.
func TestAStormLosesAndDoublesNothingWhileAQueueIsSpreadAndGathered(t *testing.T) {
	server := redistest.Start(t, redistest.Options{})
	by := open(t, server.URL(), "ns", nil)
	defer by.Close()
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	var mu sync.Mutex
	added, acked := map[broker.ID]bool{}, map[broker.ID]bool{}
	for range 3 {
		b := open(t, server.URL(), "ns", nil)
		defer b.Close()
		wg.Go(func() {
			for ctx.Err() == nil {
				n := newJob(func(n *broker.NewJob) { n.Key = fmt.Sprint(rand.Int64()) })
				got, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{n})
				if err != nil {
					t.Errorf("enqueue: %v", err)
					return
				}
				mu.Lock()
				added[got[0].ID] = true
				mu.Unlock()
				c, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 5, TTL: time.Minute, Worker: "w"})
				if err != nil {
					t.Errorf("claim: %v", err)
					return
				}
				for _, l := range c.Leases {
					ack(t, b, l)
					mu.Lock()
					if acked[l.Job.ID] {
						t.Errorf("job %v ran twice", l.Job.ID)
					}
					acked[l.Job.ID] = true
					mu.Unlock()
				}
				<-time.After(time.Duration(rand.IntN(3)) * time.Millisecond) // so that it is empty at times
			}
		})
	}
	changed := 0
	for i := 0; changed < 20 && !t.Failed(); i++ {
		err := by.SetSpread(t.Context(), "q", 2+changed%4)
		if err == nil {
			changed++
			for err = by.ClearSpread(t.Context(), "q"); errors.Is(err, broker.ErrConflict) && !t.Failed(); {
				err = by.ClearSpread(t.Context(), "q")
			}
		}
		if err != nil && !errors.Is(err, broker.ErrConflict) {
			t.Errorf("change %d: %v", changed, err)
		}
	}
	stop()
	wg.Wait()
	for {
		got, err := by.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 100, TTL: time.Minute, Worker: "w"})
		if err != nil || len(got.Leases) == 0 {
			break
		}
		for _, l := range got.Leases {
			acked[l.Job.ID] = true
		}
	}
	if len(added) != len(acked) {
		t.Errorf("%d jobs were added, and %d came out", len(added), len(acked))
	}
	for id := range added {
		if !acked[id] {
			t.Errorf("job %v is lost", id)
		}
	}
}

func TestAnIDThatIsMadeToFitKeepsItsMark(t *testing.T) {
	for i := range 100 {
		var j broker.NewJob
		j.MakeMarkedID(uint32(i) * 7919)
		for part := range 5 {
			if id := fitID(j.ID, 5, part); partOfID(id, 5) != part || id.Mark() != j.ID.Mark() {
				t.Fatalf("%s for part %d is %s", j.ID, part, id)
			}
		}
	}
}
