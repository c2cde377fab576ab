package wire

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/spoolq/spool/broker"
)

// object appends the members of one JSON object. Members that are zero are left
// out. Strings that are not UTF-8 are kept for close, which writes "bytes".
type object struct {
	b    []byte
	more bool
	odd  []oddText
}

type oddText struct{ name, value string }

// open begins an object at the end of b.
func open(b []byte) object { return object{b: append(b, '{')} }

// close ends the object and returns all that was written.
func (o *object) close() []byte {
	if len(o.odd) > 0 {
		o.name("bytes")
		inner := open(o.b)
		for _, t := range o.odd {
			inner.base64(t.name, []byte(t.value))
		}
		o.b = inner.close()
	}
	return append(o.b, '}')
}

// name begins a member.
func (o *object) name(name string) {
	if o.more {
		o.b = append(o.b, ',')
	}
	o.more = true
	o.b, _ = jsontext.AppendQuote(o.b, name) // the error is of bad UTF-8, which it replaces
	o.b = append(o.b, ':')
}

// text writes a string that is not empty.
func (o *object) text(name, value string) {
	if value != "" {
		o.string(name, name, value)
	}
}

// string writes a string; odd is its name in "bytes".
func (o *object) string(name, odd, value string) {
	o.name(name)
	o.b, _ = jsontext.AppendQuote(o.b, value)
	if !utf8.ValidString(value) {
		o.odd = append(o.odd, oddText{odd, value})
	}
}

func (o *object) int(name string, value int64) {
	if value != 0 {
		o.name(name)
		o.b = strconv.AppendInt(o.b, value, 10)
	}
}

func (o *object) bool(name string, value bool) {
	if value {
		o.name(name)
		o.b = append(o.b, "true"...)
	}
}

func (o *object) duration(name string, d Duration) {
	if d != 0 {
		o.text(name, d.String())
	}
}

func (o *object) time(name string, t time.Time) {
	if !t.IsZero() {
		o.name(name)
		o.b = append(o.b, '"')
		o.b = t.UTC().AppendFormat(o.b, time.RFC3339Nano)
		o.b = append(o.b, '"')
	}
}

func (o *object) id(name string, id broker.ID) {
	if !id.IsZero() {
		o.text(name, id.String())
	}
}

func (o *object) base64(name string, value []byte) {
	o.name(name)
	o.b = append(o.b, '"')
	o.b = base64.StdEncoding.AppendEncode(o.b, value)
	o.b = append(o.b, '"')
}

// body writes the one of two forms that is there.
func (o *object) body(name string, text jsontext.Value, base64 []byte) {
	switch {
	case text != nil:
		o.name(name)
		o.b = append(o.b, text...)
	case base64 != nil:
		o.base64(name+"_base64", base64)
	}
}

// isJSON reports whether a reader of a JSON value would get b back.
func isJSON(b []byte) bool {
	if len(b) == 0 || space(b[0]) || space(b[len(b)-1]) {
		return false
	}
	return jsontext.Value(b).IsValid() && !deep(b)
}

// maxNested is how deep a value may be nested that stands in a request or an
// answer as it is. With what is around it that is 64, which every reader takes:
// one that is deeper would make the answer unreadable, and so take the other jobs
// in it along.
const maxNested = 60

// deep reports whether a valid value is nested deeper than maxNested.
func deep(b []byte) bool {
	if bytes.Count(b, []byte{'['})+bytes.Count(b, []byte{'{'}) <= maxNested {
		return false // hardly any value has to be looked at
	}
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > maxNested {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// headers writes pairs; those that are not UTF-8 go to "header_bytes".
func (o *object) headers(pairs map[string]string) {
	if len(pairs) == 0 {
		return
	}
	var odd []HeaderBytes
	o.name("headers")
	inner := open(o.b)
	for _, k := range slices.Sorted(maps.Keys(pairs)) {
		if v := pairs[k]; utf8.ValidString(k) && utf8.ValidString(v) {
			inner.string(k, "", v)
		} else {
			odd = append(odd, HeaderBytes{[]byte(k), []byte(v)})
		}
	}
	o.b = inner.close()
	if len(odd) > 0 {
		array(o, "header_bytes", odd, func(b []byte, h *HeaderBytes) []byte {
			one := open(b)
			one.base64("name", h.Name)
			one.base64("value", h.Value)
			return one.close()
		})
	}
}

// list writes strings.
func (o *object) list(name string, values []string) {
	if values == nil {
		return
	}
	o.name(name)
	o.b = append(o.b, '[')
	for i, v := range values {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b, _ = jsontext.AppendQuote(o.b, v)
		if !utf8.ValidString(v) {
			o.odd = append(o.odd, oddText{name + "." + strconv.Itoa(i), v})
		}
	}
	o.b = append(o.b, ']')
}

// array writes a list of objects.
func array[T any](o *object, name string, values []T, appendOne func(b []byte, v *T) []byte) {
	o.name(name)
	o.b = append(o.b, '[')
	for i := range values {
		if i > 0 {
			o.b = append(o.b, ',')
		}
		o.b = appendOne(o.b, &values[i])
	}
	o.b = append(o.b, ']')
}
