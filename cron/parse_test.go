package cron

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct {
		name, expr, field string
		pos               int
		reason            string // a part of it
	}{
		{"nothing", "", "", 1, "is empty"},
		{"blanks", " \t ", "", 1, "is empty"},
		{"four fields", "* * * *", "", 8, "4 of the 5 fields"},
		{"seven fields", "* * * * * * *", "", 13, "7 fields"},
		{"a step of zero", "15/0 * * * * *", "second", 4, "allowed are 1 to 60"},
		{"a step of zero from a star", "*/0 * * * *", "minute", 3, "allowed are 1 to 60"},
		{"a step that only looks like a pace", "*/90 * * * *", "minute", 3, "@every"},
		{"an empty zone", "TZ=", "", 1, "zone option"},
		{"another empty zone", "CRON_TZ=", "", 1, "zone option"},
		{"a zone without fields", "TZ=Europe/Berlin", "", 1, "zone option"},
		{"a zone and fields", "cron_tz=Europe/Berlin 0 9 * * *", "", 1, "zone option"},
		{"a comma for a month", "0 0 1 , 0", "month", 7, "',' is not expected"},
		{"day 0 and a comma", "0 0 0 , 0", "day of month", 5, "0 is out of range; allowed are 1 to 31"},
		{"a comma alone", ",", "", 2, "1 of the 5 fields"},
		{"a comma at a field's end", "1, * * * *", "minute", 3, "a value is missing"},
		{"a range backwards", "5-2 * * * *", "minute", 1, "5-2 runs backwards, as 5-59,0-2 it would not"},
		{"hours past midnight", "0 22-6/2 * * *", "hour", 3, "22-6 runs backwards, as 22-23,0-6 it would not"},
		{"months past the year's end", "0 0 1 nov-Feb *", "month", 7, "nov-Feb runs backwards, as nov-DEC,JAN-Feb it would not"},
		{"a weekday's range backwards", "0 0 * * 6-0", "day of week", 9, "6-0 runs backwards, as 6-SAT,SUN-0 it would not"},
		{"weekdays past Saturday", "0 0 * * FRI-MON", "day of week", 9, "FRI-MON runs backwards, as FRI-SAT,SUN-MON it would not"},
		{"weekdays from the second Sunday", "0 0 * * 7-2", "day of week", 9, "7-2 runs backwards, as SUN-2 it would not"},
		{"a range without an end", "5- * * * *", "minute", 3, "a value is missing"},
		{"two ranges in one", "1-2-3 * * * *", "minute", 4, "'-' is not expected"},
		{"two steps in one", "*/2/3 * * * *", "minute", 4, "'/' is not expected"},
		{"minute 60", "60 * * * *", "minute", 1, "allowed are 0 to 59"},
		{"hour 24", "0 24 * * *", "hour", 3, "allowed are 0 to 23"},
		{"day 0", "* * 0 * *", "day of month", 5, "allowed are 1 to 31"},
		{"day 32 as the end of a range", "* * 1-32 * *", "day of month", 7, "32 is out of range"},
		{"month 13", "* * * 13 *", "month", 7, "JAN to DEC"},
		{"day 8 of the week", "* * * * 8", "day of week", 9, "0 and 7 are Sunday"},
		{"a negative number", "-1 * * * *", "minute", 1, "'-' is not expected"},
		{"a sign", "+1 * * * *", "minute", 1, "'+' is not expected"},
		{"a huge number", "99999999999999999999999999 * * * *", "minute", 1, "out of range"},
		{"a fraction", "1.5 * * * *", "minute", 2, "'.' is not expected"},
		{"digits that are not ASCII", "٣ * * * *", "minute", 1, "'٣' is not expected"},
		{"wide digits", "0 ９ * * *", "hour", 3, "'９' is not expected"},
		{"a blank that is none", "0 9 * * *\u00a01", "day of week", 10, "is not expected"},
		{"bytes that are no text", "0 9 * * \xff", "day of week", 9, "is not expected"},
		{"a name of another field", "0 9 * MON *", "month", 7, `"MON" is unknown`},
		{"a longer name", "0 9 * * MONDAY", "day of week", 9, `"MONDAY" is unknown`},
		{"a name where there are none", "JAN * * * *", "minute", 1, `"JAN" is unknown`},
		{"the last day of the week", "0 9 * * L", "day of week", 9, `"L" is unknown`},
		{"the last weekday", "0 9 LW * *", "day of month", 6, "'W' is not expected"},
		{"a day before the last", "0 9 L-3 * *", "day of month", 6, "'-' is not expected"},
		{"the second Monday", "0 9 * * MON#2", "day of week", 12, "'#' is not expected"},
		{"an unknown short form", " @reboot", "", 2, `"@reboot" is unknown`},
		{"more after a short form", "@daily 5", "", 8, "nothing may follow"},
		{"no interval", "@every", "interval", 7, "one duration"},
		{"two intervals", "@every 1h 1m", "interval", 11, "one duration"},
		{"no duration", "@every day", "interval", 8, "is no duration"},
		{"no interval at all", "@every 0s", "interval", 8, "0s is out of range; allowed are 1ms to 876000h"},
		{"a negative interval", "@every -5s", "interval", 8, "out of range"},
		{"a tiny interval", "@every 1us", "interval", 8, "out of range"},
		{"a broken millisecond", "@every 1500us", "interval", 8, "whole number of milliseconds"},
		{"an interval beyond the clock", "@every 10000000000h", "interval", 8, "is no duration"},
		{"1 MiB of digits", strings.Repeat("1", 1<<20), "", 1025, "1048576 bytes"},
		{"1 MiB of stars", strings.Repeat("* ", 1<<19), "", 1025, "1048576 bytes"},
		{"a long item", "1,2,3," + strings.Repeat("x", 900) + " * * * *", "minute", 7, "…"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var err error
			inTime(t, 10*time.Millisecond, func() { _, err = Parse(c.expr) })
			var e *ParseError
			if !errors.As(err, &e) {
				t.Fatalf("got %v", err)
			}
			if e.Field != c.field || e.Pos != c.pos || !strings.Contains(e.Reason, c.reason) {
				t.Errorf("got field %q, position %d, reason %q; want %q, %d, %q", e.Field, e.Pos, e.Reason, c.field, c.pos, c.reason)
			}
			if n := len(err.Error()); n > 500 || !utf8.ValidString(err.Error()) {
				t.Errorf("the error has %d bytes: %s", n, err)
			}
		})
	}
}

