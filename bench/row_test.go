package main

import (
	"reflect"
	"testing"
	"time"
)

func TestSpreadOf(t *testing.T) {
	for _, c := range []struct {
		name string
		list []float64
		want spread
	}{
		{"nothing has no spread", nil, spread{}},
		{"one run is its own spread", []float64{7}, spread{7, 7, 7}},
		{"the median of three is the middle one, whatever their order", []float64{9, 1, 4}, spread{4, 1, 9}},
		{"the median of four is between the middle two", []float64{10, 1, 4, 2}, spread{3, 1, 10}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := spreadOf(c.list); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

func TestPercentile(t *testing.T) {
	var list []time.Duration
	for i := range 200 {
		list = append(list, time.Duration(200-i))
	}
	for part, want := range map[float64]time.Duration{0: 1, 0.5: 101, 0.99: 199, 1: 200} {
		if got := percentile(list, part); got != want {
			t.Errorf("%v: got %v, want %v", part, got, want)
		}
	}
	if got := percentile(nil, 0.5); got != 0 {
		t.Errorf("of nothing: got %v", got)
	}
}

func TestARatioIsTheMedianOfEachRunsOwn(t *testing.T) {
	half, whole := 0.5, 1.0
	got := newCell(&row{name: "r", faster: true}, "p", []sample{
		{Value: 100, ceiling: ceiling{Grow: 50, Zero: 200}, CPU: 3, Syncs: &half, Share: &half},
		{Value: 300, ceiling: ceiling{Grow: 50, Zero: 100}, CPU: 1, Syncs: &whole, Share: &whole},
		{Value: 200, ceiling: ceiling{Grow: 400, Zero: 800}, CPU: 2, Syncs: &whole, Share: &half},
	})
	if want := (spread{200, 100, 300}); got.value != want {
		t.Errorf("value: got %v, want %v", got.value, want)
	}
	if want := (spread{0.5, 0.25, 3}); got.ofZero != want {
		t.Errorf("of zero: got %v, want %v", got.ofZero, want)
	}
	if want := (spread{2, 0.5, 6}); got.ofGrow != want {
		t.Errorf("of grow: got %v, want %v", got.ofGrow, want)
	}
	if got.cpu != 2 || *got.syncs != 1 || *got.share != 0.5 {
		t.Errorf("got %v µs, %v syncs, %v share", got.cpu, *got.syncs, *got.share)
	}
}

func TestCellsPutTheBestFirstAndWhatHasNoFigureLast(t *testing.T) {
	rows := []row{{name: "rate", faster: true}, {name: "time"}}
	var samples []sample
	for _, r := range rows {
		samples = append(samples,
			sample{Row: r.name, Peer: "small", Value: 1},
			sample{Row: r.name, Peer: "without", None: "a log"},
			sample{Row: r.name, Peer: "large", Value: 2})
	}
	var got [][2]string
	for _, c := range cells(rows, samples) {
		got = append(got, [2]string{c.row.name, c.peer})
	}
	want := [][2]string{{"rate", "large"}, {"rate", "small"}, {"rate", "without"}, {"time", "small"}, {"time", "large"}, {"time", "without"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAFaultInOneRunIsNotForgotten(t *testing.T) {
	c := newCell(&row{name: "r", faster: true}, "p", []sample{{Value: 5}, {Fault: "it fell over"}, {Value: 7}})
	if c.value.median != 6 || c.fault != "it fell over" {
		t.Errorf("got %v, %q", c.value, c.fault)
	}
}
