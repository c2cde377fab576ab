package spool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/spoolq/spool/broker"
)

// The headers that are ours.
const (
	ownPrefix      = "spool."
	headerCodec    = "spool.codec"    // the codec of the payload
	headerResult   = "spool.result"   // the codec of the result, when it is another
	headerVersion  = "spool.version"  // of the meaning of these headers
	headerDepth    = "spool.depth"    // of a follow-up: how many jobs are before it in its chain
	headerSchedule = "spool.schedule" // of a schedule's job: its name
	headerTick     = "spool.tick"     // of a schedule's job: the instant that it is for
	version        = "1"
	rawName        = "raw"
)

// Codec turns arguments and results into bytes and back. It must be safe for
// concurrent use.
type Codec interface {
	// Name is stored with each job, so that the job can be decoded by this
	// codec for as long as it waits: 1 to 128 characters of A-Z a-z 0-9 _ . -.
	// The name "raw" is taken.
	Name() string
	// Encode returns the bytes of v; the caller owns them. It returns an error
	// for what it would silently change.
	Encode(v any) ([]byte, error)
	// Decode sets what v points to. It must not keep b.
	Decode(b []byte, v any) error
}

// JSON is the default codec. Beside what package encoding/json refuses, it
// refuses what that package would silently change: strings that are not valid
// UTF-8, in both directions, and integers beyond 2^53 in an interface, which
// come back as floating-point numbers.
type JSON struct{}

// Name returns "json".
func (JSON) Name() string { return "json" }

// Encode implements Codec.
func (JSON) Encode(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	// Replacement characters in the output are either the caller's own or
	// stand for bytes that were lost: only then is the value looked through.
	if bytes.Contains(b, []byte(`\ufffd`)) || bytes.Contains(b, []byte("\ufffd")) || hasInterface(reflect.TypeOf(v)) {
		if err := checkLossless(reflect.ValueOf(v)); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// Decode implements Codec.
func (JSON) Decode(b []byte, v any) error {
	if !utf8.Valid(b) {
		return errors.New("json: payload is not valid UTF-8")
	}
	return json.Unmarshal(b, v)
}

// codecs is the client's set: the first encodes, all decode.
type codecs struct {
	first  Codec
	byName map[string]Codec
}

func newCodecs(list []Codec) (codecs, error) {
	cs := codecs{first: JSON{}, byName: map[string]Codec{}}
	if len(list) > 0 {
		cs.first = list[0]
	}
	for _, c := range list {
		name := c.Name()
		if err := broker.ValidName(name); err != nil {
			return cs, fmt.Errorf("codec name %w", err)
		}
		if name == rawName || cs.byName[name] != nil {
			return cs, fmt.Errorf("codec name %q is taken", name)
		}
		cs.byName[name] = c
	}
	if cs.byName[JSON{}.Name()] == nil {
		cs.byName[JSON{}.Name()] = JSON{}
	}
	return cs, nil
}

// encode returns the bytes of v and the name of what made them.
func (cs *codecs) encode(c Codec, v any) ([]byte, string, error) {
	if b, ok := v.([]byte); ok {
		return b, rawName, nil
	}
	b, err := guard(func() ([]byte, error) { return c.Encode(v) })
	if err != nil {
		return nil, "", fmt.Errorf("%w: encode %T with codec %s: %w", ErrInvalid, v, c.Name(), err)
	}
	return b, c.Name(), nil
}

// decode sets *v from bytes that the codec of that name made; "" is unknown.
func (cs *codecs) decode(name string, b []byte, v any) error {
	if p, ok := v.(*[]byte); ok && (name == "" || name == rawName) {
		*p = b
		return nil
	}
	if name == rawName {
		return fmt.Errorf("decode %T: it was stored as raw bytes", v)
	}
	if name == "" {
		name = JSON{}.Name()
		if len(b) == 0 && reflect.TypeOf(v).Elem().Size() == 0 {
			return nil // no arguments are wanted and none were given
		}
	}
	c := cs.byName[name]
	if c == nil {
		return fmt.Errorf("decode %T: this client has no codec %.64q", v, name)
	}
	_, err := guard(func() (struct{}, error) { return struct{}{}, c.Decode(b, v) })
	if err != nil {
		return fmt.Errorf("decode %T with codec %s: %w", v, name, err)
	}
	return nil
}

// result returns the codec for the result of a job with these headers.
func (cs *codecs) result(headers map[string]string) (Codec, error) {
	name := headers[headerResult]
	if name == "" {
		name = headers[headerCodec]
	}
	if name == "" || name == rawName {
		name = JSON{}.Name()
	}
	if c := cs.byName[name]; c != nil {
		return c, nil
	}
	return nil, fmt.Errorf("this client has no codec %.64q", name)
}

// guard calls fn, a codec's, and turns its panic into an error.
func guard[T any](fn func() (T, error)) (v T, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("codec panicked: %v", r)
		}
	}()
	return fn()
}