func TestStringIsCanonical(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{" 0\t 2  * * * ", "0 2 * * *"},
		{"00 02 01 01 00", "0 2 1 1 0"},
		{"? ? ? ? ?", "* * * * *"},
		{"*/1 * * * *", "* * * * *"},
		{"?/15 * * * *", "*/15 * * * *"},
		{"5,* * * * *", "0-59 * * * *"},
		{"0,15,30,45 * * * *", "0-45/15 * * * *"},
		{"0-59 * * * *", "0-59 * * * *"},
		{"5/10 * * * *", "5-55/10 * * * *"},
		{"59,0,1,2,2 * * * *", "0-2,59 * * * *"},
		{"*/20,5 * * * *", "*/20,5 * * * *"},
		{"*/60 */24 * * *", "*/60 */24 * * *"},
		{"0 0 * * mon-fri", "0 0 * * 1-5"},
		{"0 0 * * Sat-Sun", "0 0 * * 0,6"},
		{"0 0 * * sun-sun", "0 0 * * 0"},
		{"0 0 * * sun-sat", "0 0 * * 0-6"},
		{"0 0 * * 1-7", "0 0 * * 0-6"},
		{"0 0 * * 7,sun,0", "0 0 * * 0"},
		{"0 0 l,1 Jan,FEB,mar *", "0 0 1,L 1-3 *"},
		{"0 0 *,L * *", "0 0 * * *"},
		{"0 0 1-31,L * *", "0 0 1-31 * *"},
		{"0 0 * 1,3,5,7,9,11 *", "0 0 * */2 *"},
		{"0 * * * * *", "* * * * *"},
		{"* * * * * *", "* * * * * *"},
		{"0,10,20,30,40,50 * * * * *", "*/10 * * * * *"},
		{"5 0 0 * * *", "5 0 0 * * *"},
		{"@HOURLY", "0 * * * *"},
		{"@annually", "0 0 1 1 *"},
		{"@midnight", "0 0 * * *"},
		{"@every 90s", "@every 1m30s"},
		{"@every 1500ms", "@every 1.5s"},
	} {
		t.Run(c.expr, func(t *testing.T) {
			e, err := Parse(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.String(); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if again, err := Parse(e.String()); err != nil || again != e {
				t.Errorf("read again: %v, %v", again, err)
			}
		})
	}
	if (Expr{}).String() != "" || (Expr{}).Describe() != "" || (Expr{}).Fires() {
		t.Error("the zero Expr is something")
	}
}

