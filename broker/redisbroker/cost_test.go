package redisbroker

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// commands is how many commands scripts have made since the last reset.
func commands(t *testing.T, s *redistest.Server, do func()) (n int) {
	t.Helper()
	s.Must("CONFIG", "RESETSTAT")
	do()
	text, err := s.Do("INFO", "commandstats")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(fmt.Sprint(text), "\r\n") {
		name, rest, ok := strings.Cut(line, ":calls=")
		if !ok || strings.Contains(name, "eval") || strings.Contains(name, "config") || strings.Contains(name, "info") {
			continue
		}
		calls, _, _ := strings.Cut(rest, ",")
		c, err := strconv.Atoi(calls)
		if err != nil {
			t.Fatal(err)
		}
		n += c
	}
	return n
}

// What a job costs in commands says whether it goes the short ways, on a machine
// of any speed.
func TestAPlainJobCostsFewCommands(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	fill(t, b, "q", 400, 100, nil)
	var leases []broker.Lease
	for _, c := range []struct {
		what string
		jobs int
		most int // commands
		do   func()
	}{
		{"500 enqueues of one job", 500, 3*500 + 200, func() { fill(t, b, "q", 500, 1, nil) }},
		{"an enqueue of 100", 100, 25, func() { fill(t, b, "q", 100, 100, nil) }},
		{"a claim of 100", 100, 80, func() { leases = take(t, b, "q", 100) }},
		{"an ack of 100", 100, 20, func() {
			list := make([]broker.Settlement, len(leases))
			for i, l := range leases {
				list[i] = broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack}
			}
			if _, err := b.Settle(t.Context(), broker.NewCall(), list); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		if n := commands(t, s, c.do); n > c.most {
			t.Errorf("%s takes %d commands, at most %d are allowed", c.what, n, c.most)
		}
	}
}

func TestAClaimCostsTheSameWhateverWaitsBehindALimit(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	limit := broker.Setting{Kind: broker.LimitSetting, Name: "one", Limit: &broker.Limit{Tasks: []string{"limited"}, Running: 1}}
	if err := b.Configure(t.Context(), broker.NewCall(), "q", broker.Change{Set: []broker.Setting{limit}}); err != nil {
		t.Fatal(err)
	}
	claim := func() {
		got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 50, TTL: time.Minute, Worker: "w"})
		if err != nil || len(got.Leases) != 50 {
			t.Fatalf("%d leases, %v", len(got.Leases), err)
		}
	}
	fill(t, b, "q", 1000, 250, nil)
	before := commands(t, s, claim)
	fill(t, b, "q", 20_000, 250, func(i int, n *broker.NewJob) { n.Task, n.Priority = "limited", 1 })
	take(t, b, "q", 100) // the first of them runs, and the others are parked
	if after := commands(t, s, claim); after > before+20 {
		t.Errorf("a claim takes %d commands beside a line behind a limit, %d without", after, before)
	}
}

func TestATenantsOldestIsDroppedAtTheSameCostWhateverOthersHave(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	each := broker.Setting{Kind: broker.CapacitySetting, Name: broker.TenantCapacity, Capacity: &broker.Capacity{Jobs: 2, DropOldest: true}}
	parked := broker.Setting{Kind: broker.LimitSetting, Name: "none", Limit: &broker.Limit{Tasks: []string{"limited"}, Running: 1, Per: broker.PerTenant}}
	const others, jobs = 2000, 20
	for queue, set := range map[string][]broker.Setting{"open": {each}, "parked": {each, parked}} {
		if err := b.Configure(t.Context(), broker.NewCall(), queue, broker.Change{Set: set}); err != nil {
			t.Fatal(err)
		}
		if queue == "parked" {
			fill(t, b, queue, 2, 2, func(i int, n *broker.NewJob) { n.Task = "limited" })
			take(t, b, queue, 1) // and the other one is parked
		}
		drop := func(i int, n *broker.NewJob) { n.Tenant = fmt.Sprint("z", i) }
		for range 2 {
			fill(t, b, queue, jobs, jobs, drop)
		}
		before := commands(t, s, func() { fill(t, b, queue, jobs, jobs, drop) })
		fill(t, b, queue, others, 250, func(i int, n *broker.NewJob) { n.Tenant = fmt.Sprint("a", i) })
		for range 2 { // so that they stand behind all of them
			fill(t, b, queue, jobs, jobs, drop)
		}
		after := commands(t, s, func() { fill(t, b, queue, jobs, jobs, drop) })
		t.Logf("%s: %d commands without others, %d beside %d", queue, before, after, others)
		if after > before+20 {
			t.Errorf("%s: an enqueue that drops %d jobs takes %d commands beside %d other tenants, %d without", queue, jobs, after, others, before)
		}
	}
}

