package limit

import (
	"encoding/json"
	"math/bits"
	"strings"
	"testing"
	"time"
)

func TestParseRateReads(t *testing.T) {
	for _, c := range []struct {
		text string
		want Rate
		back string
	}{
		{"10/s", Rate{Count: 10, Per: time.Second}, "10/s"},
		{"100/m", Rate{Count: 100, Per: time.Minute}, "100/m"},
		{"1000/h", Rate{Count: 1000, Per: time.Hour}, "1000/h"},
		{"5/d", Rate{Count: 5, Per: 24 * time.Hour}, "5/d"},
		{"0.5/s", Rate{Count: 1, Per: 2 * time.Second}, "1/2s"},
		{"10/30s", Rate{Count: 10, Per: 30 * time.Second}, "10/30s"},
		{"10/1s", Rate{Count: 10, Per: time.Second}, "10/s"},
		{"1/3650d", Rate{Count: 1, Per: MaxPer}, "1/3650d"},
		{"0.5/1825d", Rate{Count: 1, Per: MaxPer}, "1/3650d"},
		{"1/s burst 1000", Rate{Count: 1, Per: time.Second, Burst: 1000}, "1/s burst 1000"},
		{"1000000/s burst 1000000000", Rate{Count: 1e6, Per: time.Second, Burst: 1e9}, "1000000/s burst 1000000000"},
		{"10/60s", Rate{Count: 10, Per: time.Minute}, "10/m"},
		{"1/24h", Rate{Count: 1, Per: 24 * time.Hour}, "1/d"},
		{"1/90m", Rate{Count: 1, Per: 90 * time.Minute}, "1/90m"},
		{"7/250ms", Rate{Count: 7, Per: 250 * time.Millisecond}, "7/250ms"},
		{"7/us", Rate{Count: 7, Per: time.Microsecond}, "7/us"},
		{"7/3ns", Rate{Count: 7, Per: 3}, "7/3ns"},
		{"10.0/s", Rate{Count: 10, Per: time.Second}, "10/s"},
		{"1.5/s", Rate{Count: 3, Per: 2 * time.Second, Burst: 2}, "3/2s burst 2"},
		{"10.001/s", Rate{Count: 10001, Per: 1000 * time.Second, Burst: 11}, "10001/1000s burst 11"},
		{"0.000000001/s", Rate{Count: 1, Per: 1e9 * time.Second}, ""},
		{"0.2/365d", Rate{Count: 1, Per: 5 * 365 * 24 * time.Hour}, "1/1825d"},
		{"1000000/d", Rate{Count: 1e6, Per: 24 * time.Hour}, "1000000/d"},
		{"1000000000/s", Rate{Count: 1e9, Per: time.Second}, "1000000000/s"},
		{"010/s", Rate{Count: 10, Per: time.Second}, "10/s"},
		{"10/s burst 20", Rate{Count: 10, Per: time.Second, Burst: 20}, "10/s burst 20"},
		{"10/s burst 10", Rate{Count: 10, Per: time.Second}, "10/s"},
		{"0.5/s burst 1", Rate{Count: 1, Per: 2 * time.Second}, "1/2s"},
	} {
		t.Run(c.text, func(t *testing.T) {
			if c.back == "" { // slower than one in ten years
				if _, err := ParseRate(c.text); err == nil {
					t.Error("accepted")
				}
				return
			}
			r, err := ParseRate(c.text)
			if err != nil || r != c.want {
				t.Fatalf("got %+v, %v, want %+v", r, err, c.want)
			}
			if got := r.String(); got != c.back {
				t.Errorf("its text is %q, want %q", got, c.back)
			}
			if again, err := ParseRate(r.String()); again != r || err != nil {
				t.Errorf("%q reads as %+v, %v, want %+v", r, again, err, r)
			}
		})
	}
}

