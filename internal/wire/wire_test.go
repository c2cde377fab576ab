package wire

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// cross sends a shape to the other side: strictly, as a server reads it, so that
// what a client writes is what a server takes.
func cross[T any](t *testing.T, v T) (got T) {
	t.Helper()
	b, err := Append(nil, v)
	if err != nil {
		t.Fatal(err)
	}
	if err := Read(b, &got); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	return got
}

// same fails the test unless a value came back as it was.
func same[T any](t *testing.T, got T, err error, want T) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%T came back as\n%+v, want\n%+v", got, got, want)
	}
}

func TestEveryFieldCrossesAsItIs(t *testing.T) {
	for _, c := range []struct {
		name  string
		cross func(t *testing.T, f *filler)
	}{
		{"a job", func(t *testing.T, f *filler) {
			want := filled[broker.Job](f)
			v := cross(t, JobOf(&want))
			got, err := v.Job()
			same(t, got, err, want)
		}},
		{"a new job", func(t *testing.T, f *filler) {
			want := filled[broker.NewJob](f)
			v := cross(t, EnqueueRequest{Jobs: []NewJob{NewJobOf(&want)}, Wait: 7})
			got, err := v.Jobs[0].NewJob()
			same(t, got, err, want)
		}},
		{"answers to an enqueue", func(t *testing.T, f *filler) {
			want := filled[[]broker.Enqueued](f)
			same(t, cross(t, EnqueueAnswer{EnqueuedOf(want)}).Enqueued(), nil, want)
		}},
		{"a claim", func(t *testing.T, f *filler) {
			want := filled[broker.ClaimRequest](f)
			want.Queues, want.Tasks, want.Worker = []string{"a", "b"}, []string{"t"}, "w" // names
			v := cross(t, ClaimRequestOf(&want))
			same(t, v.ClaimRequest(), nil, want)
		}},
		{"leases", func(t *testing.T, f *filler) {
			want := filled[broker.Claimed](f)
			want.Asked = time.Time{} // it is the claiming process's own
			v := cross(t, ClaimedOf(&want))
			got, err := v.Claimed()
			same(t, got, err, want)
		}},
		{"a heartbeat", func(t *testing.T, f *filler) {
			want := filled[broker.ExtendRequest](f)
			want.Worker.Queues, want.Worker.Tasks = []string{"a"}, []string{"t"}
			v := cross(t, ExtendRequestOf(&want))
			got, err := v.ExtendRequest()
			same(t, got, err, want)
		}},
		{"beats", func(t *testing.T, f *filler) {
			want := filled[[]broker.Beat](f)
			v := cross(t, BeatsOf(want))
			got, err := v.Beats()
			same(t, got, err, want)
		}},
		{"settlements", func(t *testing.T, f *filler) {
			want := filled[[]broker.Settlement](f)
			v := cross(t, SettleRequestOf(want))
			for i := range v.Settlements {
				got, err := v.Settlements[i].Settlement()
				same(t, got, err, want[i])
			}
		}},
		{"answers to settlements", func(t *testing.T, f *filler) {
			want := []broker.Settled{{State: broker.Done, FollowUps: filled[[]broker.Enqueued](f)}, {State: broker.Dead}}
			v := cross(t, SettleAnswerOf(want))
			got, err := v.Settled()
			same(t, got, err, want)
		}},
		{"a filter", func(t *testing.T, f *filler) {
			want := filled[broker.Filter](f)
			want.Settings, want.Reason = false, "" // they are for Watch alone
			v := cross(t, SearchRequest{Filter: FilterOf(&want)})
			got, err := v.Filter.Filter(want.Queue)
			same(t, got, err, want)
		}},
		{"a command", func(t *testing.T, f *filler) {
			want := filled[broker.Command](f)
			want.Cursor, want.Reason, want.Filter.Settings, want.Filter.Reason = "c", f.text(), false, ""
			v := cross(t, CommandRequestOf(&want))
			got, err := v.Command(want.Kind, want.Filter.Queue)
			same(t, got, err, want)
		}},
		{"an explanation", func(t *testing.T, f *filler) {
			want := filled[broker.Explanation](f)
			v := cross(t, ExplanationOf(&want))
			got, err := v.Explanation()
			same(t, got, err, want)
		}},
		{"an event", func(t *testing.T, f *filler) {
			want := filled[broker.Event](f)
			want.Setting.Name = "n"
			v := cross(t, EventOf(&want))
			got, err := v.Event()
			same(t, got, err, want)
		}},
		{"a worker", func(t *testing.T, f *filler) {
			want := filled[broker.Worker](f)
			want.Queues, want.Tasks = []string{"a"}, nil
			v := cross(t, Workers{[]Worker{WorkerOf(&want)}})
			got, err := v.Workers[0].Worker()
			same(t, got, err, want)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for seed := range uint64(40) {
				c.cross(t, &filler{rand.New(rand.NewPCG(seed, 1)), seed%2 == 1})
			}
		})
	}
}

func TestEverySettingCrossesAsItIs(t *testing.T) {
	for seed := range uint64(40) {
		f := &filler{Rand: rand.New(rand.NewPCG(seed, 1))} // settings are JSON in every store: their strings are UTF-8
		want := filled[broker.Change](f)
		want.Set[0].Schedule.Job.ID = broker.ID{}
		for i := range want.Set {
			want.Set[i].Limit.Per = broker.PerGroup
		}
		v := cross(t, ChangeOf(&want))
		got, err := v.Change()
		same(t, got, err, want)

		in := filled[broker.Setting](f)
		all := cross(t, Settings{[]Setting{SettingOf("q", &in)}})
		setting, err := all.Settings[0].Setting()
		same(t, setting, err, in)
	}
}