func TestAClaimLooksAtATaskAgainOnlyIfItMay(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	claim := func(n int) func() {
		return func() {
			got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: n, TTL: time.Minute, Worker: "w"})
			if err != nil || len(got.Leases) != n {
				t.Fatalf("%d leases, %v", len(got.Leases), err)
			}
		}
	}
	const tasks, jobs = 100, 50
	fill(t, b, "q", 3*tasks, tasks, func(i int, n *broker.NewJob) { n.Task = fmt.Sprint("task-", i%tasks) })
	one := commands(t, s, claim(1))
	many := commands(t, s, claim(jobs))
	t.Logf("%d commands for one job, %d for %d", one, many, jobs)
	if many > one+40*jobs {
		t.Errorf("a claim of %d jobs of %d tasks takes %d commands, one of a job %d", jobs, tasks, many, one)
	}
}

// The records of 100 jobs are lost, as a server that evicts keys loses them.
func TestAClaimDoesNotReadALaneForEachLostRecord(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	lost := []any{"DEL"}
	fill(t, b, "q", 20_000, 250, func(i int, n *broker.NewJob) {
		if i < 100 {
			lost = append(lost, "ns:{q}:j"+string(n.ID[:]))
		}
	})
	s.Must(lost...)
	heard := monitor(t, s)
	take(t, b, "q", 100)
	looks := 0
	for _, command := range heard() {
		if !strings.Contains(command, `"ZRANGE"`) || !strings.Contains(command, "ns:{q}:l") {
			continue
		}
		if looks++; strings.HasSuffix(command, ` "-1"`) {
			t.Fatalf("a claim that passes over lost records reads a whole lane: %s", command)
		}
	}
	if looks < len(lost)-1 {
		t.Errorf("%d looks at a lane were heard, of a claim that passes over %d lost records", looks, len(lost)-1)
	}
}

// monitor has a server tell each command that it runs, those of scripts, too, until
// the function that it returns is called.
func monitor(t *testing.T, s *redistest.Server) (heard func() []string) {
	t.Helper()
	c, err := net.Dial("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	lines := bufio.NewScanner(c)
	if _, err := c.Write([]byte("MONITOR\r\n")); err != nil || !lines.Scan() || lines.Text() != "+OK" {
		t.Fatalf("monitor: %v, %v, %q", err, lines.Err(), lines.Text())
	}
	return func() (all []string) {
		s.Must("ECHO", "the end of what is heard")
		for lines.Scan() && !strings.Contains(lines.Text(), "the end of what is heard") {
			all = append(all, lines.Text())
		}
		return all
	}
}

func TestAClaimLooksAtGatesThatWereFreedOnce(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b := open(t, s.URL(), "ns", nil)
	defer b.Close()
	limit := broker.Setting{Kind: broker.LimitSetting, Name: "one", Limit: &broker.Limit{Tasks: []string{"t"}, Running: 1, Per: broker.PerTenant}}
	if err := b.Configure(t.Context(), broker.NewCall(), "q", broker.Change{Set: []broker.Setting{limit}}); err != nil {
		t.Fatal(err)
	}
	const tenants = 80
	fill(t, b, "q", 2*tenants, tenants, func(i int, n *broker.NewJob) { n.Tenant = fmt.Sprint("t", i%tenants) })
	leases := take(t, b, "q", tenants)
	take(t, b, "q", 0) // what is left of each tenant is parked
	for _, l := range leases {
		ack(t, b, l)
	}
	n := commands(t, s, func() { take(t, b, "q", tenants) })
	t.Logf("%d commands for %d jobs", n, tenants)
	if n > 60*tenants {
		t.Errorf("a claim of a job at each of %d gates takes %d commands", tenants, n)
	}
}
