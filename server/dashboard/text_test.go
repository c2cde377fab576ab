package dashboard

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestCauses(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"numbers are taken out", "row 17: line 230 of 9", "row #: line # of #"},
		{"a number with its unit", "timeout after 31ms", "timeout after #ms"},
		{"a number of any length", "timeout after 3100ms", "timeout after #ms"},
		{"an address", "dial tcp 10.0.3.9:587: refused", "dial tcp #: refused"},
		{"an id", "no order 01890a5d-ac96-774b-bcce-b302099a8057 here", "no order # here"},
		{"a checksum", "bad sum 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b", "bad sum #"},
		{"what stands in quotes", `mailbox "ada@example.com" or ` + "`x`" + ` is full`, "mailbox “…” or “…” is full"},
		{"a status stays", "smtp: 550 mailbox full, status 404, HTTP 503", "smtp: 550 mailbox full, status 404, HTTP 503"},
		{"an instant", "at 2026-11-30T15:04:05Z it broke", "at # it broke"},
		{"the first line that is not empty", "\n\n  boom\nstack 1\n", "boom"},
		{"words without numbers stay", "permission denied: open the-door", "permission denied: open the-door"},
		{"no text", "", "(no error text)"},
		{"blanks alone", " \n\t\n", "(no error text)"},
		{"bytes that are no UTF-8", "Caf\xe9 closed", `Caf\xe# closed`},
		{"letters of any script", "błąd 12: 日本 3", "błąd #: 日本 #"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := causeOf(c.text); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
	long := causeOf(strings.Repeat("long words ", 10_000))
	if utf8.RuneCountInString(long) > causeChars+1 {
		t.Errorf("a cause has %d characters", utf8.RuneCountInString(long))
	}
}

func FuzzCause(f *testing.F) {
	for _, h := range hostile {
		f.Add(h)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c := causeOf(s)
		if !utf8.ValidString(c) || c == "" || strings.ContainsAny(c, "\n\x00") {
			t.Errorf("causeOf(%q) is %q", s, c)
		}
	})
}

// FuzzContent: whatever the bytes, what is shown is bounded text.
func FuzzContent(f *testing.F) {
	for _, h := range hostile {
		f.Add([]byte(h))
	}
	f.Add([]byte(`{"b":1,"a":[1e999,12345678901234567890,{"<":"\u2028"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := contentOf(b)
		if !utf8.ValidString(c.Text) || len(c.Text) > 1<<20 || strings.ContainsAny(c.Text, "\x00\r\u2028\u202e") {
			t.Errorf("contentOf(%q) is %q", b, c.Text)
		}
		if c.Kind == "JSON" && !json.Valid(b) {
			t.Errorf("%q is shown as JSON", b)
		}
	})
}

func TestPayloadsAreShownUnaltered(t *testing.T) {
	for _, c := range []struct{ name, in, kind, want string }{
		{"keys keep their order, and may come twice", `{"b":1,"a":2,"b":3}`, "JSON", "{\n  \"b\": 1,\n  \"a\": 2,\n  \"b\": 3\n}"},
		{"numbers keep their digits", `[9007199254740993,1.0,1e400,-0]`, "JSON", "[\n  9007199254740993,\n  1.0,\n  1e400,\n  -0\n]"},
		{"strings keep their escapes", `{"x":"\u003c<é\/"}`, "JSON", "{\n  \"x\": \"\\u003c<é\\/\"\n}"},
		{"text stays", "a\tb\nc", "text", "a\tb\nc"},
		{"what is not quite JSON is text", `{"a":1,}`, "text", `{"a":1,}`},
		{"a control is an escape", "a\x1b[2Jb, and more text to it", "text", `a\x1b[2Jb, and more text to it`},
		{"bytes are hex", "\xcb)\n", "bytes", "00000000  cb 29 0a                                          |.).|"},
		{"nothing", "", "empty", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := contentOf([]byte(c.in)); got.Kind != c.kind || got.Text != c.want || got.Size != int64(len(c.in)) {
				t.Errorf("got %+v, want %s %q", got, c.kind, c.want)
			}
		})
	}
	half := contentOf([]byte(strings.Repeat("x", maxShown-1) + "é and more"))
	if half.Kind != "text" || half.Cut == "" || strings.ContainsRune(half.Text, '\ufffd') || strings.Contains(half.Text, `\x`) {
		t.Errorf("a character at the cut: %s, %q", half.Kind, half.Text[len(half.Text)-10:])
	}
}

func TestAges(t *testing.T) {
	for text, want := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "2h": 2 * time.Hour, "3d": 72 * time.Hour, "1d12h": 36 * time.Hour, " 5m ": 5 * time.Minute, "0.5d": 12 * time.Hour} {
		if got, err := age(text); err != nil || got != want {
			t.Errorf("age(%q) is %v, %v; want %v", text, got, err, want)
		}
	}
	for _, bad := range []string{"soon", "-1h", "5", "d", "-3d", "1e9d", "3dx", "NaNd", "<script>"} {
		if got, err := age(bad); err == nil {
			t.Errorf("age(%q) is %v", bad, got)
		}
	}
}

func TestTexts(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	for want, got := range map[string]string{
		"5m ago": ago(at.Add(-5*time.Minute), at), "in 3s": ago(at.Add(3*time.Second), at), "now": ago(at, at), "": ago(time.Time{}, at),
		"ab…": head("abc", 2), "abc": head("abc", 3), `\x00\n`: head("\x00\n", 20),
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
