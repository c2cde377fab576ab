package spool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
)

type tree struct {
	Name string
	Kids []*tree
	Any  any
	Map  map[string]any `json:",omitempty"`
	Raw  json.RawMessage
	When time.Time
}

func TestJSONRefusesWhatItWouldChange(t *testing.T) {
	bad := "a\xffb"
	for _, c := range []struct {
		name string
		v    any
		part string
	}{
		{"a string that is not UTF-8", bad, "value is not valid UTF-8"},
		{"deep in a struct", tree{Kids: []*tree{{}, {Name: bad}}}, "value.Kids[1].Name"},
		{"in a map key", map[string]int{bad: 1}, "a key of value"},
		{"in an interface", tree{Any: []any{1, bad}}, "value.Any[1]"},
		{"in a map's value", tree{Map: map[string]any{"k": bad}}, "value.Map[k]"},
		{"a large integer in an interface", tree{Any: int64(1<<53 + 1)}, "lose digits"},
		{"a large negative integer in an interface", tree{Map: map[string]any{"n": int64(math.MinInt64)}}, "lose digits"},
		{"a large unsigned integer in a list in an interface", []any{uint64(math.MaxUint64)}, "lose digits"},
		{"infinity", math.Inf(1), "unsupported value"},
		{"not a number", []float64{math.NaN()}, "unsupported value"},
		{"a function", func() {}, "unsupported type"},
		{"a channel", make(chan int), "unsupported type"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := spool.JSON{}.Encode(c.v)
			if err == nil {
				t.Fatalf("it became %s", b)
			}
			wantText(t, err.Error(), c.part)
		})
	}
}

func TestJSONKeepsWhatItTakes(t *testing.T) {
	for name, v := range map[string]any{
		"a replacement character of the caller's own": "a\ufffdb",
		"a text that looks like its escape":           `a\ufffdb`,
		"an escape in ready JSON":                     json.RawMessage(`"\ufffd"`),
		"a typed 64-bit integer":                      int64(math.MaxInt64),
		"a typed unsigned integer":                    uint64(math.MaxUint64),
		"binary data":                                 []byte{0, 0xff, 0xfe},
		"a time":                                      time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
		"html":                                        "<a href='x'>&\u2028",
	} {
		t.Run(name, func(t *testing.T) {
			b, err := spool.JSON{}.Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			back := reflect.New(reflect.TypeOf(v))
			if err := (spool.JSON{}).Decode(b, back.Interface()); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(back.Elem().Interface(), v) {
				t.Fatalf("%#v came back as %#v", v, back.Elem())
			}
		})
	}
}

func TestJSONRefusesAPayloadThatIsNotUTF8(t *testing.T) {
	var s string
	if err := (spool.JSON{}).Decode([]byte("\"a\xff\""), &s); err == nil {
		t.Fatalf("it became %q", s)
	}
}

// reverse is a codec whose bytes JSON cannot read.
type reverse struct{ name string }

func (r reverse) Name() string { return r.name }

func (r reverse) Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	return flip(b), err
}

func (r reverse) Decode(b []byte, v any) error { return json.Unmarshal(flip(b), v) }

func flip(b []byte) []byte {
	out := make([]byte, len(b))
	for i, c := range b {
		out[len(b)-1-i] = c
	}
	return out
}

func TestAJobIsDecodedByTheCodecThatItNames(t *testing.T) {
	bubbleWith(t, spool.Config{Codecs: []spool.Codec{reverse{"new"}, reverse{"old"}}}, func(b *bench) {
		old := spool.New(b.broker, spool.Config{Codecs: []spool.Codec{reverse{"old"}}})
		plain := spool.New(b.broker, spool.Config{})
		var got []string
		task := spool.DefineFunc[string, int]("t")
		for _, c := range []*spool.Client{old, plain, b.Client} {
			_, err := task.Enqueue(b.ctx, c, "in", kept)
			b.must(err)
		}
		b.add(spool.Raw("t", []byte(`"raw"`), kept)) // without spool.codec: JSON
		b.drain(spool.WorkerConfig{Concurrency: 1}, func(w *spool.Worker) {
			task.Handle(w, func(ctx context.Context, in string) (int, error) {
				got = append(got, spool.LeaseFrom(ctx).Job.Headers["spool.codec"]+" "+in)
				return 12, nil
			})
		})
		want(b, "decoded", strings.Join(got, ","), "old in,json in,new in, raw")
		for j, err := range b.List(b.ctx, spool.Filter{}) {
			b.must(err)
			out, err := task.Await(b.ctx, b.Client, j.ID)
			b.must(err)
			want(b, "result", out, 12)
			want(b, "version header", j.Headers["spool.version"], "1")
			stored := map[string]string{"": "12", "json": "12", "old": "21", "new": "21"}
			want(b, "stored result", string(j.Result), stored[j.Headers["spool.codec"]])
		}
	})
}

