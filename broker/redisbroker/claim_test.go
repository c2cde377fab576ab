package redisbroker

import (
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

// A list of queues that is remembered saves a claim that finds enough there the
// reading of it; one that does not find enough looks for new queues.
func TestAClaimOverAllQueuesTakesFromANewOneWhatTheOthersDoNotHave(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	b, other := open(t, s.URL(), "ns", nil), open(t, s.URL(), "ns", nil)
	defer b.Close()
	defer other.Close()
	claim := func(want ...string) {
		t.Helper()
		got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Max: 2, TTL: time.Minute, Worker: "w"})
		if err != nil || len(got.Leases) != len(want) {
			t.Fatalf("claim: %d leases, %v; want %d", len(got.Leases), err, len(want))
		}
		for i, l := range got.Leases {
			if l.Job.Queue != want[i] {
				t.Errorf("lease %d is of queue %s, want %s", i, l.Job.Queue, want[i])
			}
		}
	}
	fill(t, other, "a", 1, 1, nil)
	claim("a") // from here on it remembers the list
	fill(t, other, "a", 1, 1, nil)
	fill(t, other, "b", 3, 1, nil)
	claim("a", "b")
	claim("b", "b")
	claim()
}

func TestAClaimThatCouldNotAskEveryQueueSaysThatThereMayBeMore(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	p := redistest.NewProxy(t, s.Addr())
	b := open(t, p.URL(), "ns", nil)
	defer b.Close()
	fill(t, b, "a", 1, 1, nil)
	fill(t, b, "b", 1, 1, nil)
	p.Judge(func(args []string) redistest.Verdict {
		if len(args) > 3 && args[3] == "ns:{b}:c" {
			return redistest.DropRequest
		}
		return redistest.Pass
	})
	got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"a", "b"}, Max: 2, TTL: 400 * time.Millisecond, Worker: "w"})
	if err != nil || len(got.Leases) != 1 || !got.More {
		t.Errorf("claim: %d leases, more %v, %v; want one, and that there may be more", len(got.Leases), got.More, err)
	}
}
