package redisbroker

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/migrate"
	"github.com/spoolq/spool/internal/redistest"
)

// TestNoLostReplyOfAnyScriptDoublesAnything makes the same tour through all that
// a broker does again and again. Each time another reply, or another request, of
// another script is lost; what everybody was told and what is there at the end
// has to be what it was without.
func TestNoLostReplyOfAnyScriptDoublesAnything(t *testing.T) {
	t.Parallel() // it mostly waits for repeats
	s := redistest.Start(t, redistest.Options{})
	calm := newTour(t, s)
	want := calm.make()
	if i := strings.Index(want, "put right"); i >= 0 {
		t.Errorf("upkeep found what does not fit: %.60s", want[i:])
	}
	if again := newTour(t, s).make(); again != want {
		t.Fatalf("two tours differ by themselves:\n%s", firstDifference(again, want))
	}
	for _, name := range scriptNames(t) {
		if calm.calls[name] == 0 {
			t.Errorf("the tour does not call script %s", name)
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, v := range []redistest.Verdict{redistest.DropReply, redistest.DropRequest} {
				last := calm.calls[name]
				if slices.Contains([]string{"get", "list", "counts", "settings", "explain", "moves"}, name) {
					last = min(last, 3) // they only read
				}
				for nth := 1; nth <= last; nth++ {
					x := newTour(t, s)
					x.lose, x.nth, x.verdict = name, nth, v
					got := x.make()
					what := map[redistest.Verdict]string{redistest.DropReply: "reply", redistest.DropRequest: "request"}[v]
					if !x.lost {
						t.Errorf("%s %d was not lost: it was not called", what, nth)
					}
					if got != want {
						t.Errorf("with %s %d of %s lost, of %d:\n%s", what, nth, name, calm.calls[name], firstDifference(got, want))
					}
				}
			}
		})
	}
	t.Logf("calls of the tour: %v", calm.calls)
}

// TestTheTourNoticesWhatIsDoubled is its control: a server that forgets the calls
// that it has answered makes the tour differ.
func TestTheTourNoticesWhatIsDoubled(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	calm := newTour(t, s)
	want := calm.make()
	for _, name := range []string{"enqueue", "claim", "settle", "tick", "apply", "deliver"} {
		noticed := false
		for nth := 1; nth <= calm.calls[name] && !noticed; nth++ {
			x := newTour(t, s)
			x.lose, x.nth, x.verdict, x.forget = name, nth, redistest.DropReply, true
			noticed = x.make() != want
		}
		if !noticed {
			t.Errorf("no lost reply of script %s makes a difference", name)
		}
	}
}

// scriptNames lists the scripts by their files: a file that is a script and no
// part of others. It fails when the broker has one of which no file tells.
func scriptNames(t *testing.T) (names []string) {
	t.Helper()
	files, err := lua.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Fields(partsAdd + " " + partsClaim + " " + partsWalk + " room repair fast govern")
	for _, f := range files {
		if name := strings.TrimSuffix(f.Name(), ".lua"); !slices.Contains(parts, name) {
			names = append(names, name)
		}
	}
	all := reflect.ValueOf(usualScripts()).Elem()
	for i := range all.NumField() {
		if name := all.Field(i).Elem().FieldByName("name").String(); !slices.Contains(names, name) {
			t.Errorf("script %s has no file", name)
		}
	}
	return names
}

func firstDifference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is  %s\nshould be %s", i, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, should be %d", len(g), len(w))
}

// tour is one life of a store with a manual clock, told line by line.
type tour struct {
	t     *testing.T
	s     *redistest.Server
	p     *redistest.Proxy
	ns    string
	clock *brokertest.ManualClock
	b     broker.Broker
	text  strings.Builder
	ids   map[broker.ID]string // by order of appearance
	jobs  []broker.Ref

	mu      sync.Mutex
	idle    chan bool      // told when a claim was taken off the idle ones
	deaf    bool           // what comes now is not counted: nobody knows how often
	calls   map[string]int // of each script
	lose    string         // a script
	nth     int            // call of it
	verdict redistest.Verdict
	forget  bool // the server forgets the call before it is repeated
	lost    bool
}

