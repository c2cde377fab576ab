package redisbroker

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

func TestAURLOfAnotherKindOfServerIsRefusedAtOnce(t *testing.T) {
	alone := redistest.Start(t, redistest.Options{})
	c := redistest.StartCluster(t, redistest.Options{})
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	web := &httptest.Server{Listener: l, Config: &http.Server{Handler: http.NotFoundHandler()}}
	web.Start()
	defer web.Close()
	port := httptest.NewServer(http.NotFoundHandler())
	defer port.Close()
	set := redistest.StartSentinel(t, redistest.Options{})
	for _, c := range []struct{ name, url, says string }{
		{"a sentinel is no server", set.Sentinels[0].URL(), "redis+sentinel://"},
		{"no such primary", strings.Replace(set.URL(), redistest.MasterName, "other", 1), "none knows a primary named other"},
		{"a node of a cluster is no server alone", c.Nodes[0].URL(), "redis+cluster://"},
		{"a server alone is no cluster", "redis+cluster://" + alone.Addr(), "begins with redis://"},
		{"a socket of HTTP", "unix://" + socket, "http+unix://" + socket},
		{"a port of HTTP", "redis://" + port.Listener.Addr().String(), port.URL},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := time.Now()
			b, err := Open(t.Context(), c.url, Config{})
			if b != nil || !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q in it", err, c.says)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

func TestAServerWithoutTLSIsToldFromOneThatIsAway(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b, err := Open(t.Context(), "rediss://"+s.Addr(), Config{DialTimeout: 200 * time.Millisecond})
	if b != nil || err == nil || !strings.Contains(err.Error(), "TLS") || !strings.Contains(err.Error(), "redis://") {
		t.Errorf("%v, want that the server does not answer in TLS", err)
	}
}
