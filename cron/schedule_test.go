package cron

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"
)

// The ends of time, where arithmetic could run over.
func TestNextAtTheEndsOfTime(t *testing.T) {
	for _, c := range []struct {
		name  string
		after time.Time
		expr  string
		want  string
	}{
		{"the zero time", time.Time{}, "0 0 * * *", "0001-01-02T00:00:00Z"},
		{"before the calendar", time.Date(-5000, 1, 1, 0, 0, 0, 0, time.UTC), "0 0 * * *", "0001-01-02T00:00:00Z"},
		{"as early as can be", time.Unix(math.MinInt64, 0), "@every 1h", "0001-01-01T01:00:00Z"},
		{"the last day", time.Date(9999, 12, 30, 12, 0, 0, 0, time.UTC), "0 0 * * *", "9999-12-31T00:00:00Z"},
		{"after the last day", time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC), "0 0 * * *", ""},
		{"after the last interval", time.Date(9999, 12, 31, 23, 30, 0, 0, time.UTC), "@every 1h", ""},
		{"far beyond", time.Date(200000, 1, 1, 0, 0, 0, 0, time.UTC), "0 0 * * *", ""},
		{"as late as can be told from early", time.Unix(math.MaxInt64-1<<37, 0), "* * * * *", ""},
	} {
		for _, zone := range []string{"", "America/New_York", "Pacific/Kiritimati"} {
			for dst := Wall; dst <= Vixie; dst++ {
				s := schedule(t, c.expr, zone, dst)
				got, ok := s.Next(c.after)
				if zone == "" && (ok != (c.want != "") || ok && got.Format(time.RFC3339) != c.want) {
					t.Errorf("%s: got %v, %t", c.name, got, ok)
				}
				if ok && (!got.After(c.after) && c.after.Year() > 0 || got.Year() > 9999) {
					t.Errorf("%s in %s: got %v", c.name, zone, got)
				}
			}
		}
	}
}

func TestNextIsStrictlyAfterAndInUTC(t *testing.T) {
	tokyo, err := Zone("Asia/Tokyo")
	if err != nil {
		t.Fatal(err)
	}
	s := schedule(t, "0 9 * * *", "Asia/Tokyo", Wall)
	on := time.Date(2026, 8, 1, 9, 0, 0, 0, tokyo)
	for _, c := range []struct {
		after time.Time
		want  string
	}{
		{on.Add(-time.Nanosecond), "2026-08-01T00:00:00Z"},
		{on, "2026-08-02T00:00:00Z"},
		{on.Add(time.Nanosecond), "2026-08-02T00:00:00Z"},
	} {
		if got, ok := s.Next(c.after); !ok || got.Format(time.RFC3339Nano) != c.want {
			t.Errorf("after %v: %v", c.after, got)
		}
	}
}

// On 31 December of leap years, package time gives a period that is over.
func TestNextPassesTheEndOfALeapYear(t *testing.T) {
	for _, zone := range []string{"America/New_York", "Australia/Sydney", "Europe/Dublin"} {
		s := schedule(t, "0 12 * * *", zone, Wall)
		for _, year := range []int{2028, 2048, 2096, 2400} {
			now := time.Date(year, 12, 31, 6, 0, 0, 0, s.loc)
			for i := range 3 {
				want := time.Date(year, 12, 31+i, 12, 0, 0, 0, s.loc)
				got, ok := s.Next(now)
				if !ok || !got.Equal(want) {
					t.Fatalf("%s: after %v comes %v, want %v", zone, now, got, want)
				}
				now = got
			}
		}
	}
}

func TestZones(t *testing.T) {
	for _, c := range []struct{ zone, want string }{{"", "UTC"}, {"UTC", "UTC"}, {"Etc/UTC", "Etc/UTC"}, {"Europe/Paris", "Europe/Paris"}, {"Etc/GMT+3", "Etc/GMT+3"}, {"EST5EDT", "EST5EDT"}} {
		if s := schedule(t, "0 0 * * *", c.zone, Wall); s.Zone() != c.want {
			t.Errorf("%q is %q", c.zone, s.Zone())
		}
	}
	for _, zone := range []string{"Local", "localtime", "posixrules", "America/Los_Angles", "Europe/", "../etc/passwd", "/etc/localtime", "UTC+2", "right/Europe/Paris", " UTC", "Europe/Paris\x00", strings.Repeat("A", 1<<20)} {
		_, err := New("0 0 * * *", zone, Wall)
		if err == nil {
			t.Errorf("%.40q is a zone", zone)
		} else if !strings.Contains(err.Error(), "allowed are UTC and IANA names") || len(err.Error()) > 200 {
			t.Errorf("%.40q: %v", zone, err)
		}
	}
	defer func() {
		if recover() == nil {
			t.Error("In takes the zone of the host")
		}
	}()
	Expr{}.In(time.Local, Wall)
}

