package server_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/server"
	"github.com/spoolq/spool/server/servertest"
)

var quiet = slog.New(slog.DiscardHandler)

// newServer is a server of an empty store in memory.
func newServer(t testing.TB, cfg server.Config) *server.Server {
	t.Helper()
	cfg.Logger = quiet
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: quiet})
	s, err := server.New(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); c.Close() })
	return s
}

func TestTheDescriptionSaysNoMoreThanThereIs(t *testing.T) {
	c := newCaller(t, server.Config{})
	var doc struct {
		Servers []struct{ URL string }
		Paths   map[string]map[string]struct {
			Responses map[string]any
		}
	}
	got := c.do("GET /v1/openapi.json", "").want(200)
	if err := json.Unmarshal(got.body, &doc); err != nil {
		t.Fatal(err)
	}
	if len(doc.Servers) != 1 || doc.Servers[0].URL != "/" {
		t.Errorf("the servers are %v", doc.Servers)
	}
	for _, none := range []string{"ErrorModel", "ErrorDetail", `["array","null"]`} {
		if bytes.Contains(got.body, []byte(none)) {
			t.Errorf("it says %s", none)
		}
	}
	for path, methods := range doc.Paths {
		for method, op := range methods {
			if op.Responses["4XX"] == nil {
				t.Errorf("%s %s is never refused", method, path)
			}
		}
	}
}

func TestTheDescriptionIsRight(t *testing.T) { servertest.Document(t, newServer(t, server.Config{})) }
