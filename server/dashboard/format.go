package dashboard

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// countText is a number with its thousands apart: "12,345".
func countText(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// plural is "1 job", "2,000 jobs".
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return countText(n) + " " + many
}

// bytesText is a size: "812 B", "1.5 KiB".
func bytesText(n int64) string {
	if n < 1<<10 {
		return strconv.FormatInt(n, 10) + " B"
	}
	f, unit := float64(n)/(1<<10), 0
	for f >= 1024 && unit < 3 {
		f /= 1024
		unit++
	}
	return fmt.Sprintf("%.1f %ciB", f, "KMGT"[unit])
}

// span is a duration in its two largest units: "3d 4h", "2m 5s", "1.5s", "12ms".
func span(d time.Duration) string {
	switch {
	case d < 0:
		return "-" + span(-d)
	case d == 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	}
	d = d.Round(time.Second)
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return d.String()
	case d < time.Hour:
		return two(d, time.Minute, "m", time.Second, "s")
	case d < day:
		return two(d, time.Hour, "h", time.Minute, "m")
	}
	return two(d, day, "d", time.Hour, "h")
}

func two(d, big time.Duration, bigName string, small time.Duration, smallName string) string {
	s := strconv.FormatInt(int64(d/big), 10) + bigName
	if rest := d % big / small; rest > 0 {
		s += " " + strconv.FormatInt(int64(rest), 10) + smallName
	}
	return s
}

// ago is how far t is from now: "5m 2s ago", "in 3s", "now"; "" for no time.
func ago(t, now time.Time) string {
	d := now.Sub(t)
	switch {
	case t.IsZero():
		return ""
	case d > -time.Second && d < time.Second:
		return "now"
	case d < 0:
		return "in " + span(-d)
	}
	return span(d) + " ago"
}

// since is how long ago t is.
func since(t, now time.Time) string {
	return span(max(0, now.Sub(t).Truncate(time.Millisecond)))
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