func newTour(t *testing.T, s *redistest.Server) *tour {
	t.Helper()
	x := &tour{t: t, s: s, p: redistest.NewProxy(t, s.Addr()), ns: newNamespace(), clock: brokertest.NewManualClock(wall), ids: map[broker.ID]string{}, calls: map[string]int{}, idle: make(chan bool, 100)}
	names := map[string]string{}
	all := reflect.ValueOf(manualScripts()).Elem()
	for i := range all.NumField() {
		one := all.Field(i).Elem()
		names[one.FieldByName("source").String()] = one.FieldByName("name").String()
	}
	sums := map[string]string{}
	for source, name := range names {
		sums[(&script{source: source}).sum()] = name
		s.Must("SCRIPT", "LOAD", source) // so that each is called by its sum
	}
	x.p.Judge(func(args []string) redistest.Verdict {
		if args[0] != "EVALSHA" {
			return redistest.Pass
		}
		return x.judge(sums[args[1]])
	})
	return x
}

func (x *tour) judge(name string) (v redistest.Verdict) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lost && x.forget && name == x.lose {
		for _, key := range x.s.Must("KEYS", x.ns+":*").([]any) {
			if remembersCalls(fmt.Sprint(key)) {
				x.s.Must("DEL", key)
			}
		}
		x.forget = false
	}
	if x.deaf && name != "idle" {
		return redistest.Pass
	}
	x.calls[name]++
	defer func() {
		if name == "idle" && v == redistest.Pass {
			x.idle <- true
		}
	}()
	if name == x.lose && x.calls[name] == x.nth && !x.lost {
		x.lost = true
		return x.verdict
	}
	return redistest.Pass
}

// remembersCalls tells whether a key holds calls that were answered. What stands
// behind a queue's name is bytes: a job's id can have any in it.
func remembersCalls(key string) bool {
	_, name, _ := strings.Cut(key, "}:")
	return strings.HasPrefix(name, "i") || strings.HasPrefix(name, "P")
}

func TestACallIsToldFromAJobWhoseIDLooksLikeOne(t *testing.T) {
	for _, c := range []struct {
		key  string
		want bool
	}{
		{"store8:{q}:i\x00\x05", true},
		{"store8:{wide*3*1*116}:P\x01", true},
		{"store8:{q}:j\x01\xa2:i\x7e", false},
		{"store8:{q}:x\x01\xa2}:P\x7e", false},
		{"store8:{q}:n", false},
	} {
		if got := remembersCalls(c.key); got != c.want {
			t.Errorf("%q: %t, want %t", c.key, got, c.want)
		}
	}
}

// make makes the tour and returns what was told.
func (x *tour) make() string {
	b := open(x.t, x.p.URL(), x.ns, x.clock)
	x.b = b
	for _, visit := range []func(){x.enqueueAll, x.workAll, x.tickAll, x.commandAll, x.spreadAll, x.moveAll, x.waitAll, x.lookAll} {
		visit()
		x.clock.Advance(time.Second)
	}
	x.leave(b)
	return x.text.String()
}

func (x *tour) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

// say tells something, with ids by their order of appearance and without times
// on this process's clock.
func (x *tour) say(what string, v any) {
	text, err := json.Marshal(v)
	x.must(err)
	line := string(text)
	for id, name := range x.ids {
		line = strings.ReplaceAll(line, id.String(), name)
	}
	fmt.Fprintf(&x.text, "%s: %s\n", what, line)
}

// name gives a name to the job of an id.
func (x *tour) name(queue string, id broker.ID) {
	if _, known := x.ids[id]; !known {
		x.ids[id] = fmt.Sprintf("#%d", len(x.ids))
		x.jobs = append(x.jobs, broker.Ref{Queue: queue, ID: id})
	}
}

func (x *tour) enqueue(queue string, jobs ...broker.NewJob) []broker.Enqueued {
	got, err := x.b.Enqueue(x.t.Context(), broker.NewCall(), queue, jobs)
	x.must(err)
	for _, e := range got {
		x.name(queue, e.ID)
	}
	x.say("enqueued", got)
	return got
}

func made(task string) broker.NewJob {
	n := broker.NewJob{Task: task, Payload: []byte("p")}
	n.MakeID()
	return n
}

