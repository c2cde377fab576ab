package redisbroker

import (
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/fuzztest"
)

// recordOf is a job's record as a script shows it, made by hand: with a key and a
// batch in its extension, headers and a payload.
func recordOf() []byte {
	n := broker.NewJob{
		ID: broker.NewID(), Task: "t", Payload: []byte("payload"), Headers: map[string]string{"a": "b"}, Timeout: time.Second,
		Tenant: "x", Group: "g", Key: "k", BatchSize: 9999, Retain: time.Minute,
	}
	ext, body := packer(nil).ext(&n, make([]byte, 16))[2:], packer(nil).body(&n)[4:] // without their own lengths
	record := packer(nil).u8(byte(broker.Leased)<<5 | 5).u16(0)
	record = append(record, make([]byte, 3+4+7+12+7+7+7+7+7+4+4+4)...)
	record = record.u8(1).u8(1).u16(len(ext)).u32(0)
	record = append(append(append(record, "xg"...), ext...), body...)
	job := packer(nil).id(n.ID).text(record).text([]byte("t")).text([]byte("w"))
	return job.u16(2).u8('e').text([]byte("an error")).u8('p').text([]byte{50, 'h'})
}

// FuzzAnswer reads arbitrary bytes as what scripts answer: jobs, and jobs that move.
// No panic, and no room for what is not there.
func FuzzAnswer(f *testing.F) {
	job := recordOf()
	f.Add(job)
	moved := append(job, make([]byte, 2*(1+8))...)
	batch := packer(nil).u32(1)
	batch = append(append(batch, moved...), packer(nil).u32(0).u32(0).text(nil).u8(0)...)
	head := packer(nil).u64(1).u64(1).u64(0).u64(0).u64(1).u8(0)
	f.Add([]byte(head.text(batch)))
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzztest.Bound(t, func() {
			one := unpacker{b: b}
			one.job("q")
			many := unpacker{b: b}
			got, _ := many.moved("q")
			if len(got.Jobs)+len(got.Keys)+len(got.Signals) > len(b) && many.err == nil {
				t.Fatalf("%d jobs, %d keys and %d signals were read from %d bytes", len(got.Jobs), len(got.Keys), len(got.Signals), len(b))
			}
		})
	})
}

// TestABatchThatNobodyMadeTakesNoRoom: the size of a batch is a number that an
// answer states, and room is made for it.
func TestABatchThatNobodyMadeTakesNoRoom(t *testing.T) {
	record := recordOf()
	size := strings.Index(string(record), "\x00\x00\x27\x0f")
	if size < 0 {
		t.Fatal("the size of the batch is not where it was")
	}
	moved := append(record, make([]byte, 2*(1+8))...)
	whole := unpacker{b: moved}
	if j := whole.movedJob("q"); whole.err != nil || j.BatchSize != 9999 || len(j.Seen) != 157 {
		t.Fatalf("%+v, %v", j, whole.err)
	}
	copy(moved[size:], "\xff\xff\xff\xff")
	fuzztest.Bound(t, func() {
		u := unpacker{b: moved}
		if u.movedJob("q"); u.err == nil {
			t.Error("a batch of four thousand million members was read")
		}
	})
}

// FuzzURL reads arbitrary text as a broker's URL. What people are shown of it holds
// no password.
func FuzzURL(f *testing.F) {
	for _, url := range []string{
		"redis://user:secret@localhost:6379/2?namespace=x", "rediss://localhost", "unix://:secret@/run/redis.sock?db=1",
		"redis+sentinel://:secret@a:1,b:2/main/3", "redis+cluster://a:1,[::1]:2", "redis://:p%40ss@h", "redis://a@b@c", "redis://?",
	} {
		f.Add(url)
	}
	const secret = "kJ8hYq"
	f.Fuzz(func(t *testing.T, url string) {
		fuzztest.Bound(t, func() {
			got, err := parseURL(url)
			if err == nil && got == nil {
				t.Fatalf("%q is neither a target nor an error", url)
			}
			scheme, rest, ok := strings.Cut(url, "://")
			if !ok || strings.Contains(url, secret) {
				return
			}
			hidden := scheme + "://user:" + secret + "@" + rest
			if shown := Redacted(hidden); strings.Contains(shown, secret) {
				t.Fatalf("%q is shown as %q", hidden, shown)
			}
			if _, err := parseURL(hidden); err != nil && strings.Contains(err.Error(), secret) {
				t.Fatalf("the error about %q tells the password: %v", hidden, err)
			}
		})
	})
}
