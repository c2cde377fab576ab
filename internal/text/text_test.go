package text

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

func TestHead(t *testing.T) {
	for _, c := range []struct {
		name, in string
		max      int
		want     string
	}{
		{"plain text stays", `{"to":"ada@example.com"}`, 80, `{"to":"ada@example.com"}`},
		{"letters of any script stay", "żółć 日本", 80, "żółć 日本"},
		{"an escape sequence is shown, not obeyed", "\x1b[2Jgone", 80, `\x1b[2Jgone`},
		{"line ends are shown", "a\r\n\tb", 80, `a\r\n\tb`},
		{"a mark that turns the writing is shown", "a\u202eb\u2066c", 80, `a\u202eb\u2066c`},
		{"a line separator is shown", "a\u2028b", 80, `a\u2028b`},
		{"C1 controls are shown", "a\u009bb", 80, `a\u009bb`},
		{"a no-break space is shown", "a\u00a0b", 80, `a\u00a0b`},
		{"bytes that are no UTF-8 are shown", "\xcb)\n\xff", 80, `\xcb)\n\xff`},
		{"the replacement character itself stays", "\ufffd", 80, "\ufffd"},
		{"NUL is shown", "\x00", 80, `\x00`},
		{"what is cut is said", strings.Repeat("x", 3000), 5, "xxxxx… (2.9 KiB)"},
		{"an escape is not cut in its middle", "abc\x1bdef", 5, "abc… (7 B)"},
		{"exactly as long as allowed is not cut", "abcde", 5, "abcde"},
		{"nothing is nothing", "", 5, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Head([]byte(c.in), c.max); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func FuzzHead(f *testing.F) {
	f.Add([]byte("\x1b]0;title\x07\xff\u202e"), 10)
	f.Fuzz(func(t *testing.T, b []byte, max int) {
		max = int(uint(max) % 4096)
		got := Head(b, max)
		if !utf8.ValidString(got) {
			t.Fatalf("%q is not UTF-8", got)
		}
		for _, r := range got {
			if !unicode.IsPrint(r) {
				t.Fatalf("%q holds %U", got, r)
			}
		}
		if n := utf8.RuneCountInString(got); n > max+len("… (1023.9 GiB)") {
			t.Fatalf("%d characters, allowed are %d", n, max)
		}
	})
}

func TestLine(t *testing.T) {
	got := Line("panic: x\n\tmain.go:1\x1b[0m\n", "  ")
	if want := "panic: x\n      main.go:1\\x1b[0m"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestSpan(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0:                                     "0s",
		1500 * time.Nanosecond:                "2µs",
		12345 * time.Microsecond:              "12ms",
		1540 * time.Millisecond:               "1.5s",
		59 * time.Second:                      "59s",
		125 * time.Second:                     "2m5s",
		2 * time.Hour:                         "2h",
		26*time.Hour + 30*time.Minute:         "1d2h",
		-90 * time.Second:                     "-1m30s",
		59*time.Second + 700*time.Millisecond: "1m",
	} {
		if got := Span(d); got != want {
			t.Errorf("%v: got %q, want %q", d, got, want)
		}
	}
}

func TestAgoAndWhen(t *testing.T) {
	now := time.Date(2026, 11, 30, 3, 0, 0, 0, time.FixedZone("x", 3600))
	for _, c := range []struct {
		name      string
		t         time.Time
		ago, when string
	}{
		{"never", time.Time{}, "-", "-"},
		{"now", now, "now", "2026-11-30 03:00:00 +01:00 (now)"},
		{"past, in another zone", now.Add(-61 * time.Second).UTC(), "1m1s ago", "2026-11-30 02:58:59 +01:00 (1m1s ago)"},
		{"to come", now.Add(time.Hour), "in 1h", "2026-11-30 04:00:00 +01:00 (in 1h)"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := Ago(c.t, now); got != c.ago {
				t.Errorf("got %q, want %q", got, c.ago)
			}
			if got := When(c.t, now); got != c.when {
				t.Errorf("got %q, want %q", got, c.when)
			}
		})
	}
}

func TestNumbers(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", -1234567: "-1,234,567"} {
		if got := Count(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1536: "1.5 KiB", 64 << 20: "64.0 MiB", 5 << 40: "5.0 TiB"} {
		if got := Bytes(n); got != want {
			t.Errorf("%d: got %q, want %q", n, got, want)
		}
	}
	if got := Plural(1, "job", "jobs") + ", " + Plural(2000, "job", "jobs"); got != "1 job, 2,000 jobs" {
		t.Errorf("got %q", got)
	}
}

func TestAPageHasItsLinesAndControlsNothing(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\nc\n": "a\tb\nc\n", "\x1b[2J": `\x1b[2J`, "\x9b31m": `\x9b31m`, "\u009b": `\u009b`, "\r\x7f\u202e": `\r\x7f\u202e`, "ä 世 \ufffd": "ä 世 \ufffd", "": "",
	} {
		if got := Page(in); got != want {
			t.Errorf("%q is printed as %q, want %q", in, got, want)
		}
	}
}

func TestJSONForATerminalIsTheSameValue(t *testing.T) {
	for _, s := range []string{"plain", "ä 世", "\x1b[2J\u009b\x7f\u202e\u2066\u2069\u2028", "\u0080\u009f\u00a0"} {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		out := JSON(b)
		var back string
		if err := json.Unmarshal(out, &back); err != nil || back != s {
			t.Errorf("%q came back as %q from %s: %v", s, back, out, err)
		}
		if i := bytes.IndexFunc(out, acts); i >= 0 {
			t.Errorf("%q has a control at %d", out, i)
		}
	}
}
