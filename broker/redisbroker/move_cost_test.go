package redisbroker

import (
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/migrate"
	"github.com/spoolq/spool/internal/redistest"
)

// TestProofThatAMoveHoldsNobodyUp moves jobs of different sorts between two stores
// of one server, and looks at what its scripts take. With -full no more than one of
// a hundred may take the server longer than 5 ms each time: what else the machine does
// makes some long.
func TestProofThatAMoveHoldsNobodyUp(t *testing.T) {
	slow(t)
	s := redistest.Start(t, redistest.Options{})
	from, to := open(t, s.URL(), "from", nil), open(t, s.URL(), "to", nil)
	defer from.Close()
	defer to.Close()
	l := &backlog{t, s, from, ""}
	for _, sort := range []struct {
		name   string
		n      int
		change func(i int, n *broker.NewJob)
	}{
		{"plain", 50_000, func(int, *broker.NewJob) {}},
		{"delayed", 5_000, func(_ int, n *broker.NewJob) { n.Delay = time.Hour }},
		{"lanes", 5_000, func(i int, n *broker.NewJob) { n.Tenant, n.Group = fmt.Sprint("tenant", i), fmt.Sprint("group", i) }},
		{"keys", 5_000, func(i int, n *broker.NewJob) {
			n.Key, n.KeyHold, n.KeyFor, n.StartWithin = fmt.Sprint("key", i), broker.HoldFor, time.Hour, time.Hour
		}},
		{"large", 200, func(_ int, n *broker.NewJob) { n.Payload = make([]byte, 100_000) }},
	} {
		move := func() (c cost) {
			fill(t, from, sort.name, sort.n, 50, sort.change)
			var began time.Time
			c = l.measure(sort.name, func() error {
				m := migrate.Mover{From: migrate.Side{Broker: from, Name: "from"}, To: migrate.Side{Broker: to, Name: "to"}, TTL: 10 * time.Millisecond}
				began = time.Now()
				done, err := m.Queue(t.Context(), sort.name)
				if err == nil && done.Moved != int64(sort.n) {
					t.Errorf("%d jobs have moved, of %d", done.Moved, sort.n)
				}
				return err
			})
			t.Logf("%-8s %6d jobs a second, %3d scripts, %6.1f commands each, the longest %v, %d over %v", sort.name, int(float64(sort.n)/time.Since(began).Seconds()), c.scripts, c.commands, c.longest, c.long, longestFull)
			return c
		}
		c := move()
		if c.commands > mostCommands {
			t.Errorf("%s: a script made %.0f commands, more than any is to make", sort.name, c.commands)
		}
		if !*full {
			continue
		}
		if long := min(c.long, move().long, move().long); long > c.scripts/100 {
			t.Errorf("%s: %d of %d scripts took the server longer than %v", sort.name, long, c.scripts, longestFull)
		}
	}
}
