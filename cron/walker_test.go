package cron

import (
	"archive/zip"
	"flag"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// The walker is the second opinion: it shares no code with the package. It reads
// expressions by splitting strings and walks the minutes of a stretch of time one
// by one, as a clock on the wall shows them.

// walked is one real minute.
type walked struct {
	unix    int64
	fields  [5]uint8 // minute, hour, day of month, month, day of week
	last    bool     // of the month
	again   bool     // the clock showed this before
	skipped []walked // wall minutes that were left out just before
}

func wallMinute(t time.Time) walked {
	return walked{
		unix:   t.Unix(),
		fields: [5]uint8{uint8(t.Minute()), uint8(t.Hour()), uint8(t.Day()), uint8(t.Month()), uint8(t.Weekday())},
		last:   time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, time.UTC).Day() == 1,
	}
}

// walk returns the minutes of [from, to); it looks at the two days before, too.
func walk(loc *time.Location, from, to int64) (minutes []walked) {
	showed := map[int64]bool{} // wall times, as instants that show them in UTC
	clock := int64(0)          // that of the minute before
	for u := from - 48*3600; u < to; u += 60 {
		t := time.Unix(u, 0).In(loc)
		year, month, day := t.Date()
		w := time.Date(year, month, day, t.Hour(), t.Minute(), 0, 0, time.UTC).Unix()
		if u >= from {
			m := wallMinute(t)
			m.again = showed[w]
			for left := clock + 60; left < w; left += 60 {
				if !showed[left] {
					m.skipped = append(m.skipped, wallMinute(time.Unix(left, 0).UTC()))
				}
			}
			minutes = append(minutes, m)
		}
		showed[w], clock = true, w
	}
	return minutes
}

// simple is an expression as the walker reads it.
type simple struct {
	match     [5][60]bool
	star      [5]bool
	lastDay   bool
	isAtFixed bool
}

func simpleExpr(expr string) (s simple) {
	limits := [5][2]int{{0, 59}, {0, 23}, {1, 31}, {1, 12}, {0, 6}}
	number := func(text string) int {
		for names, first := range map[string]int{"sunmontuewedthufrisat": 0, "janfebmaraprmayjunjulaugsepoctnovdec": 1} {
			if i := strings.Index(names, strings.ToLower(text)); i >= 0 && len(text) == 3 {
				return i/3 + first
			}
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			panic(err)
		}
		return n
	}
	for f, text := range strings.Fields(expr) {
		s.star[f] = text[0] == '*'
		for _, item := range strings.Split(text, ",") {
			if item == "L" {
				s.lastDay = true
				continue
			}
			item, step, stepped := strings.Cut(item, "/")
			lo, hi := limits[f][0], limits[f][1]
			if a, b, ranged := strings.Cut(item, "-"); ranged {
				lo, hi = number(a), number(b)
			} else if item != "*" {
				lo = number(item)
				if !stepped {
					hi = lo
				}
			}
			n := 1
			if stepped {
				n = number(step)
			}
			for v := lo; v <= hi; v += n {
				s.match[f][v] = true
				if f == 4 && v == 7 {
					s.match[f][0] = true
				}
			}
		}
	}
	s.isAtFixed = !s.star[0] && !s.star[1]
	return s
}

func (s *simple) matches(m *walked) bool {
	if !s.match[0][m.fields[0]] || !s.match[1][m.fields[1]] || !s.match[3][m.fields[3]] {
		return false
	}
	date := s.match[2][m.fields[2]] || s.lastDay && m.last
	weekday := s.match[4][m.fields[4]]
	if !s.star[2] && !s.star[4] {
		return date || weekday
	}
	return date && weekday
}

func (s *simple) fires(m *walked, dst DST) bool {
	if dst == Vixie && s.isAtFixed {
		for i := range m.skipped {
			if s.matches(&m.skipped[i]) {
				return true
			}
		}
	}
	if m.again && (dst == Wall || s.isAtFixed) {
		return false
	}
	return s.matches(m)
}

var walkedExprs = []string{
	"30 2 * * *", "0 2 * * *", "0 0 * * *", "30 1 * * *", "15 2 * * *", "45 1 * * *", "0 2,3 * * *", "5 0 * * *",
	"59 23 * * *", "0 12 * * *", "0 * * * *", "*/15 * * * *", "*/7 */5 * * *", "*/30 2 * * *", "10-50/20 1-3 * * *", "* 2 * * *",
	"0-59 2 * * *", "0 0 31 * *", "0 0 L * *", "30 2 8 3 *", "0 1 1-7 * SUN", "0 1 */2 * SUN", "0 0 13 * 5", "30 1 * 10,11 0",
	"1 0 * * 2/2", "0 9 * * 6-7", "17 3 29 2 *", "30 2 30 12 *", "20,40 0-23/3 L,15 jan-jun *", "* * * * *", "*/1 * * * *",
	"0 0-23 * * *", "0,30 * * * 1-5",
}

var walkedZones = []string{
	"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "America/Santiago", "Asia/Kolkata", "Africa/Casablanca",
	"Asia/Tehran", "America/Sao_Paulo", "Pacific/Chatham", "Antarctica/Troll",
}

