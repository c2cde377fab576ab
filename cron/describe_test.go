package cron

import "testing"

func TestDescribe(t *testing.T) {
	for _, c := range []struct{ expr, want string }{
		{"* 0 * * *", "every minute from 00:00 to 00:59, every day"},
		{"* * * * *", "every minute"},
		{"*/15 * * * *", "every 15 minutes"},
		{"0,15,30,45 * * * *", "every 15 minutes"},
		{"*/7 * * * *", "at minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour"},
		{"*/60 * * * *", "every hour"},
		{"0 * * * *", "every hour"},
		{"5 * * * *", "at minute 5 of every hour"},
		{"*/20 8-11,17 * * *", "every 20 minutes from 08:00 to 11:59 and from 17:00 to 17:59, every day"},
		{"30 2 * * *", "at 02:30, every day"},
		{"0 9,17 * * mon-fri", "at 09:00 and 17:00, on Monday to Friday"},
		{"0 8-18 * * *", "at minute 0 of hours 8 to 18, every day"},
		{"0,20 8-18 * * *", "at minutes 0 and 20 of hours 8 to 18, every day"},
		{"0 0 1,15 * *", "at 00:00, on days 1 and 15 of the month"},
		{"0 0 L * *", "at 00:00, on the last day of the month"},
		{"0 0 1,L * *", "at 00:00, on day 1 and the last day of the month"},
		{"0 0 13 * FRI", "at 00:00, on day 13 of the month or on Friday"},
		{"0 0 1-31/10 * MON", "at 00:00, on days 1, 11, 21 and 31 of the month or on Monday"},
		{"0 0 */10 * MON", "at 00:00, on Monday where it is day 1, 11, 21 or 31 of the month"},
		{"0 0 1-31 * MON", "at 00:00, every day"},
		{"0 0 29 2 *", "at 00:00, on day 29 of the month, in February"},
		{"0 0 * JAN,MAR *", "at 00:00, every day, in January and March"},
		{"* * * 6-8 *", "every minute, in June to August"},
		{"* * * * * *", "every second"},
		{"*/10 * * * * *", "every 10 seconds"},
		{"7 * * * * *", "at second 7 of every minute"},
		{"5 30 2 * * *", "at 02:30:05, every day"},
		{"* 30 2 * * *", "every second, at 02:30, every day"},
		{"1,2 0 * * * *", "at seconds 1 and 2, every hour"},
		{"@every 5m", "every 5m, counted from 1970-01-01 00:00 UTC"},
		{"@every 10s", "every 10s, counted from 1970-01-01 00:00 UTC"},
		{"@every 24h", "every 24h, counted from 1970-01-01 00:00 UTC"},
		{"@every 90m", "every 1h30m, counted from 1970-01-01 00:00 UTC"},
		{"@every 1h10s", "every 1h0m10s, counted from 1970-01-01 00:00 UTC"},
		{"@every 90s", "every 1m30s, counted from 1970-01-01 00:00 UTC"},
	} {
		t.Run(c.expr, func(t *testing.T) {
			e, err := Parse(c.expr)
			if err != nil {
				t.Fatal(err)
			}
			if got := e.Describe(); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
