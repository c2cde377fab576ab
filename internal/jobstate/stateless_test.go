package jobstate

import (
	"bytes"
	"testing"

	"github.com/spoolq/spool/broker"
)

// TestAnEnqueueWithoutTheStateIsNeverBeforeAnEarlierOne writes records with a
// clock that steps back from one process to the next.
func TestAnEnqueueWithoutTheStateIsNeverBeforeAnEarlierOne(t *testing.T) {
	s, again := New(nil, nil), New(nil, nil)
	var want []broker.ID
	for i, at := range []int64{1000, 400, 700, 2000, 1500} {
		var w Writer
		w.Reset(nil, 1, 0, Now{Wall: at, Steady: at})
		got, err := EnqueueStateless(&w, Now{Wall: at, Steady: at}, "q", []broker.NewJob{{Task: "t"}})
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, got[0].ID)
		for _, to := range []*State{s, again} {
			if err := to.Apply(w.Body(), 1, int64(i)*1000); err != nil {
				t.Fatal(err)
			}
		}
	}
	var a, b bytes.Buffer
	if s.Encode(&a) != nil || again.Encode(&b) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the same records give two states")
	}
	var w Writer
	now := Now{Wall: 3000, Steady: 3000}
	w.Reset(nil, 1, 0, now)
	got, _ := s.ClaimAny(&w, now, &broker.ClaimRequest{Max: 10, TTL: 1}, "")
	for i, id := range want {
		if len(got) != len(want) || got[i].Job.ID != id {
			t.Fatalf("claimed %d jobs, not in the order in which they were enqueued", len(got))
		}
	}
}

// TestAnEnqueueWithoutTheStateGivesWhatOneWithItGives compares the states.
func TestAnEnqueueWithoutTheStateGivesWhatOneWithItGives(t *testing.T) {
	jobs := []broker.NewJob{
		{Task: "t", Payload: []byte("p")}, {Task: "t", Priority: 3, Tenant: "a", Group: "g", Ordered: true},
		{Task: "u", Delay: 5, Retain: 7, StartWithin: 9, MaxAttempts: 2, Headers: map[string]string{"h": "v"}},
		{Task: "done", BatchSize: 1}, {Task: "member"},
	}
	for i := range jobs {
		jobs[i].MakeID()
	}
	jobs[4].Batch = jobs[3].ID
	if !Stateless(jobs) {
		t.Fatal("these jobs seem to need the state")
	}
	now := Now{Wall: 1000, Steady: 900}
	with, without := New(nil, nil), New(nil, nil)
	var w, v Writer
	w.Reset(nil, 1, 0, now)
	v.Reset(nil, 1, 0, now)
	if _, err := with.Enqueue(&w, now, "q", jobs); err != nil {
		t.Fatal(err)
	}
	with.Wrote(&w)
	if _, err := EnqueueStateless(&v, now, "q", jobs); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(w.Body(), v.Body()) {
		t.Error("the records differ")
	}
	if err := without.Apply(v.Body(), 1, 0); err != nil {
		t.Fatal(err)
	}
	var a, b bytes.Buffer
	if with.Encode(&a) != nil || without.Encode(&b) != nil || !bytes.Equal(a.Bytes(), b.Bytes()) {
		t.Error("the states differ")
	}
}

func TestJobsThatNeedTheState(t *testing.T) {
	fresh := func() (j broker.NewJob) { j.Task = "t"; j.MakeID(); return j }
	a, b := fresh(), fresh()
	changed := fresh()
	changed.ID[15]++
	for name, c := range map[string]struct {
		jobs []broker.NewJob
		want bool
	}{
		"none":                           {nil, true},
		"an id that the broker makes":    {[]broker.NewJob{{Task: "t"}, {Task: "t"}}, true},
		"new ids":                        {[]broker.NewJob{a, b}, true},
		"a new id twice":                 {[]broker.NewJob{a, a}, false},
		"new ids in another order":       {[]broker.NewJob{b, a}, false},
		"an id that may be known":        {[]broker.NewJob{{ID: a.ID, Task: "t"}}, false},
		"a new id that was changed":      {[]broker.NewJob{changed}, false},
		"a key":                          {[]broker.NewJob{{Task: "t", Key: "k"}}, false},
		"a new id, and one may be known": {[]broker.NewJob{a, {ID: b.ID, Task: "t"}}, false},
	} {
		if got := Stateless(c.jobs); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
