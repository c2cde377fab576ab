package server_test

import (
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/server"
)

// BenchmarkEnqueue64 is of single jobs on 64 connections, with a store in a
// directory. Its profile says what share is HTTP and JSON:
//
//	go test ./server -run - -bench Enqueue64 -benchtime 100000x -cpuprofile cpu.out
//	go tool pprof -top -cum -focus 'net/http..conn..serve' server.test cpu.out
func BenchmarkEnqueue64(b *testing.B) {
	quiet := slog.New(slog.DiscardHandler)
	store, err := filebroker.Open(b.TempDir(), filebroker.Config{Logger: quiet, RememberCalls: true})
	if err != nil {
		b.Fatal(err)
	}
	c := spool.New(store, spool.Config{Logger: quiet})
	s, err := server.New(c, server.Config{Logger: quiet})
	if err != nil {
		b.Fatal(err)
	}
	h := httptest.NewServer(s)
	defer func() { s.Stop(); h.Close(); c.Close() }()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	defer client.CloseIdleConnections()
	body := `{"task":"t","payload":"` + strings.Repeat("x", 98) + `"}`
	b.SetParallelism(32) // times GOMAXPROCS
	b.ResetTimer()
	b.RunParallel(func(p *testing.PB) {
		for p.Next() {
			resp, err := client.Post(h.URL+"/v1/queues/q/jobs", "application/json", strings.NewReader(`{"jobs":[`+body+`]}`))
			if err != nil || resp.StatusCode != http.StatusCreated {
				b.Error(err, resp)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}
