package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/internal/text"
)

// ago is how far t is from now; "" for no time.
func ago(t, now time.Time) string {
	if t.IsZero() {
		return ""
	}
	return text.Ago(t, now)
}

// since is how long ago t is.
func since(t, now time.Time) string {
	return text.Span(max(0, now.Sub(t).Truncate(time.Millisecond)))
}

// stamp is a moment, in UTC.
func stamp(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// age reads a duration as people type it: "90s", "1h30m", "2d"; "" is 0.
func age(s string) (time.Duration, error) {
	s = strings.TrimSpace(s)
	if s == "" {
		return 0, nil
	}
	total := time.Duration(0)
	if days, rest, ok := strings.Cut(s, "d"); ok {
		n, err := strconv.ParseFloat(days, 64)
		if err != nil || !(n >= 0 && n <= 36500) { // NaN is no number of days
			return 0, fmt.Errorf("%.20q is no age: write it as 90s, 15m, 2h or 3d", s)
		}
		if total, s = time.Duration(n*24*float64(time.Hour)), rest; s == "" {
			return total, nil
		}
	}
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 || d > 36500*24*time.Hour {
		return 0, fmt.Errorf("%.20q is no age: write it as 90s, 15m, 2h or 3d", s)
	}
	return total + d, nil
}
