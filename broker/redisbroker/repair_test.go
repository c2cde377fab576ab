package redisbroker

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/internal/redistest"
)

// proved fails the test unless a round of proofs finds every index of a store as it
// should be.
func proved(t testing.TB, namespace string, b *Broker) {
	t.Helper()
	queues, err := b.places(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := b.t
	if clocked, ok := n.(timed); ok {
		n = clocked.transport
	}
	server := n.(*network).client
	for _, q := range queues {
		tag, _ := tagOf(q)
		e := namespace + ":{" + tag + "}:E"
		if err := server.Del(t.Context(), e).Err(); err != nil {
			t.Fatal(err)
		}
		for server.HGet(t.Context(), e, "over").Err() != nil {
			if _, err := b.Maintain(t.Context()); err != nil {
				t.Fatalf("maintain: %v", err)
			}
		}
		for field, n := range server.HGetAll(t.Context(), e).Val() {
			if strings.HasPrefix(field, "fixed:") {
				t.Errorf("queue %s: %q was wrong %s times", q, field, n)
			}
		}
	}
}

// shop is a queue that has something in every index.
type shop struct {
	t     *testing.T
	s     *redistest.Server
	b     *Broker
	clock *brokertest.ManualClock
	ns    string
}

func openShop(t *testing.T, s *redistest.Server) *shop {
	t.Helper()
	ns := newNamespace()
	x := &shop{t: t, s: s, clock: brokertest.NewManualClock(wall), ns: ns}
	x.b = open(t, s.URL(), ns, x.clock)
	t.Cleanup(func() { _ = x.b.Close() })
	x.stock()
	return x
}

func (x *shop) must(err error) {
	x.t.Helper()
	if err != nil {
		x.t.Fatal(err)
	}
}

func (x *shop) add(jobs ...broker.NewJob) {
	x.t.Helper()
	_, err := x.b.Enqueue(x.t.Context(), broker.NewCall(), "q", jobs)
	x.must(err)
}

func (x *shop) claim(tasks ...string) []broker.Lease {
	x.t.Helper()
	got, err := x.b.Claim(x.t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Tasks: tasks, Max: 1, TTL: time.Hour, Worker: "w", Remote: true})
	x.must(err)
	return got.Leases
}

func (x *shop) end(l broker.Lease, kind broker.SettleKind) {
	x.t.Helper()
	_, err := x.b.Settle(x.t.Context(), broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: kind, Result: map[bool][]byte{true: []byte("r")}[kind == broker.Ack]}})
	x.must(err)
}

// stock makes jobs of every sort.
func (x *shop) stock() {
	limit := broker.Setting{Kind: broker.LimitSetting, Name: "one", Limit: &broker.Limit{Tasks: []string{"limited"}, Running: 1}}
	rate := broker.Setting{Kind: broker.LimitSetting, Name: "slow", Limit: &broker.Limit{Tasks: []string{"rated"}, Count: 1, Every: time.Hour}}
	x.must(x.b.Configure(x.t.Context(), broker.NewCall(), "q", broker.Change{Set: []broker.Setting{limit, rate}}))
	for _, kind := range []broker.SettleKind{broker.Ack, broker.Bury, broker.Cancel, broker.Release} {
		x.add(broker.NewJob{Task: "t"})
		x.end(x.claim("t")[0], kind)
		x.clock.Advance(time.Millisecond)
	}
	x.add(broker.NewJob{Task: "leased"}, broker.NewJob{Task: "held", Group: "g", Ordered: true}, broker.NewJob{Task: "held", Group: "g", Ordered: true})
	x.claim("leased")
	x.claim("held")
	x.claim("held")
	x.add(broker.NewJob{Task: "limited"}, broker.NewJob{Task: "limited", Tenant: "x"}, broker.NewJob{Task: "rated"}, broker.NewJob{Task: "rated"})
	for range 2 {
		x.claim("limited")
		x.claim("rated")
	}
	x.add(
		broker.NewJob{Task: "t"}, broker.NewJob{Task: "t", Tenant: "x"}, broker.NewJob{Task: "t", Tenant: "y", Priority: 3},
		broker.NewJob{Task: "t", Delay: time.Hour}, broker.NewJob{Task: "t", At: wall.Add(2 * time.Hour)},
		broker.NewJob{Task: "t", StartWithin: time.Hour}, broker.NewJob{Task: "t", Key: "k"},
	)
}

// maintain does upkeep until a round of proofs is over.
func (x *shop) maintain() {
	x.t.Helper()
	x.s.Must("DEL", x.ns+":{q}:E")
	for range 100 {
		_, err := x.b.Maintain(x.t.Context())
		x.must(err)
		if over := x.s.Must("HGET", x.ns+":{q}:E", "over"); over != nil {
			return
		}
	}
	x.t.Fatal("a round of proofs does not end")
}

// names lists all keys of the queue, without their prefix.
func (x *shop) names() (all []string) {
	prefix := x.ns + ":{q}:"
	for _, k := range x.s.Must("KEYS", prefix+"*").([]any) {
		all = append(all, strings.TrimPrefix(k.(string), prefix))
	}
	slices.Sort(all)
	return all
}

