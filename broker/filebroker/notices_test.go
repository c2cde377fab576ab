package filebroker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func TestAFullDiskIsSaidToBeFullOnce(t *testing.T) {
	for _, c := range []struct{ name, looks, says string }{
		{"a disk with room", ".....", "....."},
		{"one that stays full", ".xxxxxxxx", ".F......."},
		{"one where room comes and goes is full all the time", "x.x.x..x...x....x", "F................"},
		{"one with room for a while has room again", "xx.....", "F.....R"},
		{"it is said anew when it is full again", "x.....x.....", "F....RF....R"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var n notices
			var said strings.Builder
			for _, look := range c.looks {
				said.WriteByte(".FR"[n.turns(look == 'x')])
			}
			if said.String() != c.says {
				t.Errorf("looks %s: said %s, want %s", c.looks, &said, c.says)
			}
		})
	}
}

func TestAFullDiskIsSaidToBeFull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		var log bytes.Buffer
		b, err := openLazy(m.Process(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		must(t, err)
		synctest.Wait() // the room that is kept is there
		m.SetDiskBytes(m.Used())
		jobs := []broker.NewJob{{Task: "t", Payload: make([]byte, 2000)}}
		for n := 0; !b.cur.Load().log.Full(); n++ {
			if _, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs); err != nil && !errors.Is(err, broker.ErrFull) || n > 1000 {
				t.Fatal(n, err)
			}
		}
		var said notices
		said.look(b.cur.Load())
		must(t, b.Close())
		if !strings.Contains(log.String(), "the disk is full") {
			t.Errorf("said %s", &log)
		}
	})
}
