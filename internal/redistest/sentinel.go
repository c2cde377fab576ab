package redistest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// MasterName is what the sentinels of a Sentinel call their primary.
const MasterName = "spool"

// Sentinel is a primary, its replica, and three sentinels that watch them.
type Sentinel struct {
	Primary, Replica *Server // as they were at the start
	Sentinels        []*Server

	t testing.TB
}

// StartSentinel starts them, and waits until the sentinels know one another
// and the replica, and the replica follows.
func StartSentinel(t testing.TB, o Options) *Sentinel {
	t.Helper()
	s := &Sentinel{t: t, Primary: Start(t, o)}
	o.Args = append(o.Args[:len(o.Args):len(o.Args)], "--replicaof", "127.0.0.1 "+fmt.Sprint(s.Primary.port))
	s.Replica = Start(t, o)
	s.Replica.until("the replica follows", func() bool { return s.Replica.is("master_link_status", "up") })
	for range 3 {
		s.Sentinels = append(s.Sentinels, startSentinel(t, s.Primary.port))
	}
	for _, one := range s.Sentinels {
		one.until("the sentinels know each other", func() bool {
			reply, err := one.Do("SENTINEL", "MASTER", MasterName)
			return err == nil && field(reply, "num-other-sentinels") == "2" && field(reply, "num-slaves") == "1" && field(reply, "flags") == "master"
		})
	}
	return s
}

func startSentinel(t testing.TB, primary int) *Server {
	t.Helper()
	s := &Server{t: t, dir: t.TempDir()}
	conf := filepath.Join(s.dir, "sentinel.conf")
	text := fmt.Sprintf("bind 127.0.0.1\ndir %s\nlogfile %s\nsentinel monitor %s 127.0.0.1 %d 2\n", s.dir, filepath.Join(s.dir, "log"), MasterName, primary) +
		fmt.Sprintf("sentinel down-after-milliseconds %s 1000\nsentinel failover-timeout %s 10000\n", MasterName, MasterName)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.conf = []string{conf, "--sentinel"}
	t.Cleanup(s.Kill)
	s.launchAnywhere()
	s.Ready()
	return s
}

// field reads a field of a reply that lists names and values.
func field(reply any, name string) string {
	list, _ := reply.([]any)
	for i := 0; i+1 < len(list); i += 2 {
		if list[i] == name {
			return fmt.Sprint(list[i+1])
		}
	}
	return ""
}

// URL names the set as a broker's URL does.
func (s *Sentinel) URL() string {
	addrs := make([]string, len(s.Sentinels))
	for i, one := range s.Sentinels {
		addrs[i] = one.Addr()
	}
	return "redis+sentinel://" + strings.Join(addrs, ",") + "?master=" + MasterName
}

// Master is the address of the primary, as the first sentinel sees it.
func (s *Sentinel) Master() string {
	s.t.Helper()
	list, _ := s.Sentinels[0].Must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
	if len(list) != 2 {
		return ""
	}
	return net.JoinHostPort(fmt.Sprint(list[0]), fmt.Sprint(list[1]))
}

// Leader is who leads now, the replica or the primary of the start, and goes on to:
// from now on the sentinels let a server be silent for an hour. Until then a busy
// machine that holds a server up for a second makes them choose the other one.
func (s *Sentinel) Leader() (leader *Server) {
	s.t.Helper()
	for _, one := range s.Sentinels {
		one.Must("SENTINEL", "SET", MasterName, "down-after-milliseconds", time.Hour.Milliseconds())
	}
	s.until("the sentinels agree on who leads", func() bool {
		leader = s.Primary
		if s.Master() == s.Replica.Addr() {
			leader = s.Replica
		}
		for _, one := range s.Sentinels {
			reply, err := one.Do("SENTINEL", "MASTER", MasterName)
			if err != nil || field(reply, "port") != fmt.Sprint(leader.port) || field(reply, "flags") != "master" {
				return false
			}
		}
		return leader.is("role", "master")
	})
	return leader
}

// Failover asks for a failover, the primary being well, and waits until the
// replica leads and the old primary follows it.
func (s *Sentinel) Failover() {
	s.t.Helper()
	s.until("a failover begins", func() bool {
		_, err := s.Sentinels[0].Do("SENTINEL", "FAILOVER", MasterName)
		return err == nil
	})
	s.Promoted()
	s.Primary.until("the old primary follows", func() bool { return s.Primary.is("role", "slave") })
}

// Follow makes the old primary, which was started again, the new one's replica,
// and waits until it is. The sentinels would do it some 10 s later.
func (s *Sentinel) Follow() {
	s.t.Helper()
	s.Primary.Must("REPLICAOF", "127.0.0.1", s.Replica.port)
	s.Primary.until("the old primary follows", func() bool { return s.Primary.is("master_link_status", "up") })
}

// Promoted waits until the replica leads, and the sentinels say so.
func (s *Sentinel) Promoted() {
	s.t.Helper()
	// A sentinel that was held up does nothing for 30 s (its tilt mode).
	untilLate(s.t, "the replica is promoted", 2*time.Minute, func() bool {
		// A sentinel cuts the connections of whom it promotes.
		role, err := s.Replica.Do("ROLE")
		list, _ := role.([]any)
		return err == nil && len(list) > 0 && list[0] == "master"
	}, s.Sentinels[0].log)
	for _, one := range s.Sentinels {
		one.until("the sentinels agree", func() bool {
			list, _ := one.Must("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MasterName).([]any)
			return len(list) == 2 && fmt.Sprint(list[1]) == fmt.Sprint(s.Replica.port)
		})
	}
}

func (s *Sentinel) until(what string, ok func() bool) {
	s.t.Helper()
	until(s.t, what, ok, s.Sentinels[0].log)
}
