package cron

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

func TestNotes(t *testing.T) {
	for _, c := range []struct {
		name, expr, zone string
		dst              DST
		after            string
		want             []string
	}{
		{"a wall time that is skipped", "30 2 * * *", "America/New_York", Wall, "2026-03-07T00:00", []string{
			"2026-03-07T07:30:00Z",
			"2026-03-09T06:30:00Z 02:30 on 2026-03-08 does not exist: skipped",
			"2026-03-10T06:30:00Z",
		}},
		{"a fixed time in a gap", "30 2 * * *", "America/New_York", Vixie, "2026-03-07T12:00", []string{
			"2026-03-08T07:00:00Z 02:30 on 2026-03-08 does not exist: fires at 03:00 instead",
			"2026-03-09T06:30:00Z",
		}},
		{"two fixed times in a gap and one after it", "0,30 2,3 * * *", "America/New_York", Vixie, "2026-03-07T12:00", []string{
			"2026-03-08T07:00:00Z 02:00 to 02:30 on 2026-03-08 do not exist: fires at 03:00 instead",
			"2026-03-08T07:30:00Z",
			"2026-03-09T06:00:00Z",
		}},
		{"a pace over a gap", "*/20 * * * *", "America/New_York", Wall, "2026-03-08T06:30", []string{
			"2026-03-08T06:40:00Z",
			"2026-03-08T07:00:00Z 02:00 to 02:40 on 2026-03-08 do not exist: skipped",
			"2026-03-08T07:20:00Z",
		}},
		{"a wall time that comes twice", "30 1 * * *", "America/New_York", Wall, "2025-10-31T12:00", []string{
			"2025-11-01T05:30:00Z",
			"2025-11-02T05:30:00Z 01:30 on 2025-11-02 comes twice: fires the first time only",
			"2025-11-03T06:30:00Z",
		}},
		{"a fixed time that comes twice", "30 1 * * *", "America/New_York", Vixie, "2025-11-01T12:00", []string{
			"2025-11-02T05:30:00Z 01:30 on 2025-11-02 comes twice: fires the first time only",
			"2025-11-03T06:30:00Z",
		}},
		{"a pace over a repeated hour", "*/30 * * * *", "America/New_York", Vixie, "2025-11-02T04:30", []string{
			"2025-11-02T05:00:00Z 01:00 on 2025-11-02 comes twice: this is the first time",
			"2025-11-02T05:30:00Z 01:30 on 2025-11-02 comes twice: this is the first time",
			"2025-11-02T06:00:00Z 01:00 on 2025-11-02 comes twice: this is the second time",
			"2025-11-02T06:30:00Z 01:30 on 2025-11-02 comes twice: this is the second time",
			"2025-11-02T07:00:00Z",
		}},
		{"half an hour", "15 2 * * *", "Australia/Lord_Howe", Vixie, "2025-10-04T00:00", []string{
			"2025-10-04T15:30:00Z 02:15 on 2025-10-05 does not exist: fires at 02:30 instead",
			"2025-10-05T15:15:00Z",
		}},
		{"a whole day", "0 */8 * * *", "Pacific/Apia", Wall, "2011-12-30T03:00", []string{
			"2011-12-30T10:00:00Z 00:00 to 16:00 on 2011-12-30 do not exist: skipped",
			"2011-12-30T18:00:00Z",
		}},
		{"seconds", "30-50/10 59 2 * * *", "America/New_York", Wall, "2026-03-08T00:00", []string{
			"2026-03-09T06:59:30Z 02:59:30 to 02:59:50 on 2026-03-08 do not exist: skipped",
		}},
		{"many years of skips", "30 2 8-14 3 */7", "America/New_York", Wall, "2026-01-01T00:00", nil},
		{"an interval", "@every 30m", "America/New_York", Vixie, "2026-03-08T06:30", []string{"2026-03-08T07:00:00Z", "2026-03-08T07:30:00Z"}},
		{"UTC", "30 2 * * *", "", Wall, "2026-03-07T12:00", []string{"2026-03-08T02:30:00Z", "2026-03-09T02:30:00Z"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for tick := range schedule(t, c.expr, c.zone, c.dst).Ticks(at(t, c.after)) {
				if len(got) == len(c.want) {
					break
				}
				got = append(got, strings.TrimSpace(tick.At.Format(time.RFC3339)+" "+tick.Note))
			}
			if g, w := strings.Join(got, "\n"), strings.Join(c.want, "\n"); g != w {
				t.Errorf("got\n%s\nwant\n%s", g, w)
			}
		})
	}
}

// In New York the second Sunday of March never has a 02:30: the search ends.
func TestATimeThatFallsIntoEveryGap(t *testing.T) {
	for dst := Wall; dst <= Vixie; dst++ {
		s := schedule(t, "30 2 8-14 3 */7", "America/New_York", dst)
		var got time.Time
		var ok bool
		inTime(t, 100*time.Millisecond, func() { got, ok = s.Next(at(t, "2026-01-01")) })
		if ok != (dst == Vixie) || ok && !got.Equal(at(t, "2026-03-08T07:00")) {
			t.Errorf("%v: %v, %t", dst, got, ok)
		}
		n := 0
		for range s.Ticks(at(t, "9990-01-01")) {
			n++
		}
		if want := int(dst) * 10; n != want {
			t.Errorf("%v: %d ticks in the last ten years, want %d", dst, n, want)
		}
	}
}

func TestATickAsJSON(t *testing.T) {
	for tick := range schedule(t, "30 2 * * *", "America/New_York", Vixie).Ticks(at(t, "2026-03-08T00:00")) {
		b, err := json.Marshal(tick)
		const want = `{"at":"2026-03-08T07:00:00Z","note":"02:30 on 2026-03-08 does not exist: fires at 03:00 instead"}`
		if err != nil || string(b) != want {
			t.Errorf("got %s, %v", b, err)
		}
		break
	}
}

func TestALongListOfSkipsIsCut(t *testing.T) {
	// 02:30 on 8 March is a Sunday, and in the gap, in years six and more apart.
	s := schedule(t, "30 2 8 3 */7", "America/New_York", Wall)
	for tick := range s.Ticks(at(t, "2026-01-01")) {
		t.Errorf("fires at %v: %s", tick.At, tick.Note)
		break
	}
	s = schedule(t, "30 2 8-14,30 3 *", "America/New_York", Wall)
	if n := s.note(at(t, "2007-01-01").UnixMilli(), at(t, "2009-06-01").UnixMilli()); strings.Count(n, "skipped") != 3 || strings.HasSuffix(n, "…") {
		t.Error(n)
	}
	n := s.gapNotes(at(t, "2007-01-01").Unix(), at(t, "2040-01-01").Unix())
	if len(n) != maxNotes+1 {
		t.Errorf("%d notes: %q", len(n), n)
	}
	if text := s.note(at(t, "2007-01-01").UnixMilli(), at(t, "2040-01-01").UnixMilli()); strings.Count(text, "skipped") != maxNotes || !strings.HasSuffix(text, "; …") {
		t.Error(text)
	}
}
