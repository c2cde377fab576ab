package cron

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// at reads a time in UTC, to the minute or to the second.
func at(t testing.TB, text string) time.Time {
	t.Helper()
	for _, layout := range []string{"2006-01-02T15:04", "2006-01-02T15:04:05", time.RFC3339, "2006-01-02"} {
		if u, err := time.Parse(layout, text); err == nil {
			return u
		}
	}
	t.Fatalf("%q is no time", text)
	return time.Time{}
}

func schedule(t testing.TB, expr, zone string, dst DST) Schedule {
	t.Helper()
	s, err := New(expr, zone, dst)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// inTime checks that f, which changes nothing, takes at most so long; on a busy
// machine it may try again.
func inTime(t testing.TB, limit time.Duration, f func()) {
	t.Helper()
	var took time.Duration
	for range 10 {
		start := time.Now()
		f()
		if took = time.Since(start); took <= limit {
			return
		}
	}
	t.Errorf("took %v, allowed are %v", took, limit)
}

// vectors: ticks that follow one another. "(gap)" marks one that Vixie alone has.
var vectors = []struct{ set, expr, zone, want string }{
	{"V1", "30 2 * * *", "America/New_York", "2026-03-07T07:30 2026-03-08T07:00(gap) 2026-03-09T06:30"},
	{"V1", "30 2 * * *", "America/New_York", "2025-03-08T07:30 2025-03-09T07:00(gap) 2025-03-10T06:30"},
	{"V1", "0 2 * * *", "America/Los_Angeles", "2025-03-08T10:00 2025-03-09T10:00(gap) 2025-03-10T09:00"},
	{"V2", "30 1 * * *", "America/New_York", "2025-11-01T05:30 2025-11-02T05:30 2025-11-03T06:30"},
	{"V2", "30 1 * * *", "America/New_York", "2026-10-31T05:30 2026-11-01T05:30 2026-11-02T06:30"},
	{"V2", "0 1 * * *", "America/Los_Angeles", "2014-11-01T08:00 2014-11-02T08:00 2014-11-03T09:00"},
	{"V2", "1 0 * * *", "Europe/Berlin", "2020-10-23T22:01 2020-10-24T22:01 2020-10-25T23:01 2020-10-26T23:01"},
	{"V2", "0 12 * * *", "Europe/Amsterdam", "2013-10-27T11:00 2013-10-28T11:00"},
	{"V2", "0 6 * * MON", "America/New_York", "2021-11-01T10:00 2021-11-08T11:00 2021-11-15T11:00"},
	{"V4", "0 0 * * *", "America/Santiago", "2022-09-10T04:00 2022-09-11T04:00(gap) 2022-09-12T03:00"},
	{"V4", "0 6 * * *", "America/New_York", "2019-03-09T11:00 2019-03-10T10:00 2019-03-11T10:00"},
	{"V4", "15 2 * * *", "Australia/Lord_Howe", "2025-10-03T15:45 2025-10-04T15:30(gap) 2025-10-05T15:15"},
	{"V4", "45 1 * * *", "Australia/Lord_Howe", "2026-04-03T14:45 2026-04-04T14:45 2026-04-05T15:15"},
	{"V4", "30 2 8 3 *", "America/New_York", "2026-03-08T07:00(gap) 2027-03-08T07:30"},
	{"V4", "0 2,3 * * *", "America/New_York", "2026-03-07T07:00 2026-03-07T08:00 2026-03-08T07:00 2026-03-09T06:00 2026-03-09T07:00"},
	{"V5", "0 9 * * 2/2", "UTC", "2026-08-01T09:00 2026-08-04T09:00 2026-08-06T09:00 2026-08-08T09:00"},
	{"V5", "0 9 * * 6-7", "UTC", "2026-08-01T09:00 2026-08-02T09:00 2026-08-08T09:00"},
	{"V5", "0 9 * * SAT-SUN", "UTC", "2026-08-01T09:00 2026-08-02T09:00 2026-08-08T09:00"},
	{"V5", "0 9 * * 1-7", "UTC", "2026-08-01T09:00 2026-08-02T09:00 2026-08-03T09:00 2026-08-04T09:00 2026-08-05T09:00 2026-08-06T09:00 2026-08-07T09:00 2026-08-08T09:00"},
	{"V5", "0 9 * * mon-sun", "UTC", "2026-08-01T09:00 2026-08-02T09:00 2026-08-03T09:00 2026-08-04T09:00"},
	{"V5", "0 0 * * 7", "", "2026-08-02T00:00 2026-08-09T00:00"},
	{"V5", "0 0 * * 0/2", "", "2026-08-01T00:00 2026-08-02T00:00 2026-08-04T00:00 2026-08-06T00:00 2026-08-08T00:00"},
	{"V5", "0 0 * * 7/2", "", "2026-08-01T00:00 2026-08-02T00:00 2026-08-04T00:00 2026-08-06T00:00 2026-08-08T00:00"},
	{"V5", "0 0 * * 1/2", "", "2026-08-03T00:00 2026-08-05T00:00 2026-08-07T00:00 2026-08-10T00:00"},
	{"V5", "0 9 * * 1-5", "", "2026-08-03T09:00 2026-08-04T09:00 2026-08-05T09:00 2026-08-06T09:00 2026-08-07T09:00 2026-08-10T09:00"},
	{"V6", "4 16 * * *", "America/New_York", "2025-03-08T21:04 2025-03-09T20:04 2025-03-10T20:04"},
	{"V6", "0 9 * * *", "Europe/Berlin", "2022-03-26T08:00 2022-03-27T07:00 2022-03-28T07:00"},
	{"V6", "20 2 * * *", "Europe/Paris", "2020-10-24T00:20 2020-10-25T00:20 2020-10-26T01:20"},
	{"S05", "0 0 31 * *", "UTC", "2025-01-31T00:00 2025-03-31T00:00 2025-05-31T00:00 2025-07-31T00:00 2025-08-31T00:00"},
	{"S06", "0 0 29 2 *", "UTC", "2020-02-29T00:00 2024-02-29T00:00"},
	{"S06", "0 0 29 2 *", "UTC", "2096-02-29T00:00 2104-02-29T00:00"},
	{"S09", "0 0 1-29 10 1-5", "UTC", "2017-10-17T00:00 2017-10-18T00:00 2017-10-19T00:00"},
	{"S09", "0 0 30,31 10 1-5", "UTC", "2017-10-17T00:00 2017-10-18T00:00 2017-10-19T00:00 2017-10-20T00:00 2017-10-23T00:00"},
	{"a step from a star is no restriction", "0 0 */10 * MON", "", "2026-06-01T00:00 2026-08-31T00:00 2026-09-21T00:00"},
	{"a step from a range is one", "0 0 1-31/10 * MON", "", "2026-08-01T00:00 2026-08-03T00:00 2026-08-10T00:00 2026-08-11T00:00 2026-08-17T00:00"},
	{"29 February on a Sunday, over a century's end", "0 0 29 2 */7", "", "2004-02-29T00:00 2032-02-29T00:00 2060-02-29T00:00 2088-02-29T00:00 2128-02-29T00:00"},
	{"the last day of the month", "0 0 L * *", "", "2023-12-31T00:00 2024-01-31T00:00 2024-02-29T00:00 2024-03-31T00:00 2024-04-30T00:00"},
	{"the last day beside another", "0 0 30,L 2,3,4 *", "", "2025-02-28T00:00 2025-03-30T00:00 2025-03-31T00:00 2025-04-30T00:00"},
	{"the last day or a weekday", "0 0 L * MON", "", "2025-02-24T00:00 2025-02-28T00:00 2025-03-03T00:00"},
	{"with seconds", "5,35 59 23 31 12 *", "", "2025-12-31T23:59:05 2025-12-31T23:59:35 2026-12-31T23:59:05"},
	{"the day that Apia left out", "30 2 * * *", "Pacific/Apia", "2011-12-29T12:30 2011-12-30T10:00(gap) 2011-12-30T12:30 2011-12-31T12:30"},
	{"the day of the week that Apia left out", "0 12 * * FRI", "Pacific/Apia", "2011-12-23T22:00 2011-12-30T10:00(gap) 2012-01-05T22:00"},
	{"the hour before the epoch", "0 23 * * *", "", "1969-12-30T23:00 1969-12-31T23:00 1970-01-01T23:00"},
	{"@hourly", "@hourly", "Asia/Kolkata", "2026-01-01T00:30 2026-01-01T01:30"},
	{"@weekly", "@Weekly", "", "2026-08-02T00:00 2026-08-09T00:00"},
	{"@monthly", "@monthly", "", "2026-08-01T00:00 2026-09-01T00:00"},
	{"@yearly", "@yearly", "", "2026-01-01T00:00 2027-01-01T00:00"},
	{"an interval counts from the epoch", "@every 90s", "Asia/Tokyo", "1969-12-31T23:58:30 1970-01-01T00:00 1970-01-01T00:01:30"},
	{"an interval over a change of clocks", "@every 6h", "America/New_York", "2026-03-08T00:00 2026-03-08T06:00 2026-03-08T12:00"},
}

func TestVectors(t *testing.T) {
	for _, v := range vectors {
		for dst := Wall; dst <= Vixie; dst++ {
			t.Run(v.set+" "+v.expr+" "+v.zone+" "+dst.String(), func(t *testing.T) {
				s := schedule(t, v.expr, v.zone, dst)
				var now time.Time
				for i, word := range strings.Fields(v.want) {
					text, gap := strings.CutSuffix(word, "(gap)")
					want := at(t, text)
					if i == 0 {
						now = want.Add(-time.Nanosecond)
					}
					if gap && dst == Wall {
						continue
					}
					var got time.Time
					var ok bool
					inTime(t, 100*time.Millisecond, func() { got, ok = s.Next(now) })
					if !ok || !got.Equal(want) {
						t.Fatalf("Next(%v) = %v, %t, want %v", now, got, ok, want)
					}
					now = got
				}
			})
		}
	}
}

// A pace over the hour that comes twice: Vixie follows elapsed time, Wall fires
// each wall time once.
func TestAPaceOverARepeatedHour(t *testing.T) {
	for _, c := range []struct {
		dst  DST
		want string
	}{
		{Wall, "2025-11-02T05:00 2025-11-02T05:30 2025-11-02T07:00 2025-11-02T07:30"},
		{Vixie, "2025-11-02T05:00 2025-11-02T05:30 2025-11-02T06:00 2025-11-02T06:30 2025-11-02T07:00"},
	} {
		t.Run(c.dst.String(), func(t *testing.T) {
			now := at(t, "2025-11-02T04:59")
			s := schedule(t, "*/30 * * * *", "America/New_York", c.dst)
			for _, word := range strings.Fields(c.want) {
				got, ok := s.Next(now)
				if want := at(t, word); !ok || !got.Equal(want) {
					t.Fatalf("Next(%v) = %v, %t, want %v", now, got, ok, want)
				}
				now = got
			}
		})
	}
}

// The zone of the host changes nothing.
func TestVectorsUnderOtherHostZones(t *testing.T) {
	if os.Getenv("CRON_TEST_CHILD") != "" {
		t.Skip("this is the child")
	}
	for _, tz := range []string{"Asia/Shanghai", "America/Los_Angeles", "UTC", "Australia/Lord_Howe", "/no/such/file"} {
		cmd := exec.Command(os.Args[0], "-test.run=^(TestVectors|TestPlan|TestNotes)$", "-test.v")
		cmd.Env = append(os.Environ(), "CRON_TEST_CHILD=1", "TZ="+tz, "ZONEINFO=/no/such/directory")
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "--- PASS: TestVectors/V1") {
			t.Errorf("with TZ=%s: %v\n%s", tz, err, out)
		}
	}
}
