package wire

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spoolq/spool/broker"
)

// HeaderBytes is a header that is not UTF-8.
type HeaderBytes struct {
	Name  []byte `json:"name"`
	Value []byte `json:"value"`
}

// Bytes are the strings of an object that are not UTF-8, by the names of their
// fields.
type Bytes map[string][]byte

// into puts the bytes over the fields that have them. One that names no field
// is an error.
func (b Bytes) into(fields map[string]*string) error {
	for name, value := range b {
		field := fields[name]
		if field == nil {
			return fmt.Errorf("%w: bytes: %.64q is no field that is text", broker.ErrInvalid, name)
		}
		*field = string(value)
	}
	return nil
}

// intoLog does the same for the lines of a log, and leaves the other names.
func (b Bytes) intoLog(lines []string) {
	for name, value := range b {
		if n, ok := strings.CutPrefix(name, "log."); ok {
			if i, err := strconv.Atoi(n); err == nil && 0 <= i && i < len(lines) {
				lines[i] = string(value)
				delete(b, name)
			}
		}
	}
}

// headersOf joins the two forms of headers.
func headersOf(text map[string]string, odd []HeaderBytes) map[string]string {
	if len(odd) > 0 && text == nil {
		text = make(map[string]string, len(odd))
	}
	for _, h := range odd {
		text[string(h.Name)] = string(h.Value)
	}
	return text
}

// bodyOf joins the two forms of a payload or a result.
func bodyOf(field string, text []byte, base64 []byte) ([]byte, error) {
	if text == nil {
		return base64, nil
	}
	if base64 != nil {
		return nil, fmt.Errorf("%w: both %s and %s_base64 are given: one of them would do", broker.ErrInvalid, field, field)
	}
	return text, nil
}
