package redistest

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"
)

// slots is how many slots a cluster has.
const slots = 16384

// Cluster is a running cluster of three nodes without replicas.
type Cluster struct {
	Nodes []*Server

	t   testing.TB
	ids []string // of Nodes
}

// StartCluster starts three nodes that share the slots, and waits until each
// of them serves.
func StartCluster(t testing.TB, o Options) *Cluster {
	t.Helper()
	c := &Cluster{t: t}
	for range 3 {
		s := prepare(t, o, "--cluster-enabled", "yes", "--cluster-config-file", "nodes.conf", "--cluster-node-timeout", "15000")
		bus := freePort(t)
		s.args = append(s.args, "--cluster-port", strconv.Itoa(bus))
		s.launchAnywhere()
		s.Ready()
		c.Nodes = append(c.Nodes, s)
		c.ids = append(c.ids, fmt.Sprint(s.Must("CLUSTER", "MYID")))
	}
	for i, s := range c.Nodes {
		s.Must("CLUSTER", "SET-CONFIG-EPOCH", i+1)
		s.Must("CLUSTER", "ADDSLOTSRANGE", i*slots/3, (i+1)*slots/3-1)
	}
	c.meet()
	met := time.Now()
	until(t, "the cluster serves", func() bool {
		if time.Since(met) > 2*time.Second { // an introduction is made once, and may be too slow on a busy machine
			c.meet()
			met = time.Now()
		}
		for _, s := range c.Nodes {
			info := fmt.Sprint(s.Must("CLUSTER", "INFO"))
			if !strings.Contains(info, "cluster_state:ok") || !strings.Contains(info, "cluster_slots_ok:16384") || !strings.Contains(info, "cluster_known_nodes:3") {
				return false
			}
			if !linked(fmt.Sprint(s.Must("CLUSTER", "NODES"))) {
				return false
			}
		}
		return true
	}, c.state)
	return c
}

// linked reports whether a node reaches all others: what it publishes is lost for
// those that it does not.
func linked(nodes string) bool {
	for line := range strings.Lines(nodes) {
		f := strings.Fields(line)
		if len(f) < 8 || strings.Contains(f[2], "handshake") || f[7] != "connected" {
			return false
		}
	}
	return true
}

// meet introduces the nodes to one another.
func (c *Cluster) meet() {
	for i, s := range c.Nodes {
		for _, other := range c.Nodes[:i] {
			s.Must("CLUSTER", "MEET", "127.0.0.1", other.port, other.busPort())
		}
	}
}

// state is how the nodes see the cluster.
func (c *Cluster) state() (all string) {
	for _, s := range c.Nodes {
		all += fmt.Sprintf("%s\n%v\n%v\n", s.Addr(), s.Must("CLUSTER", "NODES"), s.Must("CLUSTER", "INFO"))
	}
	return all
}

func (s *Server) busPort() string { return s.args[len(s.args)-1] }

// URL names the cluster as a broker's URL does.
func (c *Cluster) URL() string { return "redis+cluster://" + c.Nodes[0].Addr() }

// Slot is the slot of a key.
func (c *Cluster) Slot(key string) int {
	c.t.Helper()
	slot, _ := c.Nodes[0].Must("CLUSTER", "KEYSLOT", key).(int64)
	return int(slot)
}

// Owner is the number, in Nodes, of the node that serves a slot.
func (c *Cluster) Owner(slot int) int {
	c.t.Helper()
	for i, s := range c.Nodes {
		for line := range strings.Lines(fmt.Sprint(s.Must("CLUSTER", "NODES"))) {
			if strings.Contains(line, "myself") && holds(strings.Fields(line)[8:], slot) {
				return i
			}
		}
	}
	c.t.Fatalf("nobody serves slot %d", slot)
	return 0
}

// holds says whether a slot is in one of the ranges that CLUSTER NODES prints.
func holds(ranges []string, slot int) bool {
	for _, r := range ranges {
		from, to, ok := strings.Cut(r, "-")
		if !ok {
			to = from
		}
		lo, err1 := strconv.Atoi(from)
		hi, err2 := strconv.Atoi(to)
		if err1 == nil && err2 == nil && lo <= slot && slot <= hi {
			return true
		}
	}
	return false
}

// Migration moves one slot from the node that serves it to another, in the
// steps that a test interleaves with its own work: Begin, any number of Move,
// End.
type Migration struct {
	c        *Cluster
	slot     int
	from, to int // numbers in Cluster.Nodes
}

// Migrate returns the migration of a slot to the next node. Nothing happens
// before Begin.
func (c *Cluster) Migrate(slot int) *Migration {
	c.t.Helper()
	from := c.Owner(slot)
	return &Migration{c, slot, from, (from + 1) % len(c.Nodes)}
}

// Begin marks the slot as on its way. From now on its owner answers what it
// has, and sends the rest on with ASK; a command with keys on both sides is
// refused with TRYAGAIN.
func (m *Migration) Begin() {
	m.c.t.Helper()
	m.c.Nodes[m.to].Must("CLUSTER", "SETSLOT", m.slot, "IMPORTING", m.c.ids[m.from])
	m.c.Nodes[m.from].Must("CLUSTER", "SETSLOT", m.slot, "MIGRATING", m.c.ids[m.to])
}

// Move moves up to n keys and returns how many it found.
func (m *Migration) Move(n int) int {
	m.c.t.Helper()
	from, to := m.c.Nodes[m.from], m.c.Nodes[m.to]
	keys, _ := from.Must("CLUSTER", "GETKEYSINSLOT", m.slot, n).([]any)
	if len(keys) > 0 {
		from.Must(append([]any{"MIGRATE", "127.0.0.1", to.port, "", 0, 10000, "KEYS"}, keys...)...)
	}
	return len(keys)
}

// End moves what is left, and gives the slot to its new owner.
func (m *Migration) End() {
	m.c.t.Helper()
	for m.Move(100) > 0 {
	}
	for _, i := range []int{m.to, m.from, 3 - m.to - m.from} {
		m.c.Nodes[i].Must("CLUSTER", "SETSLOT", m.slot, "NODE", m.c.ids[m.to])
	}
}
