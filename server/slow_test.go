package server

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// hurried is a server on a real socket that waits for nobody as long as others.
func hurried(t *testing.T, bodies time.Duration) *httptest.Server {
	t.Helper()
	body, write, slow := bodyTimeout, writeTime, slowest
	bodyTimeout, writeTime, slowest = bodies, 300*time.Millisecond, 100<<20
	t.Cleanup(func() { bodyTimeout, writeTime, slowest = body, write, slow })
	quiet := slog.New(slog.DiscardHandler)
	c := spool.New(membroker.New(membroker.Config{RememberCalls: true}), spool.Config{Logger: quiet, PayloadMax: broker.MaxCallBytes})
	s, err := New(c, Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	h := httptest.NewServer(s)
	t.Cleanup(func() { s.Stop(); h.Close(); c.Close() })
	return h
}

func dial(t *testing.T, s *httptest.Server) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return conn
}

func TestABodyThatDoesNotArriveEndsItsConnection(t *testing.T) {
	s := hurried(t, 200*time.Millisecond)
	for _, path := range []string{"/v1/jobs", "/v1/claim", "/v1/await", "/enqueue", "/dequeue"} {
		for _, rest := range []int{60, 1_000_000} {
			t.Run(fmt.Sprint(path, rest), func(t *testing.T) {
				conn := dial(t, s)
				const begun = `{"task":"t","payload":"`
				fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(begun)+rest, begun)
				r := bufio.NewReader(conn)
				resp, err := http.ReadResponse(r, nil)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				if resp.StatusCode != http.StatusRequestTimeout || !resp.Close {
					t.Errorf("%s, the connection ends: %v", resp.Status, resp.Close)
				}
				fmt.Fprint(conn, "GET /v1/caps HTTP/1.1\r\nHost: localhost\r\n\r\n")
				if more, err := http.ReadResponse(r, nil); err == nil {
					t.Errorf("what was left of the body was answered as a request: %s", more.Status)
				}
			})
		}
	}
}

func TestAnAnswerThatNobodyTakesEndsItsConnection(t *testing.T) {
	s := hurried(t, time.Minute)
	resp, err := http.Post(s.URL+"/v1/jobs", "application/json", strings.NewReader(`{"id":"01890a5d-ac96-774b-bcce-b302099a8057","task":"t","payload":"`+strings.Repeat("x", 7<<20)+`"}`))
	if err != nil || resp.StatusCode != http.StatusCreated {
		t.Fatal(err, resp)
	}
	resp.Body.Close()
	ended := make(chan struct{})
	h := s.Config.Handler
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(w, r)
		close(ended)
	})
	conn := dial(t, s)
	fmt.Fprint(conn, "GET /v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057 HTTP/1.1\r\nHost: localhost\r\n\r\n")
	select {
	case <-ended:
	case <-time.After(15 * time.Second):
		t.Error("the answer waits for its client for ever")
	}
}
