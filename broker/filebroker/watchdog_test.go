package filebroker

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestOnlyWhoKeepsTheLockIsReported: a process that has just taken it is none to
// stop, however long another waits for its turn.
func TestOnlyWhoKeepsTheLockIsReported(t *testing.T) {
	m := crashfs.New(crashfs.Config{Seed: 1})
	holder, err := openOn(m.Process())
	must(t, err)
	var text bytes.Buffer
	waiter, err := openOn(m.Process(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&text, nil)) })
	must(t, err)
	log := holder.cur.Load().log
	must(t, log.Lock())
	for _, c := range []struct {
		held time.Duration
		want bool
	}{{time.Millisecond, false}, {patience / 4, false}, {patience, true}} {
		m.Clock.Advance(c.held)
		text.Reset()
		reported := waiter.cur.Load().reportHolder()
		if logged := strings.Contains(text.String(), "holds the store's lock"); reported != c.want || logged != c.want {
			t.Errorf("%v later: reported %v, logged %q, want %v", c.held, reported, text.String(), c.want)
		}
	}
	log.Unlock()
	must(t, holder.Close())
	must(t, waiter.Close())
}
