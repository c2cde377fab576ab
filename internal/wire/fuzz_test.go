package wire

import (
	"bytes"
	"reflect"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/fuzztest"
)

// FuzzRead looks for input that is read without an error, and does not come back
// as the same: what a client sends would not be what is stored.
func FuzzRead(f *testing.F) {
	for _, seed := range []string{`{"jobs":[{"task":"t","payload":{"a":[1,2,{"b":null}]},"delay":"1s","headers":{"a":"b"}}]}`, `{"jobs":[{"bytes":{"key":"/w=="}}]}`, `{`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) { fuzztest.Bound(t, func() { readEnqueue(t, b) }) })
}

// readEnqueue reads the body of an enqueue and sends what it was read as.
func readEnqueue(t *testing.T, b []byte) {
	var v EnqueueRequest
	if Read(b, &v) != nil {
		return
	}
	jobs, err := NewJobs(v.Jobs)
	if err != nil {
		return
	}
	again := cross(t, EnqueueRequest{Jobs: NewJobsOf(jobs)})
	got, err := NewJobs(again.Jobs)
	if len(jobs) == 0 {
		return
	}
	for i := range jobs {
		if len(jobs[i].Payload) == 0 {
			jobs[i].Payload = nil
		}
		if len(jobs[i].Headers) == 0 {
			jobs[i].Headers = nil
		}
		jobs[i].At, got[i].At = jobs[i].At.UTC(), got[i].At.UTC()
	}
	same(t, got, err, jobs)
}

// reread reads a shape, lets fn make of it what it is the shape of, and wants that
// what is written of that shape is read as the same shape.
func reread[T any](t *testing.T, b []byte, fn func(v *T) error) {
	var v T
	if Read(b, &v) != nil || fn(&v) != nil {
		return
	}
	text, err := Append(nil, v)
	if err != nil {
		t.Fatalf("%T was read from %q and cannot be written: %v", v, b, err)
	}
	var again T
	if err := Read(text, &again); err != nil || fn(&again) != nil {
		t.Fatalf("%T was written as %q, which cannot be read: %v, %v", v, text, err, fn(&again))
	}
	if twice, err := Append(nil, again); err != nil || !bytes.Equal(twice, text) {
		t.Fatalf("%T was written as %q and then as %q, %v", v, text, twice, err)
	}
}

// fine is for shapes that are read without more.
func fine[T any](*T) error { return nil }

// FuzzRequests reads arbitrary bytes as the body of each call but an enqueue, and as
// the answers that a client reads.
func FuzzRequests(f *testing.F) {
	for _, seed := range []string{
		`{"queues":["q"],"tasks":["t"],"max":3,"ttl":"30s","wait":"1s","worker":"w"}`,
		`{"settlements":[{"queue":"q","id":"00000000-0000-7000-8000-000000000000","token":"1.2","kind":"ack","result":{"a":1},"follow_ups":[{"queue":"q","job":{"task":"t"}}]}]}`,
		`{"worker":{"id":"w","queues":["q"]},"leases":[{"queue":"q","id":"00000000-0000-7000-8000-000000000000","token":"1","progress":{"percent":5},"log":["x"]}],"ttl":"1m"}`,
		`{"filter":{"states":["ready"],"older_than":"24h","ids":["00000000-0000-7000-8000-000000000000"],"bytes":{"key":"/w=="}},"cursor":"x","limit":5}`,
		`{"set":[{"kind":"limit","name":"l","limit":{"rate":"5/s","running":3,"tasks":["t"]}}],"pause":["s"],"clear":[{"kind":"weight","name":"x"}]}`,
		`{"schedule":"s","due":"2026-11-30T00:00:00Z","next":"2026-12-01T00:00:00Z","jobs":[{"task":"t"}]}`,
		`{"jobs":[{"queue":"q","id":"00000000-0000-7000-8000-000000000000"}],"wait":"1s"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t, func() {
			reread(t, b, fine[ClaimRequest])
			reread(t, b, func(v *SettleRequest) error {
				for i := range v.Settlements {
					if _, err := v.Settlements[i].Settlement(); err != nil {
						return err
					}
				}
				return nil
			})
			reread(t, b, func(v *ExtendRequest) error { _, err := v.ExtendRequest(); return err })
			reread(t, b, func(v *SearchRequest) error { _, err := v.Filter.Filter("q"); return err })
			reread(t, b, func(v *CommandRequest) error { _, err := v.Command(broker.CancelJobs, "q"); return err })
			reread(t, b, fine[TickRequest])
			reread(t, b, fine[LookupRequest])
			reread(t, b, fine[Change])
			for _, answer := range []any{new(Page), new(Claimed), new(SettleAnswer), new(EnqueueAnswer), new(Counts), new(Settings), new(Problem)} {
				if ReadAnswer(b, answer) == nil && reflect.ValueOf(answer).IsNil() {
					t.Fatal("nothing was read")
				}
			}
		})
	})
}
