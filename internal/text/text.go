// Package text writes what people are shown, by the spool command and the dashboard: bytes that may
// be anything, made safe for a terminal and cut; times, spans, sizes and counts
// that can be read at a glance.
package text

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Head returns the start of b, at most max characters wide, safe to print on a
// terminal: control characters, marks that change the direction of writing and
// bytes that are no UTF-8 are shown as escapes (\n, \x1b, \u202e). What was cut
// is said at the end: "… (2.1 KiB)". It is for eyes: text that holds a
// backslash looks like an escape, and only --json is exact.
func Head(b []byte, max int) string {
	var s strings.Builder
	width := 0
	for rest := b; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		piece := escape(r, rest[:n])
		w := utf8.RuneCountInString(piece)
		if width+w > max {
			fmt.Fprintf(&s, "… (%s)", Bytes(int64(len(b))))
			return s.String()
		}
		s.WriteString(piece)
		width += w
		rest = rest[n:]
	}
	return s.String()
}

// Safe is Head of a string without a cut.
func Safe(s string) string { return Head([]byte(s), len(s)*10) }

// escape returns r as it may be printed. raw are the bytes it was read from.
func escape(r rune, raw []byte) string {
	switch {
	case r == utf8.RuneError && len(raw) == 1:
		return fmt.Sprintf(`\x%02x`, raw[0])
	case unicode.IsPrint(r):
		return string(raw)
	default:
		q := strconv.QuoteRuneToASCII(r)
		return q[1 : len(q)-1]
	}
}

// Line is Safe for a text of several lines: each is made safe, and the line
// ends stay, with the given indent before every line but the first.
func Line(s, indent string) string {
	lines := strings.Split(strings.TrimRight(s, "\n"), "\n")
	for i := range lines {
		lines[i] = Safe(strings.ReplaceAll(strings.TrimSuffix(lines[i], "\r"), "\t", "    "))
	}
	return strings.Join(lines, "\n"+indent)
}

// Page is Safe for what is printed as a whole: line ends and tabs stay.
func Page(s string) string {
	var b strings.Builder
	for i, w := 0, 0; i < len(s); i += w {
		var r rune
		if r, w = utf8.DecodeRuneInString(s[i:]); r == '\n' || r == '\t' {
			b.WriteRune(r)
		} else {
			b.WriteString(escape(r, []byte(s[i:i+w])))
		}
	}
	return b.String()
}

// JSON escapes what a terminal may act on and encoding/json leaves as it is, in
// JSON, where it can only stand in strings: the value stays the same.
func JSON(b []byte) []byte {
	if bytes.IndexFunc(b, acts) < 0 {
		return b
	}
	var out []byte
	for _, r := range string(b) {
		if acts(r) {
			out = fmt.Appendf(out, `\u%04x`, r)
		} else {
			out = utf8.AppendRune(out, r)
		}
	}
	return out
}

// acts says whether a terminal may act on a character that JSON need not escape:
// DEL, those of C1, those that change the direction of writing.
func acts(r rune) bool {
	return r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

// Bytes returns a size: "812 B", "1.5 KiB", "64.0 MiB".
func Bytes(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/(1<<10), 0
	for f >= 1024 && unit < 3 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[unit])
}

// Count returns a number with its thousands apart: "12,345".
func Count(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural returns "1 job", "2 jobs".
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}

// Span returns a duration in its two largest units: "3d4h", "2m5s", "1.5s",
// "12ms".
func Span(d time.Duration) string {
	if d < 0 {
		return "-" + Span(-d)
	}
	switch {
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	d = d.Round(time.Second)
	day := 24 * time.Hour
	switch {
	case d < time.Minute:
		return d.String()
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "m")
	default:
		return two(d, day, "d", time.Hour, "h")
	}
}

func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	s := strconv.FormatInt(int64(d/big), 10) + bigName
	if rest := d % big / small; rest > 0 {
		s += strconv.FormatInt(int64(rest), 10) + smallName
	}
	return s
}

// Ago returns how far t is from now: "5m2s ago", "in 3s", "now"; "-" for the
// zero time.
func Ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return "-"
	case d > -time.Millisecond && d < time.Millisecond:
		return "now"
	case d < 0:
		return "in " + Span(-d)
	default:
		return Span(d) + " ago"
	}
}

// When returns t as both a moment, in the location of now, and its distance
// from now: "2026-11-30 03:52:32 +00:00 (5m2s ago)"; "-" for the zero time.
func When(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.In(now.Location()).Format("2006-01-02 15:04:05 -07:00") + " (" + Ago(t, now) + ")"
}
