package limit

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const allowed = `allowed is COUNT/PERIOD, with " burst N" after it if wanted: 10/s, 0.5/s, 100/m, 1000/h, 5/d, 10/30s, 10/s burst 20`

// ParseRate reads a rate as people write it: a count above 0, which may have a
// fraction of up to 9 digits, a slash, and a period of ns, us, ms, s, m, h or d
// with a whole number before it if it is not one: "10/s", "0.5/s", "10/30s".
// " burst N" may follow; without it the burst is the count, rounded up.
//
// A fraction is kept exactly, as a whole number in a longer period: "0.5/s" is
// Rate{1, 2s}. An error names the part that is wrong and says what is allowed;
// it is returned for everything else, zero, negative numbers, NaN and Inf
// included.
func ParseRate(s string) (Rate, error) {
	r, err := parseRate(s)
	if err == nil {
		err = r.Validate()
	}
	if err != nil {
		return Rate{}, fmt.Errorf("rate %.64q: %w; %s", s, err, allowed)
	}
	if r.Burst == r.Count {
		r.Burst = 0 // one way to say it
	}
	return r, nil
}

func parseRate(s string) (Rate, error) {
	if s == "" {
		return Rate{}, errors.New("is empty")
	}
	count, rest, ok := strings.Cut(s, "/")
	if !ok {
		return Rate{}, errors.New("has no slash, so no period")
	}
	period, burst, hasBurst := strings.Cut(rest, " burst ")
	whole, parts, err := parseCount(count)
	if err != nil {
		return Rate{}, err
	}
	per, err := parsePeriod(period)
	if err != nil {
		return Rate{}, err
	}
	// whole/parts units in each per: so many whole units in per × parts.
	g := gcd(whole, parts)
	per, ok = times(per, parts/g)
	if !ok || whole/g > MaxCount {
		return Rate{}, errFine
	}
	r := Rate{Count: int(whole / g), Per: per, Burst: int((whole + parts - 1) / parts)}
	if hasBurst {
		if r.Burst, err = parseBurst(burst); err != nil {
			return Rate{}, err
		}
	}
	return r, nil
}

var errFine = fmt.Errorf("is too large, too fine or too slow: as a whole number, the count is at most %d, and the period at most 3650d", MaxCount)

// parseCount reads a decimal number above 0 as the fraction whole/parts, where
// parts is a power of 10.
func parseCount(s string) (whole, parts int64, err error) {
	before, after, point := strings.Cut(s, ".")
	if !digits(before) || point && !digits(after) {
		return 0, 0, fmt.Errorf("count %.32q is not a number above 0", s)
	}
	if len(after) > 9 || len(before) > 10 {
		return 0, 0, fmt.Errorf("count %.32q has too many digits: at most 10 before the point, 9 after it", s)
	}
	if strings.Trim(before+after, "0") == "" {
		return 0, 0, fmt.Errorf("count %.32q is zero, it must be above 0", s)
	}
	whole, err = strconv.ParseInt(before+after, 10, 64)
	if err != nil {
		return 0, 0, errFine
	}
	parts = 1
	for range after {
		parts *= 10
	}
	return whole, parts, nil
}

func parsePeriod(s string) (time.Duration, error) {
	name := strings.TrimLeft(s, "0123456789")
	number := s[:len(s)-len(name)]
	for _, u := range units {
		if u.name != name {
			continue
		}
		if number == "" {
			return u.size, nil
		}
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil || n < 1 || n > int64(MaxPer/u.size) {
			return 0, fmt.Errorf("period %.32q is out of range: above 0, at most 3650d", s)
		}
		return time.Duration(n) * u.size, nil
	}
	return 0, fmt.Errorf("period %.32q is unknown: ns, us, ms, s, m, h or d, with a whole number before it or not", s)
}

func parseBurst(s string) (int, error) {
	n, err := strconv.ParseInt(s, 10, 64)
	if !digits(s) || err != nil || n < 1 || n > MaxCount {
		return 0, fmt.Errorf("burst %.32q is not a whole number of 1 to %d", s, MaxCount)
	}
	return int(n), nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// times multiplies; not ok when the result is above MaxPer.
func times(d time.Duration, n int64) (time.Duration, bool) {
	if d > MaxPer/time.Duration(n) {
		return 0, false
	}
	return d * time.Duration(n), true
}