func TestWhatNeverFiresIsRefused(t *testing.T) {
	for _, expr := range []string{"0 0 30 2 *", "0 0 31 2,4,6,9,11 *", "0 0 30,31 FEB */7", "* * * 30-31 2 *", "0 0 */31 2 *"} {
		e, err := Parse(expr)
		if err != nil {
			t.Fatal(err)
		}
		// The last one falls on the 1st, so it does fire.
		want := expr == "0 0 */31 2 *"
		var ok bool
		inTime(t, 100*time.Millisecond, func() { _, ok = e.In(nil, Wall).Next(time.Now()) })
		if e.Fires() != want || ok != want {
			t.Errorf("%q: Fires %t, Next %t, want %t", expr, e.Fires(), ok, want)
		}
		if _, err := New(expr, "Europe/Paris", Vixie); errors.Is(err, ErrNever) == want {
			t.Errorf("%q: New gives %v", expr, err)
		}
	}
	for _, expr := range []string{"0 0 29 2 *", "0 0 L 2 *", "0 0 30 2 MON", "0 0 31 * *", "0 0 29 2 */7", "@every 1h"} {
		if _, err := New(expr, "", Wall); err != nil {
			t.Errorf("%q: %v", expr, err)
		}
	}
	if _, ok := (Schedule{}).Next(time.Now()); ok {
		t.Error("the zero Schedule fires")
	}
}

func TestEvery(t *testing.T) {
	e, err := Every(90 * time.Second)
	if parsed, parseErr := Parse("@every 90s"); err != nil || parseErr != nil || parsed != e || e.Interval() != 90*time.Second {
		t.Errorf("%v %v, %v %v", e, err, parsed, parseErr)
	}
	for _, d := range []time.Duration{0, -time.Second, time.Microsecond, 1500 * time.Microsecond, MaxEvery + time.Millisecond} {
		if _, err := Every(d); err == nil {
			t.Errorf("%v is allowed", d)
		}
	}
	for _, d := range []time.Duration{MinEvery, MaxEvery} {
		e, err := Every(d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := Parse(e.String()); err != nil || again != e {
			t.Errorf("%v: %v %v", d, again, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, v := range vectors {
		f.Add(v.expr)
	}
	for _, s := range []string{"TZ=", "@every 1h", "*/7,3 L,15 ? jan-dec/2 7", "15/0 * * * * *", ",", "٣ * * * *", "*/20,1-4/3 */5,2 *,3 * *"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		e, err := Parse(text)
		if err != nil {
			if e != (Expr{}) || len(err.Error()) > 1000 {
				t.Errorf("%v with %v", e, err)
			}
			return
		}
		again, err := Parse(e.String())
		if err != nil || again != e || again.String() != e.String() {
			t.Errorf("%q is written %q and read as %q, %v", text, e, again, err)
		}
		if e.Describe() == "" {
			t.Errorf("%q has no description", text)
		}
		for dst := Wall; dst <= Vixie; dst++ {
			if next, ok := e.In(nil, dst).Next(time.Unix(1_800_000_000, 0)); ok != e.Fires() || ok && next.Unix() < 1_800_000_000 {
				t.Errorf("%q fires at %v, %t", text, next, ok)
			}
		}
	})
}
