package filebroker

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/spoolq/spool/broker"
)

// TestAPayloadFileThatIsLostStopsNobody loses a payload file, or the end of it:
// the jobs whose bytes were there are dead once they are claimed, those behind
// them run, and the store is compacted.
func TestAPayloadFileThatIsLostStopsNobody(t *testing.T) {
	for name, lose := range map[string]func(path string) error{
		"the file is deleted":   os.Remove,
		"the file is cut short": func(path string) error { return os.Truncate(path, 1000) },
	} {
		t.Run(name, func(t *testing.T) {
			const jobs = 200
			ctx, dir := context.Background(), t.TempDir()
			open := func() *Broker {
				b, err := Open(dir, Config{Sync: SyncNever, Logger: slog.New(slog.DiscardHandler)})
				must(t, err)
				return b
			}
			b := open()
			fillQueue(t, b, "q", jobs, 1)
			_, err := b.Compact(ctx)
			must(t, err)
			must(t, b.Close())
			files, err := filepath.Glob(filepath.Join(dir, "*.pay"))
			must(t, err)
			if len(files) != 1 {
				t.Fatalf("payload files: %v", files)
			}
			must(t, lose(files[0]))

			b = open()
			defer b.Close()
			fillQueue(t, b, "q", 10, 10)
			listed, err := b.List(ctx, broker.Filter{Queue: "q", States: []broker.State{broker.Ready}}, "", 2*jobs)
			if err != nil || len(listed.Jobs) != jobs+10 {
				t.Errorf("%d jobs are listed: %v", len(listed.Jobs), err)
			}
			lost := 0
			for _, j := range listed.Jobs {
				if j.Reason == broker.ReasonDamaged {
					lost++
				}
			}
			ran, more := 0, true
			for more && !t.Failed() {
				got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 50})
				must(t, err)
				ran, more = ran+len(got.Leases), got.More
			}
			if lost == 0 || ran != jobs+10-lost {
				t.Errorf("%d jobs run, %d are lost", ran, lost)
			}
			dead, err := b.List(ctx, broker.Filter{Queue: "q", States: []broker.State{broker.Dead}}, "", 2*jobs)
			if err != nil || len(dead.Jobs) != lost || lost > 0 && dead.Jobs[0].Reason != broker.ReasonDamaged {
				t.Errorf("%d of %d jobs are dead: %v", len(dead.Jobs), lost, err)
			}
			if loads := b.Stats().Loads.Load(); loads > 3 {
				t.Errorf("the state was loaded %d times", loads)
			}
			if _, err := b.Compact(ctx); err != nil {
				t.Errorf("compact: %v", err)
			}
		})
	}
}
