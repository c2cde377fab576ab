package spoolprom_test

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/spoolprom"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

const (
	page  = "../docs/metrics.md"
	begin = "<!-- table: made by go test ./spoolprom -run TestTheTableOfTheDocs -update -->\n"
	end   = "<!-- end -->\n"
)

// TestTheTableOfTheDocsIsWhatIsScraped: each metric stands in docs/metrics.md with
// its type, labels and meaning, and no other.
func TestTheTableOfTheDocsIsWhatIsScraped(t *testing.T) {
	table := "\n| metric | type | labels | meaning |\n|---|---|---|---|\n"
	for _, f := range families(t) {
		labels := map[string]bool{}
		for _, m := range f.Metric {
			for _, l := range m.Label {
				labels["`"+l.GetName()+"`"] = true
			}
		}
		table += fmt.Sprintf("| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()),
			strings.Join(slices.Sorted(maps.Keys(labels)), ", "), f.GetHelp())
	}
	table += "\n"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("%s has no place for the table", page)
	}
	if now := before + begin + table + end + after; now != string(text) {
		if !*update {
			t.Fatalf("%s is out of date: go test ./spoolprom -run TestTheTableOfTheDocs -update", page)
		}
		if err := os.WriteFile(page, []byte(now), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestThePopulatedStoreHasEveryMetric: what a collector can send is sent, so that
// the table and the checks of the dashboard leave nothing out.
func TestThePopulatedStoreHasEveryMetric(t *testing.T) {
	c := quiet(membroker.New(membroker.Config{}))
	defer c.Close()
	said := make(chan *prometheus.Desc, 1000)
	spoolprom.NewCollector(c, fresh).Describe(said)
	close(said)
	there := labelNames(families(t))
	for d := range said {
		_, rest, _ := strings.Cut(d.String(), `fqName: "`)
		name, _, _ := strings.Cut(rest, `"`)
		if there[name] == nil {
			t.Errorf("%s is not there", name)
		}
	}
}
