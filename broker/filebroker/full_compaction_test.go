package filebroker

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/journal"
	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestACompactionOfAFullDiskLeavesNothingBehind compacts with every amount of
// room: for nothing, for a checkpoint, for what is to be moved but not for the
// checkpoint after it, for both.
func TestACompactionOfAFullDiskLeavesNothingBehind(t *testing.T) {
	const page, jobs, enough = 4096, 600, 60
	moved, rest := 0, 0
	for room := int64(0); room <= enough; room++ {
		synctest.Test(t, func(t *testing.T) {
			m := crashfs.New(crashfs.Config{Seed: 1, FollowTime: true, Uptime: time.Hour})
			b, err := openOn(m.Process())
			must(t, err)
			defer b.Close()
			fillQueue(t, b, "q", jobs, 50)
			for range 3 {
				leases := take(t, b, 100)
				settle(t, b, broker.Ack, leases[:70]...)
				settle(t, b, broker.Release, leases[70:]...)
			}
			synctest.Wait() // segments are prepared
			m.SetDiskBytes(m.Used() + room*page)
			c, err := b.Compact(t.Context())
			switch {
			case err != nil && room == enough:
				t.Errorf("with %d pages of room: %v", room, err)
			case err == nil && c.Moved > 0:
				moved++
			default:
				rest++
			}
			report, err := journal.Verify(m.Process(), labDir)
			must(t, err)
			for _, f := range report.Findings {
				if !strings.HasSuffix(f.File, ".new") {
					t.Errorf("with %d pages of room: %+v", room, f)
				}
			}
		})
	}
	t.Logf("compactions that moved something: %d, that did not: %d", moved, rest)
	if moved == 0 || rest == 0 {
		t.Error("this test proves nothing")
	}
}

// A disk that is nearly full has room and has none with each call.
func TestAFullDiskIsSaidToBeFullOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := crashfs.New(crashfs.Config{FollowTime: true, Uptime: time.Hour})
		var log strings.Builder
		b, err := openLazy(m.Process(), func(c *Config) { c.Logger = slog.New(slog.NewTextHandler(&log, nil)) })
		must(t, err)
		told := func(full, room int) {
			t.Helper()
			synctest.Wait()
			if f, r := strings.Count(log.String(), "the disk is full"), strings.Count(log.String(), "room again"); f != full || r != room {
				t.Errorf("told %d times that it is full, %d that it is not: %s", f, r, &log)
			}
		}
		fill := func() {
			t.Helper()
			synctest.Wait()
			m.SetDiskBytes(m.Used())
			jobs := []broker.NewJob{{Task: "t", Payload: make([]byte, 2000)}}
			for n := 0; !b.cur.Load().log.Full(); n++ {
				if _, err := b.Enqueue(context.Background(), broker.NewCall(), "q", jobs); err != nil && !errors.Is(err, broker.ErrFull) || n > 1000 {
					t.Fatal(n, err)
				}
			}
			time.Sleep(2 * time.Second)
		}
		fill()
		told(1, 0)
		for range 10 {
			m.SetDiskBytes(1 << 30)
			time.Sleep(2500 * time.Millisecond)
			if b.cur.Load().log.Full() {
				t.Error("there is room, and nobody noticed")
			}
			fill()
		}
		told(1, 0)
		m.SetDiskBytes(1 << 30)
		time.Sleep(10 * time.Second)
		told(1, 1)
		must(t, b.Close())
	})
}
