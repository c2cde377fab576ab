package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/spoolq/spool/broker"
)

// span is a duration on the command line: as Go writes it, or in days ("7d",
// "1d12h").
type span time.Duration

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *span) UnmarshalText(b []byte) error {
	text := string(b)
	rest, days := text, time.Duration(0)
	if before, after, ok := strings.Cut(text, "d"); ok {
		n, err := strconv.ParseInt(before, 10, 32)
		if err != nil || n > 36500 || n < -36500 {
			return fmt.Errorf("%q is no duration: 90s, 5m, 1h30m, 7d and so on would do", text)
		}
		days, rest = time.Duration(n)*24*time.Hour, after
		if rest == "" {
			rest = "0"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return fmt.Errorf("%q is no duration: 90s, 5m, 1h30m, 7d and so on would do", text)
	}
	*s = span(days + d)
	return nil
}

// instant is a moment on the command line.
type instant time.Time

// layouts of a moment; without a zone it is local time.
var layouts = []string{"2006-01-02T15:04:05", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02 15:04"}

// UnmarshalText implements encoding.TextUnmarshaler.
func (i *instant) UnmarshalText(b []byte) error {
	if t, err := time.Parse(time.RFC3339, string(b)); err == nil {
		*i = instant(t)
		return nil
	}
	for _, l := range layouts {
		if t, err := time.ParseInLocation(l, string(b), time.Local); err == nil {
			*i = instant(t)
			return nil
		}
	}
	return fmt.Errorf("%q is no time: 2026-11-30T15:04:05Z, 2026-11-30T15:04:05+01:00 and 2026-11-30 15:04 (local time) would do", b)
}

// exact is a text on the command line that may hold any bytes. (The parser
// hands out its own values by way of JSON, which has no place for bytes that
// are not UTF-8.)
type exact string

// Decode implements kong.MapperValue.
func (e *exact) Decode(ctx *kong.DecodeContext) error {
	token, err := ctx.Scan.PopValue("text")
	if err != nil {
		return err
	}
	*e = exact(fmt.Sprint(token.Value))
	return nil
}

// payload is what a payload argument stands for: its own bytes, or for "-" all
// of the input.
func (e exact) payload(in io.Reader) ([]byte, error) {
	if e == "-" {
		return io.ReadAll(io.LimitReader(in, broker.MaxCallBytes+1))
	}
	return []byte(e), nil
}

// pair is NAME=VALUE on the command line.
type pair struct{ name, value string }

// Decode implements kong.MapperValue.
func (p *pair) Decode(ctx *kong.DecodeContext) error {
	var e exact
	if err := e.Decode(ctx); err != nil {
		return err
	}
	name, value, ok := strings.Cut(string(e), "=")
	if !ok || name == "" {
		return fmt.Errorf("%q is no pair: NAME=VALUE would do", string(e))
	}
	p.name, p.value = name, value
	return nil
}

// name is the name of a queue, a task or a worker on the command line.
type name string

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *name) UnmarshalText(b []byte) error {
	if err := broker.ValidName(string(b)); err != nil {
		return fmt.Errorf("the name %w", err)
	}
	*n = name(b)
	return nil
}

func plainNames(names []name) (s []string) {
	for _, n := range names {
		s = append(s, string(n))
	}
	return s
}