func TestParseRateRefuses(t *testing.T) {
	for _, c := range []struct{ name, text, says string }{
		{"nothing", "", "is empty"},
		{"a count alone", "10", "no slash"},
		{"a period alone", "/s", `count "" is not a number above 0`},
		{"no period", "10/", `period "" is unknown`},
		{"zero", "0/s", "is zero, it must be above 0"},
		{"zero with a fraction", "0.000/s", "is zero"},
		{"a negative count", "-1/s", "not a number above 0"},
		{"a sign", "+1/s", "not a number above 0"},
		{"NaN", "NaN/s", "not a number above 0"},
		{"Inf", "Inf/s", "not a number above 0"},
		{"negative infinity", "-Inf/s", "not a number above 0"},
		{"an exponent", "1e3/s", "not a number above 0"},
		{"a hexadecimal count", "0x10/s", "not a number above 0"},
		{"a count of words", "ten/s", "not a number above 0"},
		{"a point without digits after it", "1./s", "not a number above 0"},
		{"a point without digits before it", ".5/s", "not a number above 0"},
		{"two points", "1.2.3/s", "not a number above 0"},
		{"a comma", "1,5/s", "not a number above 0"},
		{"other digits", "١/s", "not a number above 0"},
		{"spaces", "10 / s", "not a number above 0"},
		{"a space before", " 10/s", "not a number above 0"},
		{"a space after", "10/s ", `period "s " is unknown`},
		{"an unknown unit", "10/w", `period "w" is unknown`},
		{"an upper-case unit", "10/S", "is unknown"},
		{"a zero period", "10/0s", "out of range"},
		{"a negative period", "10/-1s", "is unknown"},
		{"a fraction of a period", "10/1.5s", "is unknown"},
		{"two units", "10/1h30m", "is unknown"},
		{"a period above ten years", "10/3651d", "out of range"},
		{"a period that overflows", "10/99999999999999999999d", "out of range"},
		{"two slashes", "10/s/s", "is unknown"},
		{"a count above the largest", "1000000001/s", "at most 1000000000"},
		{"too many digits", "12345678901/s", "too many digits"},
		{"too fine a fraction", "1.0000000001/s", "too many digits"},
		{"a fraction that overflows", "9999999999.999999999/s", "at most 1000000000"},
		{"slower than once in ten years", "0.01/365d", "at most 3650d"},
		{"a burst that takes ages", "1/d burst 3651", "more than 3650 days"},
		{"a zero burst", "10/s burst 0", "burst"},
		{"a negative burst", "10/s burst -1", "burst"},
		{"a fraction of a burst", "10/s burst 1.5", "burst"},
		{"a signed burst", "10/s burst +5", "burst"},
		{"no burst after the word", "10/s burst ", "burst"},
		{"too large a burst", "10/s burst 1000000001", "burst"},
		{"a comma before the burst", "10/s, burst 5", "is unknown"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, err := ParseRate(c.text)
			if err == nil {
				t.Fatalf("accepted as %v", r)
			}
			for _, part := range []string{c.says, allowed} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q does not say %q", err, part)
				}
			}
			if r != (Rate{}) {
				t.Errorf("returned %+v beside the error", r)
			}
		})
	}
}

func TestValidateNamesTheField(t *testing.T) {
	edge, _ := bits.Mul64(MaxCount, uint64(MaxPer))
	for _, c := range []struct {
		name string
		rate Rate
		says string // "" means valid
	}{
		{"the zero rate", Rate{}, "count is 0"},
		{"a negative count", Rate{Count: -1, Per: 1}, "count is -1"},
		{"a count above the largest", Rate{Count: MaxCount + 1, Per: 1}, "allowed are 1 to 1000000000"},
		{"a limit without a period", Rate{Count: 1}, "period is 0s"},
		{"a negative period", Rate{Count: 1, Per: -time.Second}, "period is -1s"},
		{"a period above the largest", Rate{Count: 100, Per: MaxPer + 1, Burst: 1}, "period is"},
		{"a negative burst", Rate{Count: 1, Per: 1, Burst: -1}, "burst is -1"},
		{"a burst above the largest", Rate{Count: 1, Per: 1, Burst: MaxCount + 1}, "burst is 1000000001"},
		{"a burst of more than ten years", Rate{Count: 1, Per: MaxPer / 2, Burst: 3}, "3650 days"},
		{"a burst of far more", Rate{Count: 1, Per: MaxPer, Burst: MaxCount}, "3650 days"},
		{"a burst whose time is just above 2^64 ns", Rate{Count: int(edge), Per: MaxPer, Burst: MaxCount}, "3650 days"},
		{"the slowest", Rate{Count: 1, Per: MaxPer}, ""},
		{"the fastest", Rate{Count: MaxCount, Per: 1}, ""},
		{"the fastest with the least burst", Rate{Count: MaxCount, Per: 1, Burst: 1}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := c.rate.Validate()
			if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want %q in it", err, c.says)
			}
		})
	}
}

func TestARateIsTextInJSON(t *testing.T) {
	b, err := json.Marshal(map[string]Rate{"rate": {Count: 10, Per: 30 * time.Second}})
	if err != nil || string(b) != `{"rate":"10/30s"}` {
		t.Fatalf("got %s, %v", b, err)
	}
	var back map[string]Rate
	if err := json.Unmarshal(b, &back); err != nil || back["rate"] != (Rate{Count: 10, Per: 30 * time.Second}) {
		t.Errorf("got %v, %v", back, err)
	}
	if err := json.Unmarshal([]byte(`{"rate":"0/s"}`), &back); err == nil {
		t.Error("a rate of zero was accepted")
	}
}

func FuzzParseRate(f *testing.F) {
	for _, s := range []string{"10/s", "0.5/s", "100/m", "10/30s", "1.000000001/d", "10/s burst 20", "NaN/s", "9999999999.999999999/3650d", "1/", "\x00/\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRate(s)
		if err != nil {
			if r != (Rate{}) || !strings.Contains(err.Error(), "allowed is") {
				t.Fatalf("%q: %+v, %v", s, r, err)
			}
			return
		}
		if err := r.Validate(); err != nil {
			t.Fatalf("%q is read as %+v, which is not valid: %v", s, r, err)
		}
		if again, err := ParseRate(r.String()); err != nil || again != r {
			t.Fatalf("%q is %+v, %q is %+v, %v", s, r, r.String(), again, err)
		}
		// Whatever was read can be used.
		st, _, ok := r.Allow(State{}, 0, r.burst())
		if !ok {
			t.Fatalf("%v: a full bucket refuses its burst", r)
		}
		_, wait, ok := r.Allow(st, 0, 1)
		if ok || wait <= 0 {
			t.Fatalf("%v: an empty bucket answers %v, %v", r, wait, ok)
		}
		if _, _, ok := r.Allow(st, int64(wait), 1); !ok {
			t.Fatalf("%v: refused after the wait", r)
		}
	})
}
