package wire

import (
	"fmt"
	"time"
)

// Duration is a time.Duration that crosses JSON, queries and configuration as
// text: "1m30s". A bare number is refused, since nobody can tell its unit.
type Duration time.Duration

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	if err != nil {
		return fmt.Errorf("%.64q: not a duration: write it as 1m30s, with units ns, us, ms, s, m, h", b)
	}
	*d = Duration(v)
	return nil
}

// String is the text of d.
func (d Duration) String() string { return time.Duration(d).String() }