// indexes reads all keys of the queue but for its configuration, its records, and
// what is remembered for a while: calls, who was served.
func (x *shop) indexes() map[string]string {
	x.t.Helper()
	prefix := x.ns + ":{q}:"
	all, sides := map[string]string{}, map[string][]string{}
	for _, name := range x.names() {
		key := prefix + name
		if name == "c" || name == "E" || strings.Contains("ijxv", name[:1]) {
			continue // no index
		}
		switch x.s.Must("TYPE", key) {
		case "zset":
			if name[0] == 'o' && (name[4] == 'a' || name[4] == 'b') {
				// A tenant changes sides late: it is on the one or the other.
				for _, m := range x.s.Must("ZRANGE", key, 0, -1).([]any) {
					tenant := strings.TrimPrefix(m.(string), m.(string)[:7*int('b'-name[4])])
					side := name[:4] + "a or b" + name[5:]
					sides[side] = append(sides[side], tenant)
				}
				continue
			}
			all[name] = fmt.Sprintf("%q", x.s.Must("ZRANGE", key, 0, -1, "WITHSCORES"))
		case "set":
			all[name] = sorted(x.s.Must("SMEMBERS", key).([]any), 1)
		case "hash":
			all[name] = sorted(x.s.Must("HGETALL", key).([]any), 2)
		case "string":
			all[name] = fmt.Sprintf("%q", x.s.Must("GET", key))
		}
	}
	for side, tenants := range sides {
		slices.Sort(tenants)
		all[side] = fmt.Sprintf("%q", tenants)
	}
	return all
}

func sorted(list []any, each int) string {
	var parts []string
	for i := 0; i < len(list); i += each {
		parts = append(parts, fmt.Sprintf("%q", list[i:i+each]))
	}
	sort.Strings(parts)
	return strings.Join(parts, " ")
}

// kept are the names of indexes, by their first letters, that upkeep makes again
// when they are lost.
var kept = []string{"L1", "L2", "L3", "L4", "L5", "L6", "l", "h", "r", "d0", "d1", "e", "k", "s0", "o", "W", "mone", "H"}

func isKept(name string) bool {
	return slices.ContainsFunc(kept, func(k string) bool {
		return name == k || strings.Contains("lho", k) && strings.HasPrefix(name, k)
	})
}

func (x *shop) wantIndexes(what string, before map[string]string) {
	x.t.Helper()
	after := x.indexes()
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if after[name] != before[name] {
			x.t.Errorf("%s: index %q is %s, want %s", what, name, after[name], before[name])
		}
	}
	for name := range after {
		if _, ok := before[name]; !ok {
			x.t.Errorf("%s: index %q is new: %s", what, name, after[name])
		}
	}
}

func TestUpkeepChangesNothingThatIsRight(t *testing.T) {
	slow(t)
	x := openShop(t, redistest.Start(t, redistest.Options{}))
	before := x.indexes()
	x.maintain()
	x.wantIndexes("upkeep", before)
	for field, n := range asMap(x.s.Must("HGETALL", x.ns+":{q}:E")) {
		if strings.HasPrefix(field, "fixed:") {
			t.Errorf("%s is counted %s times", field, n)
		}
	}
}

func asMap(v any) map[string]string {
	m := map[string]string{}
	list := v.([]any)
	for i := 0; i < len(list); i += 2 {
		m[list[i].(string)] = list[i+1].(string)
	}
	return m
}

func TestUpkeepMakesAgainWhatAnIndexHasLost(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	first := openShop(t, s)
	for _, name := range first.names() {
		if !isKept(name) {
			continue
		}
		x := openShop(t, s)
		before := x.indexes()
		if x.s.Must("DEL", x.ns+":{q}:"+name) != int64(1) {
			t.Errorf("there is no index %q", name)
		}
		x.maintain()
		x.wantIndexes(fmt.Sprintf("without %q", name), before)
	}
}

func TestUpkeepTakesOutOfAnIndexWhatHasNoRecord(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	id := broker.NewID()
	entry := "\x00\x00\x00\x00\x00\x01" + string(id[:])
	lane := "\x00\x00\x00\x00\x00\x01\x00\x00\x01\x80\x00\x00\x00\x00\x00\x06nobody"
	for name, member := range map[string]string{
		"L1": entry, "L2": entry, "L3": entry, "L4": entry, "L5": entry, "L6": entry, "d0": entry, "d1": entry,
		"e": string(id[:]), "k": string(id[:]), "s0": string(id[:]), "s1": string(id[:]), "h\x80\x00\x00\x00": lane,
	} {
		x := openShop(t, s)
		before := x.indexes()
		far := wall.Add(1000 * time.Hour).UnixMicro()
		x.s.Must("ZADD", x.ns+":{q}:"+name, far, member)
		x.maintain()
		x.wantIndexes(fmt.Sprintf("with more in %q", name), before)
	}
	for name, value := range map[string]string{"w": "worker", "K": string(id[:]) + string(make([]byte, 24)), "H": string(id[:])} {
		x := openShop(t, s)
		before := x.indexes()
		x.s.Must("HSET", x.ns+":{q}:"+name, string(id[:]), value)
		x.maintain()
		x.wantIndexes(fmt.Sprintf("with more in %q", name), before)
	}
}

func TestAClaimPassesOverWhatHasNoRecord(t *testing.T) {
	x := openShop(t, redistest.Start(t, redistest.Options{}))
	prefix := x.ns + ":{q}:"
	for name := range x.indexes() {
		if name[0] == 'l' {
			x.s.Must("ZADD", prefix+name, 5, "\x00\x00\x00\x00\x00\x01"+strings.Repeat("n", 16))
		}
	}
	n := 0
	for range 20 {
		got, err := x.b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Tasks: []string{"t"}, Max: 10, TTL: time.Hour})
		x.must(err)
		n += len(got.Leases)
		_, err = x.b.Maintain(x.t.Context())
		x.must(err)
	}
	if n != 6 {
		t.Errorf("%d jobs were claimed, want 6", n)
	}
}
