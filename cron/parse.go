package cron

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// MaxExprBytes is the longest expression that Parse reads. The longest that
// means something, every value of every field, has under 600.
const MaxExprBytes = 1024

// ParseError says what is wrong with an expression. It is returned by Parse and
// New.
type ParseError struct {
	Expr   string // what was parsed, cut after 64 bytes
	Field  string // the field's name; "" when the fault is of the whole
	Pos    int    // the byte at which the fault is, from 1
	Reason string // what is wrong, and what is allowed
}

// Error implements error. What came from the expression is quoted.
func (e *ParseError) Error() string {
	where := fmt.Sprintf("position %d", e.Pos)
	if e.Field != "" {
		where = e.Field + " at " + where
	}
	return fmt.Sprintf("cron expression %q: %s: %s", e.Expr, where, e.Reason)
}

// Parse reads an expression as the package comment describes it. The error is a
// *ParseError. An expression that never fires is parsed; see Expr.Fires.
func Parse(text string) (Expr, error) {
	p := &parser{text: text}
	if len(text) > MaxExprBytes {
		return Expr{}, p.fault("", MaxExprBytes, "it has %d bytes; allowed are 1 to %d", len(text), MaxExprBytes)
	}
	words := split(text)
	if len(words) == 0 {
		return Expr{}, p.fault("", 0, "it is empty; allowed are 5 fields (%s), 6 with second in front, or @hourly, @every 90s and the like", fiveNames)
	}
	first := strings.ToUpper(words[0].text)
	if strings.HasPrefix(first, "TZ=") || strings.HasPrefix(first, "CRON_TZ=") {
		return Expr{}, p.fault("", words[0].at, "a zone is not part of an expression; give it by the schedule's zone option")
	}
	if first[0] == '@' {
		return p.short(words)
	}
	return p.fields(words)
}

var fiveNames = "minute, hour, day of month, month, day of week"

// word is a part of an expression between blanks.
type word struct {
	text string
	at   int // of its first byte, from 0
}

func split(text string) (words []word) {
	for at := 0; at < len(text); {
		if blank(text[at]) {
			at++
			continue
		}
		end := at + 1
		for end < len(text) && !blank(text[end]) {
			end++
		}
		words = append(words, word{text[at:end], at})
		at = end
	}
	return words
}

func blank(c byte) bool { return c == ' ' || c == '\t' }

type parser struct{ text string }

// fault is a ParseError for the byte at (from 0).
func (p *parser) fault(field string, at int, reason string, args ...any) error {
	return &ParseError{Expr: cut(p.text, 64), Field: field, Pos: at + 1, Reason: fmt.Sprintf(reason, args...)}
}

// cut keeps n bytes of s at most, and says that it did.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

var shorts = map[string]string{
	"@yearly":   "0 0 1 1 *",
	"@annually": "0 0 1 1 *",
	"@monthly":  "0 0 1 * *",
	"@weekly":   "0 0 * * 0",
	"@daily":    "0 0 * * *",
	"@midnight": "0 0 * * *",
	"@hourly":   "0 * * * *",
}

// short reads the forms that start with @.
func (p *parser) short(words []word) (Expr, error) {
	name := strings.ToLower(words[0].text)
	if name == "@every" {
		return p.interval(words[1:])
	}
	text, ok := shorts[name]
	if !ok {
		return Expr{}, p.fault("", words[0].at, "%q is unknown; allowed are @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly and @every with a duration", cut(words[0].text, 32))
	}
	if len(words) > 1 {
		return Expr{}, p.fault("", words[1].at, "nothing may follow %s", name)
	}
	return p.fields(split(text))
}

func (p *parser) interval(words []word) (Expr, error) {
	if len(words) != 1 {
		at := len(p.text)
		if len(words) > 1 {
			at = words[1].at
		}
		return Expr{}, p.fault("interval", at, "one duration belongs after @every, such as 90s, 15m or 1h30m")
	}
	d, err := time.ParseDuration(words[0].text)
	if err != nil {
		return Expr{}, p.fault("interval", words[0].at, "%q is no duration; allowed are numbers with the units h, m, s and ms, such as 90s, 15m or 1h30m", cut(words[0].text, 32))
	}
	e, err := Every(d)
	if err != nil {
		return Expr{}, p.fault("interval", words[0].at, "%s", strings.TrimPrefix(err.Error(), "cron: interval "))
	}
	return e, nil
}

// fields reads the five or six fields.
func (p *parser) fields(words []word) (Expr, error) {
	switch n := len(words); {
	case n == 5:
		words = slices.Insert(words, 0, word{"0", 0})
	case n < 5:
		return Expr{}, p.fault("", len(p.text), "it has %d of the 5 fields (%s); with second in front there are 6", n, fiveNames)
	case n > 6:
		return Expr{}, p.fault("", words[6].at, "it has %d fields; allowed are 5 (%s), or 6 with second in front", n, fiveNames)
	}
	var e Expr
	for f, w := range words {
		r := reader{p: p, f: f, text: w.text, base: w.at}
		if err := r.list(&e); err != nil {
			return Expr{}, err
		}
	}
	e.star &^= 1<<second | 1<<month
	e.last = e.last && e.sets[dayOfMonth] != fields[dayOfMonth].full()
	return e, nil
}

// reader reads one field.
type reader struct {
	p    *parser
	f    int    // which field
	text string // of the field
	base int    // where it starts in the expression
	at   int    // how far it is read
}