// compare checks every tick in [from, to) against the walker, both policies.
func compare(t *testing.T, zone string, from, to int64, exprs []string) {
	t.Helper()
	loc, err := Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	minutes := walk(loc, from, to)
	for _, expr := range exprs {
		opinion := simpleExpr(expr)
		for dst := Wall; dst <= Vixie; dst++ {
			s := schedule(t, expr, zone, dst)
			next, ok := s.nextSecond(from)
			for i := range minutes {
				m := &minutes[i]
				fires := opinion.fires(m, dst)
				if fires != (ok && next == m.unix) {
					t.Errorf("%q in %s, %v: at %v the walker says %t, Next says %v %t",
						expr, zone, dst, time.Unix(m.unix, 0).UTC(), fires, time.Unix(next, 0).UTC(), ok)
					break
				}
				if fires {
					next, ok = s.nextSecond(next + 1)
				}
			}
		}
	}
}

var walkAll = flag.Bool("walk-all", false, "walk every zone and every change of clocks, not a sample")

// Ten zones over three years. The expressions that fire at a pace are walked
// around the changes of clocks, where the difficulty is.
func TestNextAgreesWithTheWalker(t *testing.T) {
	sparse := slices.DeleteFunc(slices.Clone(walkedExprs), func(expr string) bool { return expr[0] == '*' })
	from, to := at(t, "2024-01-01").Unix(), at(t, "2027-01-01").Unix()
	for _, zone := range walkedZones {
		t.Run(zone, func(t *testing.T) {
			step := int64(30)
			if *walkAll {
				step = 1
			}
			// A sample walks one stretch of the thirty, another one each time.
			for part := rand.Int64N(step); part < 30; part += step {
				length := (to - from) / 30 / 60 * 60
				compare(t, zone, from+part*length, from+(part+1)*length, sparse)
			}
			for _, u := range changes(t, zone, from, to) {
				if !*walkAll && rand.IntN(3) > 0 {
					continue
				}
				compare(t, zone, u-26*3600, u+26*3600, walkedExprs)
			}
		})
	}
}

// changes lists the instants at which a zone's offset changes, by the hour
// before which each lies.
func changes(t *testing.T, zone string, from, to int64) (all []int64) {
	t.Helper()
	loc, err := Zone(zone)
	if err != nil {
		t.Fatal(err)
	}
	_, before := time.Unix(from, 0).In(loc).Zone()
	for u := from; u < to; u += 3600 {
		if _, off := time.Unix(u, 0).In(loc).Zone(); off != before {
			all, before = append(all, u), off
		}
	}
	return all
}

// Every kind of change of clocks that a zone has seen or will see: a sample of
// all of them from 2000 to 2040.
func TestNextAgreesWithTheWalkerAroundChanges(t *testing.T) {
	zones := slices.Concat(walkedZones, []string{
		"Pacific/Apia", "Pacific/Kwajalein", "Pacific/Fakaofo", "Asia/Pyongyang", "America/Caracas", "Europe/Istanbul", "Africa/Cairo",
		"Asia/Gaza", "America/Havana", "Asia/Amman", "America/Asuncion", "Atlantic/Azores", "America/Scoresbysund", "Europe/Dublin",
		"America/St_Johns", "Asia/Kathmandu", "Pacific/Norfolk", "Antarctica/Casey", "Europe/Volgograd", "America/Godthab",
	})
	const sample = 25
	if *walkAll {
		zones = zoneNames(t)
	}
	type change struct {
		zone string
		at   int64
	}
	var all []change
	for _, zone := range zones {
		for _, u := range changes(t, zone, at(t, "2000-01-01").Unix(), at(t, "2041-01-01").Unix()) {
			all = append(all, change{zone, u})
		}
	}
	if len(all) < 1000 {
		t.Fatalf("%d changes found, far too few", len(all))
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	if !*walkAll {
		all = all[:sample]
	}
	for _, c := range all {
		compare(t, c.zone, c.at-30*3600, c.at+26*3600, walkedExprs)
	}
}

// zoneNames lists the zones that Go's own copy of the data has.
func zoneNames(t *testing.T) (names []string) {
	t.Helper()
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	z, err := zip.OpenReader(filepath.Join(strings.TrimSpace(string(root)), "lib/time/zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		if !strings.HasSuffix(f.Name, "/") && f.Name != "Factory" {
			names = append(names, f.Name)
		}
	}
	return names
}

// Strictly increasing, 10,000 steps over each change of clocks, and the ticks do
// not depend on where the question starts.
func TestNextAlwaysGrows(t *testing.T) {
	for _, zone := range walkedZones {
		for _, u := range changes(t, zone, at(t, "2025-01-01").Unix(), at(t, "2026-01-01").Unix()) {
			for dst := Wall; dst <= Vixie; dst++ {
				s := schedule(t, "*/13 * * * * *", zone, dst)
				now := u - 5*3600
				for range 10_000 {
					next, ok := s.nextSecond(now + 1)
					if !ok || next <= now {
						t.Fatalf("%s %v: after %d comes %d, %t", zone, dst, now, next, ok)
					}
					middle := now + (next-now)/2
					if again, _ := s.nextSecond(middle + 1); again != next {
						t.Fatalf("%s %v: after %d comes %d, but after %d, on the way, %d", zone, dst, now, next, middle, again)
					}
					now = next
				}
			}
		}
	}
}
