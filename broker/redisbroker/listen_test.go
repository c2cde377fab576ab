package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// hears listens to a queue; what it hears comes out, "" for nil.
func hears(t *testing.T, n *network, queue string) (heard <-chan string, stop func() error) {
	t.Helper()
	out := make(chan string, 1000)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		ended <- n.listen(ctx, queue, func(m []byte) {
			if m == nil {
				out <- ""
			} else {
				out <- string(m)
			}
		})
	}()
	return out, func() error { cancel(); return <-ended }
}

func wantHeard(t *testing.T, heard <-chan string, want string) {
	t.Helper()
	select {
	case got := <-heard:
		if got != want {
			t.Errorf("heard %q, want %q", got, want)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("heard nothing, want %q", want)
	}
}

func TestAListenerHearsWhatScriptsPublish(t *testing.T) {
	for _, c := range []struct {
		name string
		url  func(t *testing.T) string
	}{
		{"on one server", func(t *testing.T) string { return redistest.Start(t, redistest.Options{}).URL() }},
		{"on a cluster, whatever node it listens to", func(t *testing.T) string { return redistest.StartCluster(t, redistest.Options{}).URL() }},
		{"behind sentinels", func(t *testing.T) string { return redistest.StartSentinel(t, redistest.Options{}).URL() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := c.url(t)
			n, other := connect(t, url, Config{}), connect(t, url, Config{})
			for i := range 6 { // queues of several nodes
				queue := fmt.Sprint("q", i)
				heard, stop := hears(t, n, queue)
				wantHeard(t, heard, "")
				if _, err := other.run(t.Context(), keep, queue, [][]byte{[]byte("hello")}); err != nil {
					t.Fatal(err)
				}
				wantHeard(t, heard, "hello")
				if err := stop(); !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
}

func TestAListenerIsToldWhenItMayHaveMissedSomething(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	n := connect(t, p.URL(), Config{})
	heard, _ := hears(t, n, "q")
	wantHeard(t, heard, "")
	for i := range 3 {
		p.Cut()
		wantHeard(t, heard, "")
		call := fmt.Sprint("after cut ", i)
		if err := put(t.Context(), n, call); err != nil {
			t.Fatal(err)
		}
		wantHeard(t, heard, call)
	}
	s.Kill()
	s.Restart()
	wantHeard(t, heard, "")
}

func TestOneConnectionServesAllListeners(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	before := runtime.NumGoroutine()
	n := connect(t, s.URL(), Config{})
	for round := range 3 {
		var stops []func() error
		for i := range 100 {
			heard, stop := hears(t, n, fmt.Sprint("q", i%50))
			wantHeard(t, heard, "")
			stops = append(stops, stop)
		}
		if got := s.Info("pubsub_channels"); got != "50" {
			t.Errorf("round %d: %s channels, want 50", round, got)
		}
		if got := s.Must("CLIENT", "LIST", "TYPE", "pubsub").(string); countLines(got) != 1 {
			t.Errorf("round %d: subscribed connections:\n%s", round, got)
		}
		for _, stop := range stops {
			_ = stop()
		}
		for end := time.Now().Add(10 * time.Second); s.Info("pubsub_channels") != "0"; {
			if time.Now().After(end) {
				t.Fatalf("%s channels are left", s.Info("pubsub_channels"))
			}
		}
	}
	heard, stop := hears(t, n, "q")
	wantHeard(t, heard, "")
	if err := n.close(); err != nil {
		t.Error(err)
	}
	if err := stop(); !errors.Is(err, broker.ErrClosed) && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := n.listen(t.Context(), "q", nil); !errors.Is(err, broker.ErrClosed) {
		t.Errorf("listening after the close: %v", err)
	}
	untilGoroutines(t, before)
}

func countLines(s string) (n int) {
	for _, c := range s {
		if c == '\n' {
			n++
		}
	}
	return n
}
