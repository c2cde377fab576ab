package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

func TestCount(t *testing.T) {
	for v, want := range map[float64]string{
		0.4567: "0.457", 9.87654: "9.88", 99.44: "99.4", 100: "100", 999.6: "1,000", 12345: "12,300", 1234567: "1,230,000",
	} {
		if got := count(v); got != want {
			t.Errorf("%v: got %s, want %s", v, got, want)
		}
	}
}

// lines writes a table of one rate and one time, and returns its lines by peer.
func lines(t *testing.T, samples ...sample) map[string]string {
	t.Helper()
	var b bytes.Buffer
	rows := []row{{name: "rate", unit: "jobs/s", faster: true}, {name: "time", unit: "µs"}}
	writeTable(&b, about{}, cells(rows, samples))
	byPeer := map[string]string{}
	for line := range strings.Lines(b.String()) {
		if f := strings.Split(line, " | "); len(f) == 10 {
			byPeer[f[1]] = line
		}
	}
	return byPeer
}

func TestTheTablePrintsLossesLikeWins(t *testing.T) {
	for _, c := range []struct {
		name, row    string
		spool, other float64
		want         string
	}{
		{"a rate that spool has twice", "rate", 2000, 1000, "2.00 ×"},
		{"a rate of which spool has a quarter", "rate", 1000, 4000, "0.25 ×"},
		{"a time of which spool needs half", "time", 100, 200, "2.00 ×"},
		{"a time that spool needs twice", "time", 200, 100, "0.50 ×"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := lines(t, sample{Row: c.row, Peer: "spool", Value: c.spool}, sample{Row: c.row, Peer: "other", Value: c.other})
			if !strings.HasSuffix(got["other"], "| "+c.want+" |\n") {
				t.Errorf("got %q, want %q at its end", got["other"], c.want)
			}
			if !strings.HasSuffix(got["spool"], "|  |\n") {
				t.Errorf("spool is compared with itself: %q", got["spool"])
			}
		})
	}
}

func TestTheTableNamesWhatIsMissing(t *testing.T) {
	got := lines(t,
		sample{Row: "rate", Peer: "gone", Fault: "missing: no such program\nat all"},
		sample{Row: "rate", Peer: "log", None: "a log, without workers"},
		sample{Row: "rate", Peer: "fewer", Value: 1, Jobs: 20_000})
	for peer, want := range map[string]string{
		"gone": "FAILED: missing: no such program; at all", "log": "a log, without workers", "fewer (of 20,000)": "1 – 1",
	} {
		if !strings.Contains(got[peer], want) {
			t.Errorf("%s: %q does not say %q", peer, got[peer], want)
		}
	}
}

func TestTheTableSaysWhenTheMachineWasBusy(t *testing.T) {
	for load, want := range map[string]bool{"0.30": false, "3.10": true, "unknown": false} {
		var b bytes.Buffer
		writeTable(&b, about{Load: load}, nil)
		if got := strings.Contains(b.String(), "busy with other work"); got != want {
			t.Errorf("at a load of %s: got %v", load, got)
		}
	}
}

func TestFaultsAreNamedOnce(t *testing.T) {
	err := faults([]sample{{Peer: "a"}, {Peer: "b", Fault: "down"}, {Peer: "b", Fault: "down"}, {Peer: "c", None: "a log"}})
	if err == nil || err.Error() != "b: down" {
		t.Errorf("got %v", err)
	}
	if err := faults([]sample{{Peer: "a"}, {Peer: "c", None: "a log"}}); err != nil {
		t.Errorf("without a fault: %v", err)
	}
}

func TestRewriteReplacesOnlyWhatWasMeasured(t *testing.T) {
	page := "before\n" + pageBegin + "old\n" + pageEnd + "after\n"
	got, err := rewrite(page, "new", pageBegin, pageEnd)
	if want := "before\n" + pageBegin + "\nnew\n" + pageEnd + "after\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for _, bad := range []string{"no place", pageBegin + "no end", pageEnd + pageBegin} {
		if _, err := rewrite(bad, "new", pageBegin, pageEnd); err == nil {
			t.Errorf("%q was rewritten", bad)
		}
	}
}

func TestReadLinesReadsWhatWasWritten(t *testing.T) {
	a, all, err := readLines(strings.NewReader(`{"when":"today","peers":[{"name":"spool"}]}
{"row":"rate","peer":"spool","run":1,"value":3,"grow":7,"zero":9,"syncs":0.5}
`))
	if err != nil || a.When != "today" || len(a.Peers) != 1 || len(all) != 1 {
		t.Fatalf("got %v, %v, %v", a, all, err)
	}
	if s := all[0]; s.Row != "rate" || s.Value != 3 || s.Grow != 7 || s.Zero != 9 || *s.Syncs != 0.5 {
		t.Errorf("got %+v", s)
	}
	if _, _, err := readLines(strings.NewReader("{}\nnonsense\n")); err == nil || !strings.HasPrefix(err.Error(), "line 2") {
		t.Errorf("of nonsense: %v", err)
	}
}

func TestChooseRefusesUnknownNames(t *testing.T) {
	name := func(s string) string { return s }
	all := []string{"a", "b", "c"}
	if got, err := choose(all, "c,a", name); err != nil || len(got) != 2 || got[0] != "c" || got[1] != "a" {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := choose(all, "", name); err != nil || len(got) != 3 {
		t.Errorf("of nothing: %v, %v", got, err)
	}
	if _, err := choose(all, "d", name); err == nil || !strings.Contains(err.Error(), "a, b, c would do") {
		t.Errorf("of an unknown name: %v", err)
	}
}

func TestAReasonIsFoundInItsError(t *testing.T) {
	if err := none("a log"); !errors.Is(err, errNone) || err.Error() != "none: a log" {
		t.Errorf("got %v", err)
	}
}
