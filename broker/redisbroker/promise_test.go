package redisbroker

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

func TestAServerSaysWhatAnAcknowledgedCallSurvives(t *testing.T) {
	for _, c := range []struct {
		name string
		o    redistest.Options
		says string
	}{
		{"no persistence", redistest.Options{}, "lost when the server's process ends"},
		{"everysec", redistest.Options{Persistence: redistest.Everysec}, "a power cut loses up to the last 2 seconds"},
		{"always", redistest.Options{Persistence: redistest.Always}, "survives the end of the server's process and a power cut"},
		{"a log that nobody syncs", redistest.Options{Persistence: redistest.Everysec, Args: []string{"--appendfsync", "no"}}, "half a minute"},
		{"CONFIG forbidden", redistest.Options{Persistence: redistest.Always, Args: []string{"--rename-command", "CONFIG", ""}}, "unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := connect(t, redistest.Start(t, c.o).URL(), Config{})
			if got := n.durability(); !strings.Contains(got, c.says) || !strings.Contains(got, "no replica") {
				t.Errorf("it says %q, want %q in it", got, c.says)
			}
		})
	}
	t.Run("a replica", func(t *testing.T) {
		set := redistest.StartSentinel(t, redistest.Options{Args: []string{"--min-replicas-to-write", "1"}})
		if got := connect(t, set.URL(), Config{}).durability(); !strings.Contains(got, "not received yet") || !strings.Contains(got, "min-replicas-to-write 1") {
			t.Error(got)
		}
		if got := connect(t, set.URL(), Config{WaitReplicas: 1}).durability(); !strings.Contains(got, "a failover to one of them loses nothing") {
			t.Error(got)
		}
	})
}

