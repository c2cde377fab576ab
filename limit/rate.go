package limit

import (
	"errors"
	"fmt"
	"math/bits"
	"strconv"
	"time"
)

// Sizes that a rate keeps to.
const (
	MaxCount = 1_000_000_000             // of Count and of Burst
	MaxPer   = 10 * 365 * 24 * time.Hour // of Per, and of the time from an empty bucket to a full one
)

// Rate is a rule: Count units in each Per, and no more than Burst at once. It is
// a plain value; its text is what [ParseRate] reads. The zero Rate is not valid.
type Rate struct {
	Count int           // 1 to MaxCount
	Per   time.Duration // 1 ns to MaxPer
	Burst int           // 1 to MaxCount; 0 means Count
}

// Validate returns an error that names the field and says what is allowed.
func (r Rate) Validate() error {
	switch {
	case r.Count < 1 || r.Count > MaxCount:
		return fmt.Errorf("count is %d, allowed are 1 to %d", r.Count, MaxCount)
	case r.Per <= 0 || r.Per > MaxPer:
		return fmt.Errorf("period is %v, allowed are above 0 to 3650 days", r.Per)
	case r.Burst < 0 || r.Burst > MaxCount:
		return fmt.Errorf("burst is %d, allowed are 1 to %d (0 means the count)", r.Burst, MaxCount)
	}
	hi, lo := bits.Mul64(uint64(r.burst()), uint64(r.Per))
	if hi >= uint64(r.Count) {
		return errSlow
	}
	if full, _ := bits.Div64(hi, lo, uint64(r.Count)); full > uint64(MaxPer) {
		return errSlow
	}
	return nil
}

var errSlow = errors.New("takes more than 3650 days from empty to its full burst: allowed is less")

func (r Rate) burst() int {
	if r.Burst == 0 {
		return r.Count
	}
	return r.Burst
}

// units of a period, longest first, so that the first that divides it is the
// shortest way to write it.
var units = [...]struct {
	name string
	size time.Duration
}{
	{"d", 24 * time.Hour},
	{"h", time.Hour},
	{"m", time.Minute},
	{"s", time.Second},
	{"ms", time.Millisecond},
	{"us", time.Microsecond},
	{"ns", time.Nanosecond},
}

// String returns the rate as [ParseRate] reads it, which then returns the same
// rate: "10/s", "1/2s", "10/s burst 20".
func (r Rate) String() string {
	b := strconv.AppendInt(nil, int64(r.Count), 10)
	b = append(b, '/')
	for _, u := range units {
		if r.Per%u.size != 0 {
			continue
		}
		if n := int64(r.Per / u.size); n != 1 {
			b = strconv.AppendInt(b, n, 10)
		}
		b = append(b, u.name...)
		break
	}
	if r.burst() != r.Count {
		b = append(b, " burst "...)
		b = strconv.AppendInt(b, int64(r.Burst), 10)
	}
	return string(b)
}

// MarshalText implements encoding.TextMarshaler.
func (r Rate) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; it is [ParseRate].
func (r *Rate) UnmarshalText(b []byte) (err error) {
	*r, err = ParseRate(string(b))
	return err
}
