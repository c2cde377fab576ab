package server_test

import (
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

func TestTheDescriptionIsRight(t *testing.T) { servertest.Document(t, newServer(t, server.Config{})) }
