package redistest

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

func TestAServerKeepsWhatItWasToldToKeep(t *testing.T) {
	for _, c := range []struct {
		name string
		keep Persistence
		want any
	}{
		{"nothing", None, nil},
		{"what it synced", Always, "v"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := Start(t, Options{Persistence: c.keep, Unix: true})
			s.Must("SET", "k", "v")
			s.Kill()
			if _, err := s.Do("PING"); err == nil {
				t.Error("a killed server answers")
			}
			s.Restart()
			if got := s.Must("GET", "k"); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
			unix, err := Dial(s.Socket())
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close() }()
			if got, err := unix.Do("PING"); got != "PONG" || err != nil {
				t.Errorf("over its socket it says %v, %v", got, err)
			}
		})
	}
}

func TestAServerThatStandsStillGoesOn(t *testing.T) {
	s := Start(t, Options{})
	c, err := Dial(s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	s.Stop()
	answered := make(chan error, 1)
	go func() {
		_, err := c.Do("PING")
		answered <- err
	}()
	select {
	case <-answered:
		t.Error("a stopped server answers")
	case <-time.After(100 * time.Millisecond):
	}
	s.Cont()
	if err := <-answered; err != nil {
		t.Error(err)
	}
}

func TestServersTakePortsOfTheirOwn(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = taken.Close() }()
	s := prepare(t, Options{})
	s.port = taken.Addr().(*net.TCPAddr).Port
	if s.launch(); s.listens() {
		t.Error("a server took a port that is taken")
	}
	s.launchAnywhere()
	s.Ready()
}

func TestAClusterServesWhileASlotMoves(t *testing.T) {
	c := StartCluster(t, Options{})
	slot := c.Slot("{a}")
	from := c.Owner(slot)
	for _, k := range []string{"{a}1", "{a}2", "{a}3"} {
		c.Nodes[from].Must("SET", k, "v")
	}
	m := c.Migrate(slot)
	m.Begin()
	if n := m.Move(1); n != 1 {
		t.Fatalf("moved %d keys", n)
	}
	refused := 0
	for _, k := range []string{"{a}1", "{a}2", "{a}3"} {
		if _, err := c.Nodes[from].Do("GET", k); err != nil {
			if refused++; !strings.HasPrefix(err.Error(), "ASK ") {
				t.Error(err)
			}
		}
	}
	if refused != 1 {
		t.Errorf("%d keys are elsewhere, want 1", refused)
	}
	if _, err := c.Nodes[from].Do("MGET", "{a}1", "{a}2", "{a}3"); err == nil || !strings.HasPrefix(err.Error(), "TRYAGAIN") {
		t.Errorf("keys on both sides: %v, want TRYAGAIN", err)
	}
	m.End()
	if c.Owner(slot) == from {
		t.Error("the slot has not moved")
	}
	if _, err := c.Nodes[from].Do("GET", "{a}1"); err == nil || !strings.HasPrefix(err.Error(), "MOVED ") {
		t.Errorf("the old owner says %v, want MOVED", err)
	}
}

func TestSentinelsPromoteTheReplica(t *testing.T) {
	for _, c := range []struct {
		name string
		fail func(s *Sentinel)
	}{
		{"when asked to", (*Sentinel).Failover},
		{"when the primary is killed", func(s *Sentinel) { s.Primary.Kill(); s.Promoted() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := StartSentinel(t, Options{})
			if s.Master() != s.Primary.Addr() {
				t.Fatalf("the primary is %s, want %s", s.Master(), s.Primary.Addr())
			}
			c.fail(s)
			if s.Master() != s.Replica.Addr() {
				t.Errorf("the primary is %s, want %s", s.Master(), s.Replica.Addr())
			}
			if got := s.Leader(); got != s.Replica {
				t.Errorf("%s leads, want %s", got.Addr(), s.Replica.Addr())
			}
		})
	}
}

func TestAProxyMakesTheWeather(t *testing.T) {
	s := Start(t, Options{})
	incr := func(p *Proxy) error {
		c, err := Dial(p.Addr())
		if err != nil {
			return err
		}
		defer func() { _ = c.Close() }()
		for range 3 {
			if _, err := c.Do("INCR", "n"); err != nil {
				return err
			}
		}
		return nil
	}
	for _, c := range []struct {
		name    string
		make    func(p *Proxy)
		fails   bool
		counted string
	}{
		{"fair", func(*Proxy) {}, false, "3"},
		{"the reply to the second command is lost", func(p *Proxy) { p.Judge(Nth(2, DropReply, "INCR")) }, true, "2"},
		{"the second command is lost", func(p *Proxy) { p.Judge(Nth(2, DropRequest, "INCR")) }, true, "1"},
		{"nobody is let in", func(p *Proxy) { p.Refuse(true) }, true, ""},
		{"slow", func(p *Proxy) { p.Delay(time.Millisecond) }, false, "3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s.Must("DEL", "n")
			p := NewProxy(t, s.Addr())
			c.make(p)
			if err := incr(p); (err != nil) != c.fails {
				t.Errorf("error %v", err)
			}
			got, _ := s.Must("GET", "n").(string)
			if got != c.counted {
				t.Errorf("the server counted %q, want %q", got, c.counted)
			}
		})
	}
	t.Run("stalled, and then cut", func(t *testing.T) {
		p := NewProxy(t, s.Addr())
		c, err := Dial(p.Addr())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Do("PING"); err != nil {
			t.Fatal(err)
		}
		p.Stall()
		answered := make(chan error, 1)
		go func() {
			_, err := c.Do("PING")
			answered <- err
		}()
		select {
		case err := <-answered:
			t.Errorf("answered through a stall: %v", err)
		case <-time.After(50 * time.Millisecond):
		}
		p.Cut()
		var failed net.Error
		if err := <-answered; !errors.Is(err, io.EOF) && !errors.As(err, &failed) {
			t.Errorf("after the cut: %v", err)
		}
	})
}
