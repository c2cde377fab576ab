package jobstate

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// checkRoom wants that Room is what its parts count for, and that a checkpoint
// takes no more.
func checkRoom(t testing.TB, s *State) {
	t.Helper()
	want := int64(0)
	for name, q := range s.queues {
		want += queueRoom + int64(len(name))
		for name := range q.tasks {
			want += taskRoom + int64(len(name))
		}
		for name := range q.keys {
			want += roomOfKey(name.key)
		}
		for j := range q.kept() {
			want += entryRoom
			if j.flags&scheduled != 0 {
				want += laterRoom
			}
			if j.lived() {
				want += lifeRoom
			}
			if x := s.extOf(j); x != nil {
				want += x.room()
			}
		}
	}
	for _, l := range s.lanes {
		if l != nil {
			want += l.room()
		}
	}
	if s.room != want {
		t.Fatalf("the parts count for %d bytes, they are said to be %d", want, s.room)
	}
	if size := int64(len(encode(t, s))); size > s.Room() {
		t.Fatalf("a checkpoint takes %d bytes, at most %d were said", size, s.Room())
	}
}

// TestACheckpointOfManyJobsFitsIntoTheRoomThatIsSaid has enough jobs of each kind
// that what is said once does not count.
func TestACheckpointOfManyJobsFitsIntoTheRoomThatIsSaid(t *testing.T) {
	long := strings.Repeat("l", 100)
	for name, job := range map[string]func(i int) broker.NewJob{
		"plain": func(int) broker.NewJob { return broker.NewJob{} },
		"with ids of the caller": func(i int) broker.NewJob {
			return broker.NewJob{ID: broker.ID{1, byte(i >> 16), byte(i >> 8), byte(i)}}
		},
		"with payloads of every size": func(i int) broker.NewJob { return broker.NewJob{Payload: make([]byte, i%5000)} },
		"later":                       func(i int) broker.NewJob { return broker.NewJob{Delay: time.Duration(i) * time.Hour} },
		"at a time":                   func(i int) broker.NewJob { return broker.NewJob{At: time.Unix(2e9+int64(i), 0)} },
		"with keys":                   func(i int) broker.NewJob { return broker.NewJob{Key: fmt.Sprint(long, i)} },
		"of many tenants":             func(i int) broker.NewJob { return broker.NewJob{Tenant: fmt.Sprint(long, i)} },
		"of many groups":              func(i int) broker.NewJob { return broker.NewJob{Group: fmt.Sprint(long, i), Ordered: true} },
		"of many priorities":          func(i int) broker.NewJob { return broker.NewJob{Priority: int32(i) * 1000} },
		"that are kept":               func(i int) broker.NewJob { return broker.NewJob{Retain: time.Hour, MaxAttempts: i%50 + 1} },
		"with a deadline":             func(i int) broker.NewJob { return broker.NewJob{StartWithin: time.Duration(i+1) * time.Hour} },
	} {
		t.Run(name, func(t *testing.T) {
			s, w, now := New(nil, nil), &Writer{}, Now{Wall: 1.8e18, Steady: 1.8e18}
			random, body := rand.New(rand.NewPCG(1, 1)), uint64(0)
			step := func(do func()) {
				now.Steady += random.Int64N(60e9)
				now.Wall = now.Steady
				w.Reset(nil, uint32(1+body>>24), int64(body&(1<<24-1)), now)
				do()
				body += uint64(len(w.Body())) + 80
			}
			enqueue := func(i int) {
				j := job(i)
				j.Task = "t"
				before := s.Room()
				if _, err := s.Enqueue(w, now, "q", []broker.NewJob{j}); err != nil {
					t.Fatal(err)
				}
				if grown, most := s.Room()-before, Adds(&j); i > 0 && grown > most {
					t.Fatalf("job %d took %d bytes more, Adds said %d", i, grown, most)
				}
			}
			for i := range 3000 {
				step(func() { enqueue(i) })
			}
			checkRoom(t, s)
			var leases []Ticket
			step(func() {
				s.OpenEpoch(w, 1, "member0123456789", [16]byte{1}, 0, false)
				leases, _ = s.ClaimAny(w, now, &broker.ClaimRequest{Queues: []string{"q"}, Max: 1000, Worker: "worker", TTL: time.Minute}, "member0123456789")
			})
			checkRoom(t, s)
			for i, l := range leases {
				step(func() {
					s.Settle(w, now, &broker.Settlement{Ref: l.Job.Ref(), Token: token(s, l), Kind: []broker.SettleKind{broker.Ack, broker.Nack, broker.Release}[i%3], Error: long})
				})
			}
			checkRoom(t, s)
		})
	}
}

// token is the token of a lease that was just given.
func token(s *State, l Ticket) broker.Token {
	return s.lifeOf(s.queues[l.Job.Queue].job(l.Job.ID)).token()
}
