package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Widths of what a list shows of a text, in characters.
const (
	headChars = 140
	tagChars  = 60
)

// safe returns bytes as text for a page: what is no UTF-8, what controls, and
// what turns the direction of writing becomes an escape (\x1b, \u202e). Line ends
// and tabs stay when lines is set.
func safe(s string, lines bool) string {
	var b strings.Builder
	b.Grow(len(s))
	for rest := s; rest != ""; {
		if c := rest[0]; c >= ' ' && c < 0x7f {
			b.WriteByte(c)
			rest = rest[1:]
			continue
		}
		r, n := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, rest[0])
		case unicode.IsPrint(r), lines && (r == '\n' || r == '\t'):
			b.WriteString(rest[:n])
		default:
			q := strconv.QuoteRuneToASCII(r)
			b.WriteString(q[1 : len(q)-1])
		}
		rest = rest[n:]
	}
	return b.String()
}

// head is the start of a text on one line, at most max characters. It looks at no
// more bytes than that takes.
func head(s string, max int) string {
	cut := false
	if len(s) > 4*max {
		s, cut = s[:4*max], true
	}
	s = safe(s, false)
	for i := range s {
		if max--; max < 0 {
			return s[:i] + "…"
		}
	}
	if cut {
		s += "…"
	}
	return s
}

// line is a short text, as a tenant or a name, on one line.
func line(s string) string { return head(s, tagChars) }

// blockText is a text of several lines, whole.
func blockText(s string) string { return safe(s, true) }

// firstLine is the first line of a text that is not empty.
func firstLine(s string) string {
	for l := range strings.Lines(s) {
		if l = strings.TrimSpace(l); l != "" {
			return l
		}
	}
	return ""
}
