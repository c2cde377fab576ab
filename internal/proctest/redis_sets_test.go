//go:build linux

package proctest

import (
	"encoding/json"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/internal/redistest"
)

func TestProofThatFollowUpsBetweenTheNodesOfAClusterComeOnceWhileNodesAreKilledAndSlotsMove(t *testing.T) {
	fullRun(t)
	if !*full {
		t.Parallel() // it mostly waits
	}
	set := redistest.StartCluster(t, redistest.Options{Persistence: redistest.Always})
	owners := map[int]bool{}
	for _, q := range relays {
		owners[set.Owner(set.Slot(prefix+q+"}:c"))] = true
	}
	if len(owners) < 2 {
		t.Fatalf("the queues %q are all on one node", relays)
	}
	w := newWeather(t, plan{Store: set.URL(), Queues: relays, Relay: true})
	w.gap = 400 * time.Millisecond
	deaths, moves := 0, 0
	w.storm(size(5*time.Second, time.Minute), func() {
		for range 3 {
			pause(rand.N(600 * time.Millisecond))
			m := set.Migrate(set.Slot(prefix + relays[rand.IntN(len(relays))] + "}:c"))
			m.Begin()
			for m.Move(10) == 10 && rand.IntN(10) > 0 {
			}
			m.End()
			moves++
		}
		node := set.Nodes[rand.IntN(len(set.Nodes))]
		node.Kill()
		node.Restart()
		deaths++
		pause(2500 * time.Millisecond) // a node that starts refuses everything for 2 s
	})
	w.calm()
	t.Logf("nodes were killed %d times, slots moved %d times", deaths, moves)
	if deaths < 1 || moves < 2 {
		t.Error("that is too little to show anything")
	}
	w.judge(set.Nodes...)
	with(t, set.URL(), func(c *spool.Client) { judgeRelays(t, c) })
}

// judgeRelays wants one child in each other queue of each relay job that is
// done, and none of any other.
func judgeRelays(t *testing.T, c *spool.Client) {
	t.Helper()
	type place struct {
		of    spool.ID
		queue string
	}
	children, all := map[place]int{}, recount(t, c)
	for _, list := range all {
		if j := list[0]; j.Task == child.Name() {
			var a childArgs
			must(t, json.Unmarshal(j.Payload, &a))
			children[place{a.Of, j.Queue}]++
		}
	}
	done, came := 0, len(children)
	for id, list := range all {
		j := list[0]
		if j.Task != relay.Name() || j.State != spool.Done {
			continue
		}
		done++
		for _, q := range relays {
			p := place{id, q}
			if want := map[bool]int{true: 0, false: 1}[q == j.Queue]; children[p] != want {
				t.Errorf("job %v of queue %s is done and has %d follow-ups in %s, want %d", id, j.Queue, children[p], q, want)
			}
			delete(children, p)
		}
	}
	for p, n := range children {
		t.Errorf("job %v has %d follow-ups in %s and is not done", p.of, n, p.queue)
	}
	if t.Logf("%d jobs are done, with %d follow-ups in other queues", done, came); done < 100 {
		t.Error("that is too little to show anything")
	}
}

func TestProofThatAFailoverLosesNothingThatAReplicaConfirmed(t *testing.T) {
	fullRun(t)
	if !*full {
		t.Parallel() // it mostly waits
	}
	set := redistest.StartSentinel(t, redistest.Options{Persistence: redistest.Always})
	w := newWeather(t, plan{Store: set.URL(), Queues: []string{"a", "b"}, Replicas: 1})
	failed := false
	w.forgets, w.gap = true, 500*time.Millisecond // a claim waits for no replica
	w.storm(size(4*time.Second, 60*time.Second), func() {
		pause(size(2*time.Second, 20*time.Second))
		if failed {
			return
		}
		failed = true
		set.Primary.Kill()
		begun := now()
		set.Promoted()
		t.Logf("the replica led %v after the primary's death", (now() - begun).Round(time.Millisecond))
		set.Primary.Restart()
		set.Follow() // without a replica nothing is acknowledged
	})
	w.calm()
	w.judge(set.Leader()) // a busy machine may have seen another failover
}
