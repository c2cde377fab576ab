package cron

import (
	"fmt"
	"math"
	"time"
	_ "time/tzdata" // so that a host without zone data computes the same
)

// DST is what a schedule does where the clock of its zone is moved. The zero
// value is Wall. Both are described in the package comment.
type DST uint8

// The two policies.
const (
	Wall  DST = iota // a wall time that does not exist is skipped, one that repeats fires once
	Vixie            // a fixed time in a gap fires at its end; a pace follows elapsed time
)

var dstNames = [...]string{"wall", "vixie"}

// String returns the policy's name, as JSON and the CLI write it.
func (d DST) String() string { return name(dstNames[:], d) }

// ParseDST reads what String writes; "" is Wall.
func ParseDST(text string) (DST, error) { return named[DST]("DST policy", dstNames[:], text) }

// MarshalText implements encoding.TextMarshaler.
func (d DST) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *DST) UnmarshalText(b []byte) (err error) { *d, err = ParseDST(string(b)); return err }

// Zone returns the time zone of an IANA name such as Europe/Paris; "" and "UTC"
// are UTC. An error is returned for a name that is not known, and for names, such
// as Local, that stand for the zone of the host.
func Zone(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	// IANA's names start with a capital. Files beside the zones, such as
	// localtime, which is the host's zone, do not.
	if name == "Local" || len(name) > 64 || name[0] < 'A' || name[0] > 'Z' {
		return nil, noZone(name)
	}
	loc, err := time.LoadLocation(name)
	if err != nil {
		return nil, noZone(name)
	}
	return loc, nil
}

func noZone(name string) error {
	return fmt.Errorf("cron: zone %q is unknown; allowed are UTC and IANA names such as Europe/Paris", cut(name, 64))
}

// Instants and wall times are counted in seconds: an instant since the Unix
// epoch, a wall time as an instant that shows it in UTC.

const (
	never      = math.MaxInt64
	firstYear  = -62135596800 // 0001-01-01T00:00:00Z
	endOfYears = 253402300800 // 10000-01-01T00:00:00Z: later times have no RFC 3339 form
)

// period returns the offset from UTC in force at u, and until when it surely
// stays (a later period can have the same one).
func period(loc *time.Location, u int64) (off, end int64) {
	t := time.Unix(u, 0).In(loc)
	_, seconds := t.Zone()
	_, bound := t.ZoneBounds()
	if bound.IsZero() {
		return int64(seconds), never
	}
	if end = bound.Unix(); end <= u {
		// Where rules go on for ever, package time ends every year after 365
		// days. On the last day of a leap year the period lasts until the next.
		end = time.Date(t.UTC().Year()+1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	}
	return int64(seconds), end
}

// apart is more than the time between two instants that can show the same wall
// time: it moves by at most the 26 hours between the extreme offsets.
const apart = 50 * 3600

// shown reports whether wall time w was shown before the instant u, and if so,
// until which wall time it and its followers were.
func shown(loc *time.Location, w, u int64) (until int64, ok bool) {
	for v := u - apart; v < u; {
		off, end := period(loc, v)
		if at := w - off; v <= at && at < min(end, u) {
			return min(end, u) + off, true
		}
		v = end
	}
	return 0, false
}

// name is the n-th of names.
func name[T ~uint8](names []string, n T) string {
	if int(n) < len(names) {
		return names[n]
	}
	return fmt.Sprintf("unknown(%d)", n)
}

// named is the value that names has for text; "" is the zero value.
func named[T ~uint8](what string, names []string, text string) (T, error) {
	for i, s := range names {
		if text == s || text == "" {
			return T(i), nil
		}
	}
	return 0, fmt.Errorf("cron: %s %q is unknown; allowed are %v", what, cut(text, 32), names)
}