// enqueueAll adds jobs in all the ways that scripts know.
func (x *tour) enqueueAll() {
	set := []broker.Setting{
		{Kind: broker.LimitSetting, Name: "l", Limit: &broker.Limit{Tasks: []string{"limited"}, Running: 1}},
		{Kind: broker.LimitSetting, Name: "r", Limit: &broker.Limit{Tasks: []string{"rated"}, Count: 2, Every: time.Hour}},
		{Kind: broker.RetentionSetting, Retention: &broker.Retention{Done: time.Hour}},
		{Kind: broker.ScheduleSetting, Name: "s", Schedule: &broker.Schedule{Spec: "@every 1h", Job: broker.NewJob{Task: "ticked"}}},
	}
	x.must(x.b.Configure(x.t.Context(), broker.NewCall(), "q", broker.Change{Set: set}))
	for range 3 { // the third goes the short way
		x.enqueue("r", made("plain"))
	}
	x.enqueue("r", made("plain"), made("plain"), made("other"))
	x.enqueue("q", made("t"), made("t"), made("t"), made("t"), made("t"), made("t"))
	x.enqueue("q", broker.NewJob{Task: "t"}, broker.NewJob{Task: "t", Delay: time.Hour})
	x.enqueue("q", broker.NewJob{Task: "keyed", Key: "k"})
	x.enqueue("q", broker.NewJob{Task: "keyed", Key: "k"}, broker.NewJob{Task: "keyed", Key: "k", Payload: []byte("differs")})
	x.enqueue("q", broker.NewJob{Task: "limited"}, broker.NewJob{Task: "limited"}, broker.NewJob{Task: "rated"}, broker.NewJob{Task: "rated"}, broker.NewJob{Task: "rated"})
	x.enqueue("q", broker.NewJob{Task: "ordered", Group: "g", Ordered: true}, broker.NewJob{Task: "ordered", Group: "g", Ordered: true})
	all := made("batch")
	all.BatchSize = 2
	x.enqueue("q", all, broker.NewJob{Task: "t", Batch: all.ID}, broker.NewJob{Task: "t", Batch: all.ID, BatchOrdinal: 1})
}

func (x *tour) claim(queue string, n int, tasks ...string) []broker.Lease {
	got, err := x.b.Claim(x.t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{queue}, Tasks: tasks, Max: n, TTL: time.Minute, Worker: "w"})
	x.must(err)
	x.say("claimed", got)
	return got.Leases
}

func (x *tour) settle(list ...broker.Settlement) {
	got, err := x.b.Settle(x.t.Context(), broker.NewCall(), list)
	x.must(err)
	for i := range got {
		for k, f := range got[i].FollowUps {
			x.name(list[i].FollowUps[k].Queue, f.ID)
		}
	}
	x.say("settled", got)
}

// workAll claims jobs and ends them in all ways.
func (x *tour) workAll() {
	worker := broker.Worker{ID: "w", Name: "w", Queues: []string{"q", "r"}, Tasks: []string{"t"}, Concurrency: 3, StartedAt: wall}
	leases := x.claim("q", 8, "t")
	request := broker.ExtendRequest{Worker: worker, TTL: time.Hour}
	for i := range leases {
		e := broker.Extension{Ref: leases[i].Job.Ref(), Token: leases[i].Token, Log: []string{fmt.Sprint("line ", i)}}
		if i%2 == 0 {
			e.Progress = &broker.Progress{Percent: 10 * i, Note: "n"}
		}
		request.Leases = append(request.Leases, e)
	}
	for range 2 {
		beats, err := x.b.Extend(x.t.Context(), request)
		x.must(err)
		x.say("extended", beats)
	}
	x.lookAt("at work")
	of := func(i int, kind broker.SettleKind) broker.Settlement {
		return broker.Settlement{Ref: leases[i].Job.Ref(), Token: leases[i].Token, Kind: kind}
	}
	if len(leases) < 6 {
		return // the control may see that
	}
	ack := of(0, broker.Ack)
	ack.Result = []byte("result")
	ack.FollowUps = []broker.FollowUp{{Queue: "q", Job: made("follows")}, {Queue: "r", Job: made("follows")}, {Queue: "z", Job: broker.NewJob{Task: "follows"}}}
	nack := of(1, broker.Nack)
	nack.Error, nack.Delay = "failed", time.Second
	x.settle(ack, nack)
	x.settle(of(2, broker.Snooze), of(3, broker.Release), of(4, broker.Bury))
	x.settle(of(5, broker.Cancel))
	for _, l := range x.claim("r", 3) {
		x.settle(broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack})
	}
	x.claim("q", 10)
	x.clock.Advance(2 * time.Minute)
	x.maintain()
}

