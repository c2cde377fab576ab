package filebroker

import (
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
