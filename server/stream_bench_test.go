package server_test

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/server"
)

// BenchmarkEnqueueWhileStreamsDoNotRead is of 300 jobs, while 990 event streams do
// not read.
func BenchmarkEnqueueWhileStreamsDoNotRead(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: quiet})
	s, err := server.New(c, server.Config{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	h := httptest.NewServer(s)
	defer func() { s.Stop(); h.CloseClientConnections(); h.Close(); c.Close() }()
	for range 990 {
		conn, err := net.Dial("tcp", h.Listener.Addr().String())
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		fmt.Fprint(conn, "GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
		if _, err := conn.Read(make([]byte, 10)); err != nil { // it streams
			b.Fatal(err)
		}
	}
	body := `{"jobs":[` + strings.Repeat(`{"task":"t"},`, 299) + `{"task":"t"}]}`
	for b.Loop() {
		resp, err := http.Post(h.URL+"/v1/queues/q/jobs", "application/json", strings.NewReader(body))
		if err != nil || resp.StatusCode != http.StatusCreated {
			b.Fatal(err, resp)
		}
		resp.Body.Close()
	}
}
