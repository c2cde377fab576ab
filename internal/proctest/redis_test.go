//go:build linux

package proctest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

func TestProofThatNothingIsLostWhenRedisAndItsClientsAreKilledAtRandom(t *testing.T) {
	fullRun(t)
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	w := newWeather(t, plan{Store: s.URL(), Queues: []string{"a", "b"}})
	deaths := 0
	w.storm(size(5*time.Second, 5*time.Minute), func() {
		pause(300*time.Millisecond + rand.N(time.Second))
		s.Kill()
		pause(rand.N(200 * time.Millisecond))
		s.Restart()
		deaths++
	})
	w.calm()
	t.Logf("the server was killed %d times", deaths)
	if deaths < 2 {
		t.Error("that is too little to show anything")
	}
	w.judge(s)
}

// weather is producers and workers on Redis that are killed at random while
// something else goes wrong, too.
type weather struct {
	t       *testing.T
	store   string
	ledgers string
	fleet   *fleet
	gap     time.Duration // from kill to kill, on average
	least   int           // of kills that show something
	forgets bool          // the servers may have forgotten claims
}

func newWeather(t *testing.T, of plan) *weather {
	t.Helper()
	x := &weather{t: t, store: of.Store, ledgers: filepath.Join(t.TempDir(), "ledgers"), fleet: newFleet(t), gap: 130 * time.Millisecond}
	must(t, os.Mkdir(x.ledgers, 0o700))
	for i := range 3 {
		for _, role := range []string{asProducer, asWorker} {
			p := of
			p.Role, p.Name, p.Concurrency, p.TTL = role, fmt.Sprintf("%s-%d", role, i), 16, time.Second
			p.Ledger = filepath.Join(x.ledgers, p.Name)
			if role == asWorker {
				p.Queues = nil
			}
			x.fleet.add(p)
		}
	}
	return x
}

// pause lets a while go by in which others work.
func pause(d time.Duration) { <-time.After(d) }

// storm kills processes for a while, during which strike is called again and again.
func (x *weather) storm(span time.Duration, strike func()) {
	x.t.Helper()
	x.least = int(span / x.gap / 3)
	eventually(x.t, "there is enough work to show something", func() bool { return len(readLedgers(x.t, x.ledgers).acks) >= 400 })
	over := make(chan struct{})
	go func() {
		defer close(over)
		x.fleet.killEvery(x.gap, span)
	}()
	for {
		select {
		case <-over:
			return
		default:
			strike()
		}
	}
}

// calm lets the workers finish what there is.
func (x *weather) calm() {
	x.t.Helper()
	x.fleet.finish(asProducer)
	with(x.t, x.store, func(c *spool.Client) { drained(x.t, c) })
	x.fleet.finish(asWorker)
	x.fleet.check()
}

// drained waits until nothing is left to work. It gives up when what is left gets
// no less for as long as it has patience.
func drained(t *testing.T, c *spool.Client) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	least, since := unfinished(t, c), now()
	for range tick.C {
		left := unfinished(t, c)
		// A follow-up is in no queue while it is in an outbox: upkeep delivers it.
		if left == 0 && maintained(t, c) && unfinished(t, c) == 0 {
			return
		}
		if left < least {
			least, since = left, now()
		}
		if now()-since > patience {
			counts, err := c.Counts(t.Context(), "")
			t.Fatalf("%d jobs are left, and were for %v: %+v, %v", left, patience, counts, err)
		}
	}
}

func maintained(t *testing.T, c *spool.Client) bool {
	t.Helper()
	_, err := c.Broker().Maintain(t.Context())
	must(t, err)
	return true
}

// judge compares what was acknowledged with what the servers hold, their
// numbers with their records, and lets upkeep look for what does not fit.
func (x *weather) judge(nodes ...*redistest.Server) {
	x.t.Helper()
	l := readLedgers(x.t, x.ledgers)
	l.least, l.forgets = x.least, x.forgets
	with(x.t, x.store, func(c *spool.Client) {
		judge(x.t, c, l, x.fleet.kills)
		judgeRecords(x.t, c, nodes)
		judgeUpkeep(x.t, c, nodes)
	})
}