func (x *tour) maintain() {
	for range 3 {
		after, err := x.b.Maintain(x.t.Context())
		x.must(err)
		x.say("maintained", after > 0)
	}
}

// tickAll moves the cursor of a schedule, and pauses it.
func (x *tour) tickAll() {
	due := time.Time{}
	for i := range 3 {
		next := x.clock.Wall().Add(time.Duration(i) * time.Hour)
		tick := broker.Tick{Queue: "q", Schedule: "s", Due: due, Next: next}
		if i > 0 { // the first sets the cursor alone
			tick.Jobs = []broker.NewJob{{Task: "ticked"}}
		}
		won, at, err := x.b.Tick(x.t.Context(), broker.NewCall(), tick)
		x.must(err)
		x.say("ticked", fmt.Sprint(won, at.UTC()))
		due = next
		x.clock.Advance(time.Hour)
	}
	x.must(x.b.Configure(x.t.Context(), broker.NewCall(), "q", broker.Change{Pause: []string{"s"}}))
	x.must(x.b.Configure(x.t.Context(), broker.NewCall(), "q", broker.Change{Resume: []string{"s"}, Set: []broker.Setting{{Kind: broker.WeightSetting, Name: "x", Weight: 3}}}))
}

// spreadAll spreads a queue, which is refused once it has a job, and gathers it.
func (x *tour) spreadAll() {
	ctx, b := x.t.Context(), x.b.(*Broker)
	x.must(b.SetSpread(ctx, "wide", 3))
	for range 2 { // the second is a repeat of the key
		got, err := x.b.Enqueue(ctx, broker.NewCall(), "wide", []broker.NewJob{{Task: "t", Key: "k"}})
		x.must(err)
		x.say("wide", fmt.Sprint(got[0].Existing))
	}
	x.say("gathered with a job", fmt.Sprint(b.ClearSpread(ctx, "wide")))
	spread, err := b.Spreads(ctx, "wide")
	x.must(err)
	x.say("spread", spread)
	step, err := x.b.Apply(ctx, broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: "wide"}})
	x.must(err)
	x.say("deleted", step.Changed)
	x.must(b.ClearSpread(ctx, "wide"))
	spread, err = b.Spreads(ctx, "")
	x.must(err)
	x.say("spread", spread)
}

// commandAll does the commands in steps.
func (x *tour) commandAll() {
	for _, c := range []broker.Command{
		{Kind: broker.CancelJobs, Filter: broker.Filter{Task: "rated"}, Reason: "because"},
		{Kind: broker.CancelJobs, Filter: broker.Filter{Task: "ordered"}},
		{Kind: broker.RequeueJobs, Filter: broker.Filter{Task: "rated"}},
		{Kind: broker.RequeueJobs, Filter: broker.Filter{States: []broker.State{broker.Dead}}},
		{Kind: broker.PauseQueue},
		{Kind: broker.ResumeQueue},
		{Kind: broker.DeleteJobs, Filter: broker.Filter{Task: "rated"}},
	} {
		c.Filter.Queue, c.Limit = "q", 2
		for begun := true; begun || c.Cursor != ""; begun = false {
			step, err := x.b.Apply(x.t.Context(), broker.NewCall(), c)
			x.must(err)
			x.say("applied", step.Changed)
			c.Cursor = step.Cursor
		}
	}
}

