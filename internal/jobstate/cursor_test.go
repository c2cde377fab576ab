package jobstate

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// pages reads a list from a cursor on, n jobs a page.
func pages(t *testing.T, s *State, now Now, cursor string, n int) (ids []broker.ID) {
	t.Helper()
	for first := true; first || cursor != ""; first = false {
		found, next, err := s.Select(now, broker.Filter{Queue: "q"}, broker.Ready, cursor, n)
		if err != nil {
			t.Fatal(err)
		}
		for i := range found {
			ids = append(ids, found[i].Job.ID)
		}
		cursor = next
	}
	return ids
}

func TestAListGoesOnInAStateThatWasLoadedSince(t *testing.T) {
	for _, c := range []struct {
		name string
		gone bool // the job that the cursor names
		want int
	}{
		{"where it was", false, 10},
		{"from its start when the cursor's job has left it", true, 14},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := newHistory(t, 1)
			ids := h.put(make20()...)
			remove := func(id broker.ID) {
				h.commit(func() {
					cmd := broker.Command{Kind: broker.DeleteJobs, Filter: broker.Filter{Queue: "q"}}
					h.s.Command(&h.w, h.now, &cmd, []broker.ID{id})
				})
			}
			for _, id := range ids[:5] { // so that places count otherwise in a State that is loaded
				remove(id)
			}
			found, cursor, err := h.s.Select(h.now, broker.Filter{Queue: "q"}, broker.Ready, "", 5)
			if err != nil || len(found) != 5 || found[4].Job.ID != ids[9] {
				t.Fatalf("%d jobs, %v", len(found), err)
			}
			if c.gone {
				remove(ids[9])
			}
			loaded := New(nil, nil)
			if err := loaded.Decode(bytes.NewReader(encode(t, h.s))); err != nil {
				t.Fatal(err)
			}
			for name, s := range map[string]*State{"the same State": h.s, "another": loaded} {
				got, want := pages(t, s, h.now, cursor, 3), c.want
				if s == h.s {
					want = 10
				}
				if len(got) != want || got[len(got)-1] != ids[19] {
					t.Errorf("%s shows %d jobs, want %d", name, len(got), want)
				}
			}
		})
	}
}

func make20() []broker.NewJob {
	jobs := make([]broker.NewJob, 20)
	for i := range jobs {
		jobs[i].Task = "t"
	}
	return jobs
}

// TestAListHasItsOrderAfterItWasSaved: a delayed job becomes ready without a record,
// before or after others do.
func TestAListHasItsOrderAfterItWasSaved(t *testing.T) {
	h := newHistory(t, 1)
	put := func(delay time.Duration) broker.ID {
		n := broker.NewJob{ID: broker.NewID(), Task: "t", Delay: delay}
		h.commit(func() { h.s.Enqueue(&h.w, h.now, "q", []broker.NewJob{n}) })
		h.now.Steady += int64(time.Second)
		h.now.Wall += int64(time.Second)
		return n.ID
	}
	late, soon := put(10*time.Second), put(1500*time.Millisecond)
	first := put(0)
	h.now.Steady += int64(4 * time.Second)
	second := put(0)
	h.now.Steady += int64(20 * time.Second)
	third := put(0)
	want := []broker.ID{first, soon, second, late, third}
	saved := New(nil, nil)
	if err := saved.Decode(bytes.NewReader(encode(t, h.s))); err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*State{"the state": h.s, "the state that was saved and read": saved} {
		if got := pages(t, s, h.now, "", 10); !slices.Equal(got, want) {
			t.Errorf("%s lists %v, want %v", name, got, want)
		}
	}
}
