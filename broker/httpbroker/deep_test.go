package httpbroker_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// A payload that is nested as deeply as a reader of JSON goes leaves no room for
// the answer around it.
func TestADeepPayloadComesBackAndHoldsUpNobody(t *testing.T) {
	b := open(t, serve(t, membroker.New(membroker.Config{RememberCalls: true})))
	defer b.Close()
	deep := append(bytes.Repeat([]byte("["), 9999), bytes.Repeat([]byte("]"), 9999)...)
	jobs := []broker.NewJob{{Task: "deep", Payload: deep}, {Task: "plain", Payload: []byte("1")}}
	for i := range jobs {
		jobs[i].MakeID()
	}
	if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", jobs); err != nil {
		t.Fatal(err)
	}
	got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 10, TTL: time.Minute})
	if err != nil || len(got.Leases) != 2 {
		t.Fatalf("%d leases, %.300v", len(got.Leases), err)
	}
	if !bytes.Equal(got.Leases[0].Job.Payload, deep) {
		t.Error("the payload came back changed")
	}
	l := &got.Leases[0]
	answers, err := b.Settle(t.Context(), broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack, Result: deep}})
	if err != nil || answers[0].Err != nil {
		t.Fatal(err, answers)
	}
}

// One answer with all of them could take the server's memory.
func TestManyLargeJobsComeInSeveralAnswers(t *testing.T) {
	url := serve(t, membroker.New(membroker.Config{RememberCalls: true}))
	b := open(t, url)
	defer b.Close()
	large := broker.NewJob{ID: broker.NewID(), Task: "large", Payload: bytes.Repeat([]byte{0xff}, 7<<20)}
	if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{large}); err != nil {
		t.Fatal(err)
	}
	refs := slices.Repeat([]broker.Ref{{Queue: "q", ID: large.ID}}, 6)
	body, err := json.Marshal(map[string]any{"jobs": refs})
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(url+"/v1/lookup", "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Error(resp.Status)
	}
	jobs, err := b.Get(t.Context(), refs)
	if err != nil || len(jobs) != len(refs) {
		t.Fatalf("%d jobs, %v", len(jobs), err)
	}
	for i := range jobs {
		if !bytes.Equal(jobs[i].Payload, large.Payload) {
			t.Errorf("job %d has %d bytes", i, len(jobs[i].Payload))
		}
	}
}

// Many that are final at once are told some at a time.
func TestManyLargeResultsAreAwaitedInSeveralAnswers(t *testing.T) {
	b := open(t, serve(t, membroker.New(membroker.Config{RememberCalls: true})))
	defer b.Close()
	const size, n = 3 << 20, 40
	var refs []broker.Ref
	for range n {
		added, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t", Retain: time.Hour}})
		if err != nil {
			t.Fatal(err)
		}
		refs = append(refs, broker.Ref{Queue: "q", ID: added[0].ID})
		got, err := b.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w", Remote: true})
		if err != nil || len(got.Leases) != 1 {
			t.Fatal(err, got)
		}
		l := &got.Leases[0]
		if _, err := b.Settle(t.Context(), broker.NewCall(), []broker.Settlement{{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack, Result: bytes.Repeat([]byte{0xff}, size)}}); err != nil {
			t.Fatal(err)
		}
	}
	for len(refs) > 0 {
		jobs, err := b.Await(t.Context(), refs, time.Minute)
		if err != nil || len(jobs) == 0 || len(jobs)*size > 16<<20 {
			t.Fatalf("%d jobs in one answer, %v", len(jobs), err)
		}
		for _, j := range jobs {
			if refs[0] != j.Ref() || len(j.Result) != size {
				t.Fatalf("job %s has %d bytes", j.ID, len(j.Result))
			}
			refs = refs[1:]
		}
	}
}
