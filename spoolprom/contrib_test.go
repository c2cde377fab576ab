package spoolprom_test

import (
	"bytes"
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pb33f/go-yaml"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"
)

// TestTheDashboardAndTheAlertsUseWhatIsScraped: each expression parses, and each
// metric and label in it is in a scrape of a store with everything.
func TestTheDashboardAndTheAlertsUseWhatIsScraped(t *testing.T) {
	there := labelNames(families(t))
	used := map[string]bool{}
	check := func(where, expr, text string) {
		for _, problem := range wrong(there, used, expr, text) {
			t.Errorf("%s: %s", where, problem)
		}
	}
	for _, r := range alerts(t) {
		check(r.Alert, r.Expr, r.Annotations["summary"]+r.Annotations["description"])
	}
	for _, e := range dashboard(t) {
		check(e.title, e.expr, e.legend)
	}
	if len(used) < 30 {
		t.Errorf("only %d metrics are used: %v", len(used), used)
	}
}

// TestTheCheckOfExpressionsFindsWhatIsWrong shows it what it has to refuse.
func TestTheCheckOfExpressionsFindsWhatIsWrong(t *testing.T) {
	there := map[string]map[string]bool{"a": {"x": true}, "b": {"y": true}}
	for _, c := range []struct{ name, expr, text, want string }{
		{"a metric that is not there", "nope", "", "no metric nope"},
		{"a label that the metric has not", `a{y="1"}`, "", "a has no label y"},
		{"a grouping by a label that it has not", "sum by (y) (a)", "", "no metric in it has the label y"},
		{"a match on a label that it has not", "a * on (z) a", "", "no metric in it has the label z"},
		{"a legend of a label that is grouped away", "sum by (x) (a)", "{{y}}", "text names y"},
		{"an expression that is none", "sum by (a", "", "parse error"},
		{"a selector of no metric", `{x="1"}`, "", "names no metric"},
		{"what is right", `sum by (x) (rate(a{x="1"}[5m])) / on (x) a`, "{{x}} {{ $labels.x }} {{ $value }}", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := strings.Join(wrong(there, map[string]bool{}, c.expr, c.text), "; ")
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
}

// fromTargets are labels that Prometheus adds to each series.
var fromTargets = []string{"instance", "job"}

var named = regexp.MustCompile(`\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}`)

// wrong lists what an expression, and the text beside it, use that is not there.
func wrong(there map[string]map[string]bool, used map[string]bool, expr, text string) (problems []string) {
	root, err := parser.ParseExpr(expr)
	if err != nil {
		return []string{"parse error: " + err.Error()}
	}
	known := map[string]bool{}
	for _, name := range fromTargets {
		known[name] = true
	}
	var grouped []string
	parser.Inspect(root, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.VectorSelector:
			labels := there[n.Name]
			used[n.Name] = true
			switch {
			case n.Name == "":
				problems = append(problems, n.String()+" names no metric")
			case labels == nil:
				problems = append(problems, "there is no metric "+n.Name)
			}
			for _, m := range n.LabelMatchers {
				if labels != nil && m.Name != model.MetricNameLabel && !labels[m.Name] && !slices.Contains(fromTargets, m.Name) {
					problems = append(problems, n.Name+" has no label "+m.Name)
				}
			}
			for name := range labels {
				known[name] = true
			}
		case *parser.AggregateExpr:
			grouped = append(grouped, n.Grouping...)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				grouped = append(append(grouped, n.VectorMatching.MatchingLabels...), n.VectorMatching.Include...)
			}
		}
		return nil
	})
	for _, name := range grouped {
		if !known[name] {
			problems = append(problems, "no metric in it has the label "+name)
		}
	}
	left := labelsOf(root, there)
	for _, m := range named.FindAllStringSubmatch(text, -1) {
		if !left[m[1]] {
			problems = append(problems, "its text names "+m[1]+", which the result has not")
		}
	}
	return problems
}

// labelsOf are the labels of an expression's result, as far as they are known.
func labelsOf(e parser.Node, there map[string]map[string]bool) map[string]bool {
	left := map[string]bool{}
	switch e := e.(type) {
	case *parser.VectorSelector:
		for name := range there[e.Name] {
			left[name] = true
		}
		for _, name := range fromTargets {
			left[name] = true
		}
		return left
	case *parser.AggregateExpr:
		for _, name := range e.Grouping {
			left[name] = true
		}
		return left
	case *parser.BinaryExpr:
		if e.RHS.Type() == parser.ValueTypeScalar || e.Op == parser.LUNLESS {
			return labelsOf(e.LHS, there)
		}
		if e.LHS.Type() == parser.ValueTypeScalar {
			return labelsOf(e.RHS, there)
		}
		right := labelsOf(e.RHS, there)
		for name := range labelsOf(e.LHS, there) {
			left[name] = right[name]
		}
		return left
	}
	for _, child := range parser.Children(e) {
		for name := range labelsOf(child, there) {
			left[name] = true
		}
	}
	return left
}

// rule is a rule of an alert as Prometheus reads it.
type rule struct {
	Alert       string            `yaml:"alert"`
	Expr        string            `yaml:"expr"`
	For         string            `yaml:"for"`
	Labels      map[string]string `yaml:"labels"`
	Annotations map[string]string `yaml:"annotations"`
}

// alerts reads the rules; a field that Prometheus does not know is an error.
func alerts(t *testing.T) (rules []rule) {
	t.Helper()
	text, err := os.ReadFile("../contrib/prometheus/alerts.yml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []rule `yaml:"rules"`
		} `yaml:"groups"`
	}
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{}
	for _, g := range file.Groups {
		for _, r := range g.Rules {
			if r.Alert == "" || names[r.Alert] || r.Annotations["summary"] == "" || r.Labels["severity"] == "" {
				t.Errorf("a rule without a name of its own, a summary or a severity: %+v", r)
			}
			if _, err := model.ParseDuration(r.For); r.For != "" && err != nil {
				t.Errorf("%s: %v", r.Alert, err)
			}
			names[r.Alert] = true
		}
		rules = append(rules, g.Rules...)
	}
	if len(rules) == 0 {
		t.Fatal("there are no rules")
	}
	return rules
}

// shown is an expression of the dashboard.
type shown struct{ title, expr, legend string }

var (
	variables   = strings.NewReplacer("$__rate_interval", "5m", "$queue", ".*", "$task", ".*")
	labelValues = regexp.MustCompile(`^label_values\((.*), (\w+)\)$`)
)

// dashboard reads the dashboard's expressions, its variables among them.
func dashboard(t *testing.T) (all []shown) {
	t.Helper()
	text, err := os.ReadFile("../contrib/grafana/spool.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			Type    string
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
		Templating struct {
			List []struct{ Name, Type, Definition string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		if p.Type != "row" && len(p.Targets) == 0 {
			t.Errorf("the panel %q shows nothing", p.Title)
		}
		for _, target := range p.Targets {
			all = append(all, shown{p.Title, variables.Replace(target.Expr), target.LegendFormat})
		}
	}
	for _, v := range board.Templating.List {
		if v.Type != "query" {
			continue
		}
		m := labelValues.FindStringSubmatch(v.Definition)
		if m == nil {
			t.Errorf("the variable %s is %q", v.Name, v.Definition)
			continue
		}
		all = append(all, shown{"variable " + v.Name, variables.Replace(m[1]), "{{" + m[2] + "}}"})
	}
	return all
}