func (r *reader) spec() *field { return &fields[r.f] }

// fault is an error about the byte at of the field.
func (r *reader) fault(at int, reason string, args ...any) error {
	return r.p.fault(r.spec().name, r.base+at, "%s; allowed are %s", fmt.Sprintf(reason, args...), r.spec().allowed)
}

// peek is the next byte; 0 at the end.
func (r *reader) peek() byte {
	if r.at == len(r.text) {
		return 0
	}
	return r.text[r.at]
}

// take steps over c, if it is next.
func (r *reader) take(c byte) bool {
	if r.at == len(r.text) || r.text[r.at] != c {
		return false
	}
	r.at++
	return true
}

func (r *reader) list(e *Expr) error {
	for {
		if err := r.item(e); err != nil {
			return err
		}
		if r.at == len(r.text) {
			return nil
		}
		if !r.take(',') {
			return r.unexpected()
		}
	}
}

// unexpected is an error about the character that is next.
func (r *reader) unexpected() error {
	if r.at == len(r.text) {
		return r.fault(r.at, "a value is missing")
	}
	c, _ := utf8.DecodeRuneInString(r.text[r.at:])
	return r.fault(r.at, "%q is not expected here", c)
}

// item reads *, a value or a range, with or without a step.
func (r *reader) item(e *Expr) error {
	spec, start := r.spec(), r.at
	if r.f == dayOfMonth && (r.peek() == 'L' || r.peek() == 'l') {
		r.at++
		e.last = true
		return nil
	}
	lo, hi, open := spec.min, spec.max, true
	if r.peek() == '*' || r.peek() == '?' {
		r.at++
		if start == 0 {
			e.star |= 1 << r.f
		}
	} else {
		var err error
		if lo, hi, open, err = r.interval(); err != nil {
			return err
		}
	}
	n := 1
	if r.take('/') {
		var err error
		if n, err = r.step(); err != nil {
			return err
		}
		if open {
			hi = max(hi, spec.max)
		}
	}
	for v := lo; v <= hi; v += n {
		if v > spec.max {
			e.sets[r.f] |= 1 << spec.min // 7 is Sunday
		} else {
			e.sets[r.f] |= 1 << v
		}
	}
	return nil
}

// interval reads a value, which a step leaves open to the field's end, or a range.
func (r *reader) interval() (lo, hi int, open bool, err error) {
	start := r.at
	if lo, _, err = r.value(); err != nil {
		return 0, 0, false, err
	}
	if !r.take('-') {
		if lo > r.spec().max {
			lo = r.spec().min // 7 is Sunday
		}
		return lo, lo, true, nil
	}
	hi, named, err := r.value()
	if err != nil {
		return 0, 0, false, err
	}
	if named && r.f == dayOfWeek && hi == 0 && lo > 0 {
		hi = 7 // as in SAT-SUN
	}
	if lo > hi {
		text := r.text[start:r.at]
		return 0, 0, false, r.fault(start, "the range %s runs backwards, as %s it would not", text, r.forwards(lo, text))
	}
	return lo, hi, false, nil
}

// forwards writes a range from lo that runs backwards as what was meant: past the
// field's end, and on from its beginning.
func (r *reader) forwards(lo int, text string) string {
	spec := r.spec()
	from, to, _ := strings.Cut(text, "-")
	least, most := strconv.Itoa(spec.min), strconv.Itoa(spec.max)
	if spec.names != nil {
		least, most = spec.names[0], spec.names[len(spec.names)-1]
	}
	if lo > spec.max {
		return least + "-" + to // from 7, which is Sunday
	}
	return from + "-" + most + "," + least + "-" + to
}

// value reads a number or a name.
func (r *reader) value() (v int, named bool, err error) {
	spec, start := r.spec(), r.at
	if word := r.run(letter); word != "" {
		i := slices.Index(spec.names, strings.ToUpper(word))
		if i < 0 {
			return 0, false, r.fault(start, "%q is unknown", cut(word, 32))
		}
		return spec.min + i, true, nil
	}
	v, err = r.number()
	if err == nil && (v < spec.min || v > spec.top) {
		err = r.fault(start, "%s is out of range", cut(r.text[start:r.at], 32))
	}
	return v, false, err
}

// step reads what follows a slash.
func (r *reader) step() (int, error) {
	start, spec := r.at, r.spec()
	n, err := r.number()
	if err == nil && (n < 1 || n > spec.size()) {
		err = r.p.fault(spec.name, r.base+start, "a step of %s is out of range; allowed are 1 to %d (for other paces there is @every)", cut(r.text[start:r.at], 32), spec.size())
	}
	return n, err
}

// number reads ASCII digits; what does not fit becomes a number that no field
// allows.
func (r *reader) number() (n int, err error) {
	digits := r.run(digit)
	if digits == "" {
		return 0, r.unexpected()
	}
	for i := range len(digits) {
		n = min(10*n+int(digits[i]-'0'), 1000)
	}
	return n, nil
}

// run reads the bytes that are of a class.
func (r *reader) run(is func(byte) bool) string {
	start := r.at
	for r.at < len(r.text) && is(r.text[r.at]) {
		r.at++
	}
	return r.text[start:r.at]
}

func letter(c byte) bool { return c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' }

func digit(c byte) bool { return c >= '0' && c <= '9' }
