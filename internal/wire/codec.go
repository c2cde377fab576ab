package wire

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/spoolq/spool/broker"
)

// appender is a shape that writes itself, since a payload in it has to stay as
// it is byte for byte.
type appender interface {
	appendTo(b []byte) []byte
}

// Append appends v as JSON.
func Append(b []byte, v any) ([]byte, error) {
	if a, ok := v.(appender); ok {
		return a.appendTo(b), nil
	}
	// Strings of a store are opaque: those that are no UTF-8 and stand in no
	// field of "bytes" are for people to look at.
	one, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), json.Deterministic(true))
	return append(b, one...), err
}

// Write writes v as JSON and a line's end.
func Write(w io.Writer, v any) error {
	b, err := Append(nil, v)
	if err != nil {
		return err
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// Read reads a value that somebody sent: it refuses what it does not know. The
// error wraps broker.ErrInvalid and says where.
func Read(b []byte, v any) error { return ReadDocument(b, v, "the body") }

// ReadDocument is Read for a document of another name than "the body".
func ReadDocument(b []byte, v any, name string) error {
	return explain(json.Unmarshal(b, v, json.RejectUnknownMembers(true)), name)
}

// ReadAnswer reads what a server answered, which may be newer.
func ReadAnswer(b []byte, v any) error { return json.Unmarshal(b, v, jsontext.AllowInvalidUTF8(true)) }

// explain turns an error of the decoder into one for people.
func explain(err error, name string) error {
	if err == nil {
		return nil
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %s is not JSON: it ends too early", broker.ErrInvalid, name)
	}
	var semantic *json.SemanticError
	if errors.As(err, &semantic) {
		place := string(semantic.JSONPointer)
		switch {
		case errors.Is(err, json.ErrUnknownName):
			return fmt.Errorf("%w: %s: there is no such field", broker.ErrInvalid, place)
		case semantic.Err != nil && semantic.Err.Error() != notString && !strings.HasSuffix(semantic.Err.Error(), "invalid syntax"):
			return fmt.Errorf("%w: %s: %w", broker.ErrInvalid, where(place, name), plain(semantic.Err))
		default:
			return fmt.Errorf("%w: %s: a JSON %s does not fit here, it wants %s", broker.ErrInvalid, where(place, name), kindName(semantic.JSONKind), wants(semantic))
		}
	}
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		return fmt.Errorf("%w: %s is not JSON: %s", broker.ErrInvalid, name, strings.TrimPrefix(err.Error(), "jsontext: "))
	}
	return fmt.Errorf("%w: %w", broker.ErrInvalid, err)
}

// notString is what the decoder says of a value for a type that reads text.
const notString = "JSON value must be string type"

func where(place, name string) string {
	if place == "" {
		return name
	}
	return place
}

// plain takes away what the libraries put before a text.
func plain(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), broker.ErrInvalid.Error()+": "))
}

func kindName(k jsontext.Kind) string {
	switch k {
	case 't', 'f':
		return "boolean"
	case '"':
		return "string"
	case '0':
		return "number"
	case '{':
		return "object"
	case '[':
		return "array"
	}
	return k.String()
}

// wants says in JSON's words what a Go type takes.
func wants(e *json.SemanticError) string {
	if e.GoType == nil {
		return "another type"
	}
	switch name := e.GoType.Name(); {
	case name == "Duration":
		return "a duration as text, like \"1m30s\""
	case name == "ID":
		return "an id as text"
	case name == "Token":
		return "a token as text"
	}
	switch kind := e.GoType.Kind().String(); {
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "int"), strings.HasPrefix(kind, "uint"):
		return "a whole number in range"
	case kind == "slice":
		return "an array"
	case kind == "struct" && e.GoType.String() == "time.Time":
		return "a time as text, like \"2026-01-02T15:04:05Z\""
	case kind == "struct", kind == "map":
		return "an object"
	default:
		return "a " + kind
	}
}
