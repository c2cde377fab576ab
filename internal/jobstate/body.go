package jobstate

import (
	"encoding/binary"
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// Codes of the headers that every job has (part of the format). Code 0 stands
// before a name that is written out.
var headerCodes = [...]string{"", "spool.codec", "spool.version"}

// appendBody appends what is kept of a job outside the state.
func appendBody(b []byte, j *broker.NewJob) []byte {
	b = binary.AppendUvarint(b, uint64(j.Timeout))
	b = binary.AppendUvarint(b, uint64(len(j.Headers)))
	if len(j.Headers) > 0 {
		if usual, ok := appendCoded(b, j.Headers); ok {
			return append(usual, j.Payload...)
		}
		names := make([]string, 0, 8)
		for name := range j.Headers {
			names = append(names, name)
		}
		slices.Sort(names)
		for _, name := range names {
			b = appendHeader(b, name, j.Headers[name])
		}
	}
	return append(b, j.Payload...)
}

// appendCoded appends headers whose names all have codes; ok is false when
// others are among them.
func appendCoded(b []byte, headers map[string]string) (to []byte, ok bool) {
	n := 0
	for code, name := range headerCodes[1:] {
		value, is := headers[name]
		if !is {
			continue
		}
		n++
		b = append(b, byte(code+1))
		b = binary.AppendUvarint(b, uint64(len(value)))
		b = append(b, value...)
	}
	return b, n == len(headers)
}

func appendHeader(b []byte, name, value string) []byte {
	code := max(slices.Index(headerCodes[:], name), 0)
	b = append(b, byte(code))
	if code == 0 {
		b = binary.AppendUvarint(b, uint64(len(name)))
		b = append(b, name...)
	}
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

// DecodeBody sets Payload, Headers and Timeout of a job from the bytes that
// its location names. Payload shares b.
func DecodeBody(b []byte, j *broker.Job) error {
	r := reader{b: b, all: len(b)}
	j.Timeout = time.Duration(r.uint())
	n := r.count(2)
	if n > 0 {
		j.Headers = make(map[string]string, min(n, 16)) // it grows by what is there
	}
	for range n {
		code := int(r.byte())
		if code >= len(headerCodes) {
			return fmt.Errorf("%w: header code %d", ErrRecord, code)
		}
		name := headerCodes[code]
		if code == 0 {
			name = string(r.text())
		}
		j.Headers[name] = string(r.text())
	}
	j.Payload = r.b
	return r.err
}
