package filebroker_test

import (
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

func TestUsageFollowsWhatIsThere(t *testing.T) {
	b, err := filebroker.Open(t.TempDir(), filebroker.Config{AllowUnsafeFS: true})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	usage := func() filebroker.Usage {
		u, err := b.Usage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if u.Used > u.Disk {
			t.Errorf("%d bytes are used of %d on the disk", u.Used, u.Disk)
		}
		return u
	}
	const n, size = 100, 1000
	jobs := make([]broker.NewJob, n)
	for i := range jobs {
		jobs[i] = broker.NewJob{Task: "t", Payload: make([]byte, size)}
	}
	empty := usage()
	if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", jobs); err != nil {
		t.Fatal(err)
	}
	full := usage()
	for name, grown := range map[string]int64{"used": full.Used - empty.Used, "log": full.Log - empty.Log, "live": full.Live - empty.Live} {
		if grown < n*size {
			t.Errorf("%s grew by %d bytes for %d jobs of %d", name, grown, n, size)
		}
	}
	if _, err := b.Apply(t.Context(), broker.NewCall(), broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: "q"}}); err != nil {
		t.Fatal(err)
	}
	if u := usage(); u.Live > full.Live-n*size {
		t.Errorf("%d bytes are live after all was deleted, before it was %d", u.Live, full.Live)
	}
	if _, err := b.Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if u := usage(); u.Log >= full.Log {
		t.Errorf("the log since the checkpoint has %d bytes, before it had %d", u.Log, full.Log)
	}
	s := b.Stats()
	if s.Compactions.Load() != 1 || s.Syncs.Load() == 0 || s.Syncs.Sum() <= 0 {
		t.Errorf("%d compactions, %d syncs of %v", s.Compactions.Load(), s.Syncs.Load(), s.Syncs.Sum())
	}
	b.Close()
	if _, err := b.Usage(t.Context()); err == nil {
		t.Error("a closed broker says how large the store is")
	}
}