func TestAServerThatCannotKeepAQueueIsRefused(t *testing.T) {
	evicting := redistest.Options{Args: []string{"--maxmemory-policy", "allkeys-lru"}}
	for _, c := range []struct {
		name string
		o    redistest.Options
		cfg  Config
		says string
	}{
		{"it evicts", evicting, Config{}, "CONFIG SET maxmemory-policy noeviction"},
		{"it evicts, and that is allowed", evicting, Config{EvictionAllowed: true}, ""},
		{"it evicts and forbids CONFIG", redistest.Options{Args: append([]string{"--rename-command", "CONFIG", ""}, evicting.Args...)}, Config{}, "allkeys-lru"},
		{"its disk is to be waited for, and it has none", redistest.Options{}, Config{WaitDisk: true}, "WaitDisk needs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Open(t.Context(), redistest.Start(t, c.o).URL(), c.cfg)
			if c.says == "" {
				if err != nil {
					t.Fatal(err)
				}
				_ = b.Close()
				return
			}
			if !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestVersionsAreCompared(t *testing.T) {
	for _, c := range []struct {
		version string
		valkey  bool
		disk    bool
		ok      bool
	}{
		{"6.2.14", false, false, false},
		{"7.0.0", false, false, true},
		{"7.0.15", false, true, false},
		{"7.2.0", false, true, true},
		{"10.0.0", false, true, true},
		{"7.2.5", true, true, true},
		{"8.1.0", true, true, true},
	} {
		p := promise{version: c.version, valkey: c.valkey, appendonly: true, policy: "noeviction"}
		if err := p.check(&Config{WaitDisk: c.disk}); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

func TestAServerWhoseWaitAnswersTooEarlyIsRefused(t *testing.T) {
	for _, c := range []struct {
		version string
		valkey  bool
		early   bool
	}{
		{"7.2.6", false, false},
		{"7.4.0", false, true},
		{"7.4.9", false, true},
		{"8.0.0", false, false},
		{"7.2.7", true, false},
		{"8.0.1", true, true},
		{"9.0.0", true, true},
	} {
		if got := waitsTooShort(c.valkey, c.version); got != c.early {
			t.Errorf("%+v: %t", c, got)
		}
	}
	sound := promise{version: "7.2.6", appendonly: true, fsync: "everysec", policy: "noeviction", disk: true}
	p := sound.weaker(promise{version: "7.4.1", appendonly: true, fsync: "everysec", policy: "noeviction", early: true})
	p.disk = true
	if err := p.check(&Config{WaitDisk: true}); !errors.Is(err, broker.ErrUnsupported) || !strings.Contains(err.Error(), "appendfsync always") {
		t.Errorf("a node of 7.4: %v", err)
	}
	if err := p.check(&Config{}); err != nil {
		t.Errorf("without WaitDisk: %v", err)
	}
	if said := p.text(); !strings.Contains(said, "loses up to the last 2 seconds") {
		t.Errorf("a server that came to that later is said to be: %s", said)
	}
}

func TestTheWeakestNodeOfAClusterCounts(t *testing.T) {
	strong := promise{version: "7.4.0", appendonly: true, fsync: "always", policy: "noeviction", replicas: 2, minReplicas: 1}
	for _, c := range []struct {
		name string
		weak promise
		says string
	}{
		{"no log", promise{version: "7.4.0", policy: "noeviction", fsync: "always", replicas: 2}, "appendonly no"},
		{"a lazy log", promise{version: "7.4.0", appendonly: true, policy: "noeviction", fsync: "everysec", replicas: 2}, "everysec"},
		{"no replica", promise{version: "7.4.0", appendonly: true, policy: "noeviction", fsync: "always"}, "no replica"},
		{"it tells nothing", promise{version: "7.4.0", appendonly: true, policy: "noeviction", replicas: 2, minReplicas: -1}, "unknown"},
	} {
		for _, p := range []promise{strong.weaker(c.weak), c.weak.weaker(strong)} {
			if got := p.text(); !strings.Contains(got, c.says) {
				t.Errorf("%s: %q", c.name, got)
			}
		}
	}
	if p := strong.weaker(promise{version: "6.0.0", policy: "allkeys-lru"}); p.version != "6.0.0" || !evicts(p.policy) {
		t.Errorf("%+v", p)
	}
}

func TestHealthTellsWhenThePromiseChanged(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	p := redistest.NewProxy(t, s.Addr())
	n := connect(t, p.URL(), Config{})
	h, err := n.health(t.Context())
	if err != nil || h.Status != broker.Healthy || h.Text != "" || !strings.Contains(h.Detail, "master with 0 replicas") {
		t.Errorf("a healthy server: %+v, %v", h, err)
	}
	s.Must("CONFIG", "SET", "appendfsync", "everysec")
	if h, err = n.health(t.Context()); err != nil || h.Status != broker.Degraded || !strings.Contains(h.Text, "2 seconds") {
		t.Errorf("a weaker server: %+v, %v", h, err)
	}
	s.Must("CONFIG", "SET", "appendfsync", "always")
	s.Must("CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	if h, err = n.health(t.Context()); err != nil || h.Status != broker.Degraded || !strings.Contains(h.Text, "noeviction") {
		t.Errorf("an evicting server: %+v, %v", h, err)
	}
	p.Refuse(true)
	if h, err = n.health(t.Context()); err != nil || h.Status != broker.Unreachable || h.Text == "" {
		t.Errorf("a server that is away: %+v, %v", h, err)
	}
}

func TestAPromiseIsReadAgainAfterTheServerWasAway(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Persistence: redistest.Always})
	p := redistest.NewProxy(t, s.Addr())
	n := connect(t, p.URL(), Config{})
	s.Must("CONFIG", "SET", "appendfsync", "everysec")
	p.Judge(redistest.Nth(1, redistest.DropReply, "EVALSHA", "EVAL"))
	if err := put(t.Context(), n, "a"); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(10 * time.Second); n.promised.Load().fsync != "everysec"; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it was not read again")
		}
	}
}