// moveAll moves a queue to another store, and back.
func (x *tour) moveAll() {
	home := x.b
	away := open(x.t, x.p.URL(), x.ns+"away", x.clock)
	defer func() { x.must(away.Close()) }()
	member := made("batch")
	member.BatchSize = 1
	x.enqueue("q", member, broker.NewJob{Task: "t", Batch: member.ID})
	x.enqueue("q", broker.NewJob{Task: "held", Key: "for", KeyHold: broker.HoldFor, KeyFor: time.Hour})
	x.move(home.(migrate.Broker), away)
	x.enqueue("q", broker.NewJob{Task: "held", Key: "for", KeyHold: broker.HoldFor, KeyFor: time.Hour})
	x.b = away
	x.lookAt("away")
	x.move(home.(migrate.Broker), away) // what came later
	x.move(away, home.(migrate.Broker))
	x.b = home
}

func (x *tour) move(from, to migrate.Broker) {
	x.clock.Advance(broker.MoveTTL) // who ran a move before is not waited for
	m := migrate.Mover{From: migrate.Side{Broker: from, Name: "from"}, To: migrate.Side{Broker: to, Name: "to"}, Max: 16}
	done, err := m.Queue(x.t.Context(), "q")
	x.must(err)
	x.say("moved", done)
	for _, side := range []migrate.Broker{from, to} {
		all, err := side.Moves(x.t.Context(), "q")
		x.must(err)
		for _, one := range all {
			x.say("the move", fmt.Sprint(one.State, one.Batch, one.OnWay, one.Jobs))
		}
	}
}

// waitAll waits for a job and for the end of one, in vain.
func (x *tour) waitAll() {
	ended, err := x.b.Await(x.t.Context(), x.jobs[:1], 0)
	x.must(err)
	x.say("ended", ended)
	x.mu.Lock()
	x.deaf = true
	x.mu.Unlock()
	other := open(x.t, x.p.URL(), x.ns, x.clock)
	got, err := other.Claim(x.t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Tasks: []string{"nobody"}, Max: 1, Wait: 10 * time.Millisecond})
	x.must(err)
	x.say("waited for", got)
	<-x.idle
	x.must(other.Close())
	x.mu.Lock()
	x.deaf = false
	x.mu.Unlock()
}

// lookAt reads all jobs and numbers.
func (x *tour) lookAt(when string) {
	for _, queue := range []string{"q", "r", "z"} {
		for s := broker.Scheduled; s <= broker.Cancelled; s++ {
			page, err := x.b.List(x.t.Context(), broker.Filter{Queue: queue, States: []broker.State{s}}, "", 1000)
			x.must(err)
			for _, j := range page.Jobs {
				x.name(queue, j.ID)
				x.say(when+" there is", j)
			}
		}
	}
	counts, err := x.b.Counts(x.t.Context(), "")
	x.must(err)
	x.say("counts", counts)
}

// lookAll reads all that can be read.
func (x *tour) lookAll() {
	x.lookAt("after all")
	got, err := x.b.Get(x.t.Context(), x.jobs)
	x.must(err)
	x.say("jobs", got)
	settings, err := x.b.Settings(x.t.Context(), "")
	x.must(err)
	x.say("settings", settings)
	workers, err := x.b.Workers(x.t.Context(), "")
	x.must(err)
	for i := range workers {
		x.say("worker", fmt.Sprint(workers[i].ID, workers[i].Queues, workers[i].Leases))
	}
	for _, r := range x.jobs[:8] {
		why, err := x.b.Explain(x.t.Context(), r)
		if err != nil && !errors.Is(err, broker.ErrNotFound) {
			x.t.Error(err)
		}
		x.say("because", why)
	}
}

// leave closes the client, and looks with another at what it left.
func (x *tour) leave(b *Broker) {
	x.claim("q", 1, "t") // one: leases are given back in any order
	x.must(b.Close())
	other := open(x.t, x.s.URL(), x.ns, x.clock)
	x.b = other
	x.maintain()
	x.lookAll()
	for _, queue := range []string{"q", "r", "z"} {
		for field, n := range asMap(x.s.Must("HGETALL", x.ns+":{"+queue+"}:E")) {
			if strings.HasPrefix(field, "fixed:") {
				x.say("put right", field+" "+n)
			}
		}
		x.say("outbox", x.s.Must("HLEN", x.ns+":{"+queue+"}:O"))
	}
	x.must(other.Close())
}
