package httpbroker_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokertest"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
	"github.com/spoolq/spool/server"
	"github.com/spoolq/spool/server/servertest"
)

var quiet = slog.New(slog.DiscardHandler)

// serve starts a server of b on loopback, which ends with the test. wrap may
// stand before its handler.
func serve(t testing.TB, b broker.Broker, wrap ...func(testing.TB, http.Handler) http.Handler) (url string) {
	t.Helper()
	s, err := server.New(spool.New(b, spool.Config{Logger: quiet, PayloadMax: broker.MaxCallBytes}), server.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	var handler http.Handler = s
	for _, w := range wrap {
		handler = w(t, handler)
	}
	h := httptest.NewServer(handler)
	t.Cleanup(func() { s.Stop(); h.Close(); b.Close() })
	return h.URL
}

// slow leaves a test of half a minute to the full run.
func slow(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("the full run makes it")
	}
}

func open(t testing.TB, url string) broker.Broker {
	t.Helper()
	b, err := httpbroker.Open(t.Context(), url, httpbroker.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// overFiles is a store in files behind two servers, on a clock that stands still.
func overFiles(t *testing.T) brokertest.Harness {
	m := crashfs.New(crashfs.Config{Uptime: time.Hour})
	var urls []string
	for range 2 {
		b, err := filebroker.Open("/jobs", filebroker.Config{Logger: quiet, RememberCalls: true}.On(m.Process()))
		if err != nil {
			t.Fatal(err)
		}
		urls = append(urls, serve(t, b))
	}
	opened := 0
	return brokertest.Harness{
		Open:   func() broker.Broker { opened++; return open(t, urls[opened%2]) },
		Reopen: true, Clock: m.Clock, Advance: m.Clock.Advance, StepWall: m.Clock.Step, Frozen: true,
	}
}

func TestKeepsTheContractOverFiles(t *testing.T) { brokertest.Run(t, overFiles) }

// Each answer is also compared with the description of the API.
func TestKeepsTheContractOverMemory(t *testing.T) {
	slow(t)
	brokertest.Run(t, func(t *testing.T) brokertest.Harness {
		url := serve(t, membroker.New(membroker.Config{RememberCalls: true}), servertest.Checked)
		return brokertest.Harness{Open: func() broker.Broker { return open(t, url) }, Reopen: true}
	})
}

// lossyTopics are those with a call of each sort that changes something.
var lossyTopics = []string{"enqueue", "claim", "lease", "settle", "attempts", "follow-ups", "commands", "pause", "call ids", "settings", "batches", "schedules"}

// A call whose request or answer is lost is made again, and doubles nothing. What
// a heartbeat says twice is kept twice: its lines are left out here.
func TestKeepsTheContractWhenAnswersAreLost(t *testing.T) {
	slow(t)
	for _, c := range brokertest.Cases() {
		if strings.Contains(c.Name, "lines") || !slices.Contains(lossyTopics, c.Topic) {
			continue
		}
		t.Run(c.Topic+"/"+c.Name, func(t *testing.T) {
			h := overFiles(t)
			open := h.Open
			h.Open = func() broker.Broker {
				b := open()
				httpbroker.MakeLossy(b)
				return b
			}
			c.Run(t, h)
		})
	}
}