const prefix = "spool:{"

// eachKey calls fn for the keys of the queues that match a pattern, on each node.
func eachKey(t *testing.T, nodes []*redistest.Server, pattern string, fn func(c *redistest.Conn, key string)) {
	t.Helper()
	for _, s := range nodes {
		c, err := redistest.Dial(s.Addr())
		must(t, err)
		for at := "0"; ; {
			reply, err := c.Do("SCAN", at, "MATCH", prefix+pattern, "COUNT", 1000)
			must(t, err)
			next := reply.([]any)
			for _, key := range next[1].([]any) {
				fn(c, key.(string))
			}
			if at = next[0].(string); at == "0" {
				break
			}
		}
		must(t, c.Close())
	}
}

// judgeRecords walks the records themselves, not an index of them, and compares
// the kept numbers with what they say.
func judgeRecords(t *testing.T, c *spool.Client, nodes []*redistest.Server) {
	t.Helper()
	type sort struct {
		queue, task string
		state       broker.State
	}
	found, seen := map[sort]int64{}, map[string]bool{}
	eachKey(t, nodes, "*}:j*", func(conn *redistest.Conn, key string) {
		queue, _, _ := strings.Cut(strings.TrimPrefix(key, prefix), "}")
		if seen[key] || queue == "*" { // a key may be found twice
			return
		}
		seen[key] = true
		head, err := conn.Do("GETRANGE", key, 0, 5)
		must(t, err)
		h := head.(string)
		task, err := conn.Do("HGET", prefix+queue+"}:t", h[3:6])
		must(t, err)
		found[sort{queue, fmt.Sprint(task), broker.State(h[0] >> 5)}]++
	})
	counts, err := c.Counts(t.Context(), "")
	must(t, err)
	for _, n := range counts {
		for s := broker.Scheduled; s <= broker.Cancelled; s++ {
			k := sort{n.Queue, n.Task, s}
			if n.Of(s) != found[k] {
				t.Errorf("the kept number of %+v is %d, there are %d records", k, n.Of(s), found[k])
			}
			delete(found, k)
		}
	}
	for k, n := range found {
		t.Errorf("the kept number of %+v is missing, there are %d records", k, n)
	}
	if len(seen) == 0 {
		t.Error("no record was found")
	}
}

// judgeUpkeep lets upkeep prove every index by the records and every record by
// the indexes, and wants that it finds nothing.
func judgeUpkeep(t *testing.T, c *spool.Client, nodes []*redistest.Server) {
	t.Helper()
	queues := map[string]bool{}
	eachKey(t, nodes, "*}:c", func(conn *redistest.Conn, key string) {
		if strings.HasPrefix(key, prefix+"*") {
			return
		}
		proof := strings.TrimSuffix(key, "c") + "E"
		queues[proof] = true
		// What was put right until now counts, too, but the round begins anew.
		_, err := conn.Do("HDEL", proof, "over", "step", "at")
		must(t, err)
	})
	open := func() (left int) {
		for proof := range queues {
			left++
			eachProof(t, nodes, proof, func(field, value string) {
				switch {
				case field == "over":
					left--
				case strings.HasPrefix(field, "fixed:"):
					t.Errorf("upkeep put right %q in %s %s times", field, proof, value)
				}
			})
		}
		return left
	}
	for range 100_000 {
		maintained(t, c)
		if open() == 0 {
			return
		}
		if t.Failed() {
			return
		}
	}
	t.Error("a round of proofs does not end")
}

// eachProof reads how far the proof of a queue is, where its node is.
func eachProof(t *testing.T, nodes []*redistest.Server, key string, fn func(field, value string)) {
	t.Helper()
	for _, s := range nodes {
		reply, err := s.Do("HGETALL", key)
		if err != nil { // MOVED: another node has it
			continue
		}
		list := reply.([]any)
		for i := 0; i+1 < len(list); i += 2 {
			fn(list[i].(string), list[i+1].(string))
		}
	}
}