func TestAResultOfRawArgumentsUsesTheFirstCodec(t *testing.T) {
	bubbleWith(t, spool.Config{Codecs: []spool.Codec{reverse{"secret"}}}, func(b *bench) {
		task := spool.DefineFunc[[]byte, string]("t")
		p, err := task.Enqueue(b.ctx, b.Client, []byte("\x00\xff"))
		b.must(err)
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
			task.Handle(w, func(_ context.Context, in []byte) (string, error) { return "abc", nil })
		})
		want(b, "stored result", string(b.job(p.ID).Result), `"cba"`)
		out, err := p.Await(b.ctx)
		b.must(err)
		want(b, "result", out, "abc")
	})
}

func TestBytesAreStoredAsTheyAre(t *testing.T) {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	for name, payload := range map[string][]byte{
		"every byte": all, "empty": {}, "nil": nil, "not UTF-8": {0xff, 0xfe}, "a large integer": []byte("9007199254740993"),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				task := spool.DefineFunc[[]byte, []byte]("t")
				typed, err := task.Enqueue(b.ctx, b.Client, payload)
				b.must(err)
				raw := b.add(spool.Raw("t", payload))
				runs := 0
				b.drain(spool.WorkerConfig{Concurrency: 1}, func(w *spool.Worker) {
					task.Handle(w, func(_ context.Context, in []byte) ([]byte, error) {
						runs++
						if !bytes.Equal(in, payload) {
							b.Errorf("%x came back as %x", payload, in)
						}
						return in, nil
					})
				})
				want(b, "runs", runs, 2)
				for _, id := range []spool.ID{typed.ID, raw} {
					out, err := task.Await(b.ctx, b.Client, id)
					b.must(err)
					if !bytes.Equal(out, payload) {
						b.Fatalf("result %x, want %x", out, payload)
					}
				}
			})
		})
	}
}

type brokenCodec struct{ spool.JSON }

func (brokenCodec) Name() string               { return "broken" }
func (brokenCodec) Encode(any) ([]byte, error) { panic("cannot") }
func (brokenCodec) Decode([]byte, any) error   { panic("cannot either") }

func TestWhatDoesNotDecodeIsAFailedAttempt(t *testing.T) {
	for _, c := range []struct {
		name   string
		add    func(b *bench) spool.ID
		errors []string
	}{
		{"garbage", func(b *bench) spool.ID { return b.add(spool.Raw("t", []byte("{"))) }, []string{"decode", "json"}},
		{"nothing", func(b *bench) spool.ID { return b.add(spool.Raw("t", nil)) }, []string{"decode"}},
		{"another type", func(b *bench) spool.ID { return b.add(spool.Define[string]("t").With("x")) }, []string{"cannot unmarshal string"}},
		{"raw bytes for a type", func(b *bench) spool.ID { return b.add(spool.Define[[]byte]("t").With([]byte("{}"))) }, []string{"raw bytes"}},
		{"not UTF-8", func(b *bench) spool.ID { return b.add(spool.Raw("t", []byte("{\"N\":\"\xff\"}"))) }, []string{"UTF-8"}},
		{"an unknown codec", func(b *bench) spool.ID {
			c := spool.New(b.broker, spool.Config{Codecs: []spool.Codec{reverse{"gone"}}})
			e, err := spool.Define[number]("t").Enqueue(b.ctx, c, number{1})
			b.must(err)
			return e.ID
		}, []string{"no codec", "gone"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(b *bench) {
				id := c.add(b)
				b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
					spool.Define[number]("t").Handle(w, func(context.Context, number) error {
						b.Error("the handler was called")
						return nil
					})
				})
				j := b.wantState(id, spool.Scheduled)
				wantText(b, j.Error, c.errors...)
				want(b, "attempts", j.Attempt, 1)
				want(b, "failures", j.Failures, 1)
			})
		})
	}
}

func TestAJobWithoutArgumentsNeedsNoPayload(t *testing.T) {
	bubble(t, func(b *bench) {
		id := b.add(spool.Raw("sweep", nil, kept))
		b.drain(spool.WorkerConfig{}, func(w *spool.Worker) {
			spool.Define[struct{}]("sweep").Handle(w, func(context.Context, struct{}) error { return nil })
		})
		b.wantState(id, spool.Done)
	})
}

func TestACodecThatPanicsRefusesTheJob(t *testing.T) {
	bubbleWith(t, spool.Config{Codecs: []spool.Codec{brokenCodec{}}}, func(b *bench) {
		_, err := spool.Define[int]("t").Enqueue(b.ctx, b.Client, 1)
		b.wantErr(err, spool.ErrInvalid)
		wantText(b, err.Error(), "cannot")
	})
}

func TestNewRefusesBadCodecNames(t *testing.T) {
	for name, codecs := range map[string][]spool.Codec{
		"raw":   {reverse{"raw"}},
		"empty": {reverse{""}},
		"twice": {reverse{"a"}, reverse{"a"}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Fatal("New took it")
				}
			}()
			spool.New(membroker.New(membroker.Config{}), spool.Config{Codecs: codecs})
		})
	}
}
