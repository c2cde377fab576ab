package filebroker

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

// TestNothingIsLeftOfAKilledHandle whether it held something or not, once
// another has noticed: one that lives, or the next that opens the store.
func TestNothingIsLeftOfAKilledHandle(t *testing.T) {
	for _, c := range []struct {
		name  string
		held  bool // a lease
		alone bool // when it is killed
	}{{"that held nothing", false, false}, {"that held a lease", true, false}, {"that was alone and held nothing", false, true}, {"that was alone and held a lease", true, true}} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := crashfs.New(crashfs.Config{Uptime: time.Hour})
				open := func() (*crashfs.Process, *Broker) {
					p := m.Process()
					b, err := openOn(p)
					must(t, err)
					t.Cleanup(func() { b.Close() }) // it may be dead
					return p, b
				}
				p, b := open()
				if fill(t, b, 1); c.held {
					take(t, b, 1)
				}
				if !c.alone {
					open()
				}
				p.Kill()
				if c.alone {
					open()
				}
				time.Sleep(time.Second) // of the bubble
				names, err := m.Process().ReadDir(labDir + "/alive")
				must(t, err)
				slices.Sort(names)
				if len(names) != 2 || names[1] != names[0]+bellSuffix {
					t.Errorf("alive holds %q, want one handle and its bell", names)
				}
			})
		})
	}
}
