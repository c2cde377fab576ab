package bench

import (
	"math"
	"testing"
	"time"
)

func TestARowIsTheMedianOfItsRounds(t *testing.T) {
	var all rounds
	for _, r := range []struct {
		jobs int
		raw  float64
	}{{100, 1000}, {900, 1000}, {300, 2000}} {
		all.add(round{jobs: r.jobs, took: time.Second, syncs: 50, calls: []time.Duration{time.Duration(r.jobs) * time.Microsecond}}, r.raw)
	}
	var row Row
	all.fill(&row)
	want := Row{PerSecond: 300, RawPerSecond: 1000, Ratio: 0.15, SyncsPerJob: 150.0 / 1300, P50us: 300, P99us: 900, P999us: 900, N: 1300}
	if row != want {
		t.Errorf("got %+v, want %+v", row, want)
	}
}

func TestPercentile(t *testing.T) {
	var list []time.Duration
	for i := range 100 {
		list = append(list, time.Duration(100-i)*time.Microsecond)
	}
	for part, want := range map[float64]float64{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := percentile(list, part); got != want {
			t.Errorf("%v: got %v, want %v", part, got, want)
		}
	}
	if got := percentile(nil, 0.5) + median(nil); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}

// TestTheRawReadingCountsRecords: batches of ten are ten records for a sync.
func TestTheRawReadingCountsRecords(t *testing.T) {
	d, err := newDisk(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.file.Close()
	got, err := d.perSecond(10, 20*time.Millisecond)
	if err != nil || got <= 0 || math.IsInf(got, 0) {
		t.Errorf("got %v, %v", got, err)
	}
	if d.off%(10*recordBytes) != 0 || d.off == 0 {
		t.Errorf("%d bytes were written", d.off)
	}
}

func TestAPayloadHasHundredBytes(t *testing.T) {
	if n := len(payload()); n != 100 {
		t.Errorf("it has %d", n)
	}
}