func TestPolicyNames(t *testing.T) {
	for _, d := range []DST{Wall, Vixie} {
		var again DST
		if b, err := d.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != d {
			t.Errorf("%v: %s", d, b)
		}
	}
	for _, m := range []Missed{Latest, All, Skip} {
		var again Missed
		if b, err := m.MarshalText(); err != nil || again.UnmarshalText(b) != nil || again != m {
			t.Errorf("%v: %s", m, b)
		}
	}
	if d, err := ParseDST(""); err != nil || d != Wall {
		t.Errorf("no DST policy is %v, %v", d, err)
	}
	if m, err := ParseMissed(""); err != nil || m != Latest {
		t.Errorf("no policy for missed ticks is %v, %v", m, err)
	}
	_, dstErr := ParseDST("posix")
	_, missedErr := ParseMissed("never")
	_, newErr := New("* * * * *", "", 9)
	if dstErr == nil || missedErr == nil || newErr == nil {
		t.Errorf("unknown policies: %v, %v, %v", dstErr, missedErr, newErr)
	}
	if s := DST(9).String() + " " + Missed(7).String(); s != "unknown(9) unknown(7)" {
		t.Error(s)
	}
}

func TestASchedulesParts(t *testing.T) {
	s := schedule(t, "30 2 * * MON", "Europe/Paris", Vixie)
	if s.Expr().String() != "30 2 * * 1" || s.Zone() != "Europe/Paris" || s.DST() != Vixie {
		t.Errorf("got %v %v %v", s.Expr(), s.Zone(), s.DST())
	}
	if z := (Schedule{}).Zone(); z != "UTC" {
		t.Errorf("the zero zone is %q", z)
	}
}

// Next against a walk over the minutes, for any expression, zone and time.
func FuzzNext(f *testing.F) {
	for i, v := range vectors {
		f.Add(v.expr, uint8(i), int64(1_741_000_000+i*10_000_000))
	}
	f.Fuzz(func(t *testing.T, expr string, zone uint8, unix int64) {
		e, err := Parse(expr)
		if err != nil || !e.Fires() || unix < 0 || unix > 1<<33 {
			return
		}
		loc, err := Zone(walkedZones[int(zone)%len(walkedZones)])
		if err != nil {
			t.Fatal(err)
		}
		unix -= unix % 60
		for dst := Wall; dst <= Vixie; dst++ {
			s := e.In(loc, dst)
			next, ok := s.Next(time.Unix(unix, 0))
			if !ok || !next.After(time.Unix(unix, 0)) {
				t.Fatalf("%q after %d: %v, %t", e, unix, next, ok)
			}
			if again, _ := s.Next(next.Add(-time.Nanosecond)); !again.Equal(next) {
				t.Fatalf("%q: asked just before %v, Next says %v", e, next, again)
			}
			if e.every == 0 && e.sets[second] == 1 {
				againstWalk(t, s, unix, next.Unix())
			}
		}
	})
}

// againstWalk checks that the first tick after from is next, or that two days have
// none.
func againstWalk(t *testing.T, s Schedule, from, next int64) {
	t.Helper()
	opinion := simpleExpr(s.expr.String())
	minutes := walk(s.loc, from+60, from+48*3600)
	i := slices.IndexFunc(minutes, func(m walked) bool { return opinion.fires(&m, s.dst) })
	switch {
	case i < 0 && next <= from+47*3600:
		t.Errorf("%q in %v, %v: after %d Next says %d, the walker has nothing", s.expr, s.loc, s.dst, from, next)
	case i >= 0 && minutes[i].unix != next:
		t.Errorf("%q in %v, %v: after %d Next says %d, the walker %d", s.expr, s.loc, s.dst, from, next, minutes[i].unix)
	}
}

func BenchmarkNext(b *testing.B) {
	for _, c := range []struct{ name, expr, zone string }{
		{"minute", "* * * * *", ""}, {"minute in a zone", "* * * * *", "Europe/Berlin"}, {"day in a zone", "30 2 * * *", "America/New_York"},
		{"29 February", "0 0 29 2 *", "Europe/Berlin"}, {"29 February on a Sunday", "0 0 29 2 */7", "Europe/Berlin"}, {"interval", "@every 90s", ""},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := schedule(b, c.expr, c.zone, Vixie)
			after := at(b, "2026-08-01")
			for b.Loop() {
				s.Next(after)
			}
		})
	}
}