func TestAPayloadThatIsJSONStaysAsItIs(t *testing.T) {
	for _, c := range []struct{ name, payload, want string }{
		{"spaces, big numbers and angle brackets", `{"to": "ada",  "n": 12345678901234567890, "x":"<&>"}`, `"payload":{"to": "ada",  "n": 12345678901234567890, "x":"<&>"}`},
		{"null", `null`, `"payload":null`},
		{"space around it", ` 1`, `"payload_base64":"IDE="`},
		{"a duplicate name", `{"a":1,"a":2}`, `"payload_base64":"eyJhIjoxLCJhIjoyfQ=="`},
		{"no JSON", `plain`, `"payload_base64":"cGxhaW4="`},
		{"nothing", ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Append(nil, NewJobOf(&broker.NewJob{Task: "t", Payload: []byte(c.payload)}))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(b), c.want) || c.want == "" && strings.Contains(string(b), "payload") {
				t.Errorf("%s has no %s", b, c.want)
			}
		})
	}
}

func TestWhatCannotBeReadIsExplained(t *testing.T) {
	for _, c := range []struct{ name, body, want string }{
		{"an unknown field", `{"jobs":[{"task":"t","payloadd":1}]}`, "/jobs/0/payloadd: there is no such field"},
		{"a bare number as a duration", `{"jobs":[{"task":"t","delay":5}]}`, `/jobs/0/delay: a JSON number does not fit here, it wants a duration as text, like "1m30s"`},
		{"a duration in words", `{"jobs":[{"task":"t","delay":"5 minutes"}]}`, `/jobs/0/delay: "5 minutes": not a duration: write it as 1m30s`},
		{"a number out of range", `{"jobs":[{"task":"t","priority":99999999999}]}`, "/jobs/0/priority: value out of range"},
		{"a fraction", `{"jobs":[{"task":"t","priority":1.5}]}`, "/jobs/0/priority: a JSON number does not fit here, it wants a whole number in range"},
		{"text for a number", `{"jobs":[{"task":"t","priority":"1"}]}`, "/jobs/0/priority: a JSON string does not fit here, it wants a whole number in range"},
		{"a bad id", `{"jobs":[{"task":"t","id":"x"}]}`, "/jobs/0/id: \"x\": not an id"},
		{"a bad time", `{"jobs":[{"task":"t","at":"tomorrow"}]}`, "/jobs/0/at: "},
		{"an object for an array", `{"jobs":{}}`, "/jobs: a JSON object does not fit here, it wants an array"},
		{"nothing", ``, "the body is not JSON: it ends too early"},
		{"half a value", `{"jobs":[`, "the body is not JSON: "},
		{"two values", `{"jobs":[]}{}`, "the body is not JSON: "},
		{"a duplicate field", `{"jobs":[],"jobs":[]}`, "the body is not JSON: duplicate object member name"},
		{"bytes that are no UTF-8", "{\"jobs\":[{\"task\":\"\xff\"}]}", "the body is not JSON: invalid UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var v EnqueueRequest
			err := Read([]byte(c.body), &v)
			if !errors.Is(err, broker.ErrInvalid) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}

func TestAnErrorComesBackAsItself(t *testing.T) {
	full := &broker.FullError{Queue: "q", Tenant: "x", RetryAfter: 3 * time.Second, Text: "10 of 10 jobs"}
	for _, err := range []error{
		broker.ErrInvalid, broker.ErrTooLarge, broker.ErrNotFound, broker.ErrLeaseLost, broker.ErrFull, broker.ErrConflict,
		broker.ErrPoisoned, broker.ErrCorrupt, broker.ErrUnsupported, broker.ErrClosed, broker.ErrUnknown, full,
	} {
		p := cross(t, *ProblemOf(err))
		got := p.Err()
		if !errors.Is(got, err) && !reflect.DeepEqual(got, err) || got.Error() != err.Error() {
			t.Errorf("%v came back as %v", err, got)
		}
		if p.Status < 400 || p.Title == "" || p.Type != "urn:spool:problem:"+p.Code {
			t.Errorf("%v is the problem %+v", err, p)
		}
	}
	p := cross(t, *ProblemOf(&broker.FullError{Queue: "q", Text: "too much"}))
	if never := p.Err(); !reflect.DeepEqual(never, &broker.FullError{Queue: "q", Text: "too much"}) {
		t.Errorf("a call that never fits came back as %#v", never)
	}
}

func TestAValueThatIsNestedTooDeepIsBytes(t *testing.T) {
	nest := func(n int, inner string) []byte {
		return []byte(strings.Repeat(`{"a":[`, n/2) + inner + strings.Repeat("]}", n/2))
	}
	for _, c := range []struct {
		name string
		b    []byte
		want bool
	}{
		{"as deep as any reader goes", nest(60, "1"), true},
		{"deeper", nest(60, "[]"), false},
		{"brackets in a string", nest(60, `"\"[[[{{{\\"`), true},
		{"brackets behind a string", nest(60, `"\\",[1]`), false},
		{"many side by side", []byte("[" + strings.Repeat("[],{},", 100) + "1]"), true},
	} {
		t.Run(c.name, func(t *testing.T) {
			if text, bytes := forms(c.b); (text != nil) != c.want || (bytes == nil) != c.want {
				t.Errorf("as text: %v, as bytes: %v", text != nil, bytes != nil)
			}
		})
	}
}
