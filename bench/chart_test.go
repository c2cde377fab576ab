package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

var chartCells = cells(
	[]row{{name: "one", faster: true}, {name: "two", faster: true}},
	[]sample{
		{Row: "one", Peer: "a", Value: 5}, {Row: "one", Peer: "b", Value: 70}, {Row: "one", Peer: "c", Value: 900},
		{Row: "two", Peer: "a", Value: 3000}, {Row: "two", Peer: "b", Value: 2000}, {Row: "two", Peer: "c", None: "a log"},
	})

func TestAChartHasTheBestOfItsLastRowOnTop(t *testing.T) {
	names, values := (&chart{rows: []string{"one", "two"}}).figures(chartCells)
	if want := []string{"c", "b", "a"}; !reflect.DeepEqual(names, want) {
		t.Errorf("from below: got %v, want %v", names, want)
	}
	if want := [][]float64{{900, 70, 5}, {0, 2000, 3000}}; !reflect.DeepEqual(values, want) {
		t.Errorf("got %v, want %v", values, want)
	}
	if low, high := decades(values); low != 1 || high < 3000 {
		t.Errorf("the axis goes from %v to %v", low, high)
	}
}

func TestAChartIsDrawn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.svg")
	if err := (&chart{title: "a title", rows: []string{"one", "two"}}).draw(file, chartCells); err != nil {
		t.Fatal(err)
	}
	svg, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"<svg", "a title", ">c<", ">3,000<"} {
		if !strings.Contains(string(svg), want) {
			t.Errorf("%q is not in the picture", want)
		}
	}
}

func TestAChartWithoutFiguresIsLeftOut(t *testing.T) {
	file := filepath.Join(t.TempDir(), "c.svg")
	if err := (&chart{rows: []string{"three"}}).draw(file, chartCells); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(file); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
}
