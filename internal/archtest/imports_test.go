package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// only says what of ours a package may import. A package without a row may
// import whatever the other rules allow.
var only = []struct {
	pkg  string
	may  []string
	also []string // what its tests may import beyond that
	why  string
}{
	{"broker", nil, nil, "the contract stands above everything and imports only the standard library"},
	{"cron", nil, nil, "expressions to instants: pure, usable alone"},
	{"limit", nil, nil, "arithmetic over a given time: pure, usable alone"},
	{"fair", nil, nil, "pure and generic, usable alone"},
	{"internal/vfs", nil, []string{"internal/vfs/crashfs"}, "it knows files and clocks, not jobs"},
	{"internal/vfs/crashfs", []string{"internal/vfs"}, nil, "a faulty file system knows files and clocks, not jobs"},
	{"internal/rare", nil, nil, "counters, that anything of the file queue may raise"},
	{"internal/journal", []string{"internal/vfs", "internal/rare"}, []string{"internal/vfs/crashfs", "internal/fuzztest", "internal/rare/raretest"}, "the log holds bytes; it knows nothing of jobs"},
	{"internal/jobstate", []string{"broker", "cron", "limit", "fair", "internal/rare"}, []string{"broker/brokertest", "internal/journal", "internal/fuzztest", "internal/rare/raretest"}, "apply(record) to state: deterministic, no I/O, no clock"},
	{"internal/notify", []string{"broker", "internal/jobstate"}, nil, "who waits for what, for the brokers that are built on jobstate"},
	{"internal/wire", []string{"broker"}, []string{"internal/fuzztest"}, "JSON shapes of the contract and no more"},
	{"broker/httpbroker", []string{"broker", "internal/wire"}, []string{"broker/brokertest", "broker/filebroker", "broker/membroker", ".", "server", "server/servertest", "internal/vfs/crashfs"}, "a client of the server knows the shapes of its API and no more"},
	{"server/dashboard", []string{".", "broker", "cron", "internal/text"}, []string{"broker/filebroker", "broker/membroker"}, "pages that people mount in servers of their own: they need no server of ours"},
	{"internal/migrate", []string{"broker"}, []string{"broker/brokertest", "broker/membroker", "broker/filebroker"}, "moves go through the contract, whatever the brokers are"},
	{"spoolprom", []string{".", "broker", "broker/filebroker"}, []string{"broker/membroker", "internal/vfs/crashfs"}, "an adapter beside the API: metrics, and nothing that others need"},
	{"spoolotel", []string{".", "broker"}, []string{"broker/membroker"}, "an adapter beside the API: traces, and nothing that others need"},
	{"broker/brokertest", []string{"broker", "cron", "limit", "fair", "internal/migrate"}, []string{"broker/membroker"}, "the suite's model is written apart from jobstate, or it would share its faults"},
	{"broker/membroker", []string{"broker", "internal/jobstate", "internal/notify", "cron", "limit", "fair"}, []string{"broker/brokertest", "internal/rare/raretest"}, "the state machine alone, in memory"},
}

// never says which packages are imported by few, tests aside.
var never = []struct {
	pkg string
	but []string // who may
	why string
}{
	{".", []string{"server/...", "spooltest", "spoolotel", "spoolprom", "examples/...", "cmd/..."}, "the root is the users' API: what it is built from cannot import it, and nothing else needs it"},
	{"broker/brokertest", nil, "a test suite does not belong in a binary"},
	{"internal/vfs/crashfs", nil, "a file system that forgets does not belong in a binary"},
	{"internal/fuzztest", nil, "test helpers do not belong in a binary"},
	{"internal/rare/raretest", []string{"internal/rare/unreached"}, "test helpers do not belong in a binary"},
	{"server/servertest", nil, "test helpers do not belong in a binary"},
	{"spooltest", []string{"examples/..."}, "test helpers do not belong in a binary"},
	{"internal/archtest", nil, "it has no code"},
	{"broker/brokerurl", []string{"cmd/...", "server/...", "examples/..."}, "it pulls in every broker: for programs, not for libraries"},
	{"server/...", []string{"server/...", "cmd/...", "examples/..."}, "the server is an edge"},
	{"spoolprom", []string{"cmd/...", "examples/..."}, "who does not want Prometheus compiles none of it in: the server takes a handler"},
	{"spoolotel", []string{"cmd/...", "examples/..."}, "who does not want OpenTelemetry compiles none of it in"},
	{"cmd/...", []string{"cmd/..."}, "programs are not libraries"},
	{"examples/...", []string{"examples/..."}, "examples are not libraries"},
}

// closed are the packages that compile in the standard library and
// golang.org/x/sys, nothing else: a directory as a queue adds no dependency.
var closed = []string{".", "broker", "broker/filebroker/...", "broker/membroker/...", "broker/brokertest", "cron", "limit", "fair", "spooltest", "server/dashboard",
	"internal/archtest", "internal/jobstate", "internal/journal", "internal/migrate", "internal/notify", "internal/rare/...", "internal/vfs/..."}

// notBrokers are the packages below broker/ that implement no broker.
var notBrokers = []string{"broker/brokertest", "broker/brokerurl"}

// manyBrokers may know more than one broker.
var manyBrokers = []string{"broker/brokerurl", "cmd/..."}

// brokerOf names the broker that a place belongs to; "" when to none.
func brokerOf(place string) string {
	below, ok := strings.CutPrefix(place, "broker/")
	if !ok || match(place, notBrokers...) {
		return ""
	}
	name, _, _ := strings.Cut(below, "/")
	return name
}

func TestTheArrowsPointDown(t *testing.T) {
	for _, goos := range systems {
		for _, breach := range breaches(everything(t, goos)) {
			t.Errorf("%s: %s", goos, breach)
		}
	}
}

// breaches lists what the packages import against the rows above.
func breaches(pkgs []*pkg) (found []string) {
	for _, p := range pkgs {
		if ours(p.ImportPath) {
			found = slices.Concat(found, beyondOnly(p), againstNever(p), otherBrokers(p))
		}
	}
	return append(found, foreign(pkgs)...)
}

func beyondOnly(p *pkg) (found []string) {
	for _, row := range only {
		if row.pkg != p.rel() {
			continue
		}
		for _, imp := range placesOf(p.Imports) {
			if !match(imp, row.may...) {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.rel(), imp, row.why))
			}
		}
		for _, imp := range placesOf(slices.Concat(p.TestImports, p.XTestImports)) {
			if imp != row.pkg && !match(imp, row.may...) && !match(imp, row.also...) {
				found = append(found, fmt.Sprintf("the tests of %s import %s: %s", p.rel(), imp, row.why))
			}
		}
	}
	return found
}

func againstNever(p *pkg) (found []string) {
	for _, row := range never {
		for _, imp := range placesOf(p.Imports) {
			if match(imp, row.pkg) && !match(p.rel(), row.but...) {
				found = append(found, fmt.Sprintf("%s imports %s: %s", p.rel(), imp, row.why))
			}
		}
	}
	return found
}

func otherBrokers(p *pkg) (found []string) {
	self, known := brokerOf(p.rel()), map[string]bool{}
	for _, imp := range placesOf(p.Imports) {
		if b := brokerOf(imp); b != "" {
			known[b] = true
			if self != "" && b != self {
				found = append(found, fmt.Sprintf("%s imports %s: brokers share the contract and jobstate, never each other", p.rel(), imp))
			}
		}
	}
	if len(known) > 1 && !match(p.rel(), manyBrokers...) {
		found = append(found, fmt.Sprintf("%s imports %d brokers: only brokerurl, cmd and tests may know more than one", p.rel(), len(known)))
	}
	return found
}

// foreign lists what the closed packages compile in, directly or not, that is
// neither ours nor the standard library nor golang.org/x/sys.
func foreign(pkgs []*pkg) (found []string) {
	byPath := map[string]*pkg{}
	for _, p := range pkgs {
		byPath[p.ImportPath] = p
	}
	for _, p := range pkgs {
		if !ours(p.ImportPath) || !match(p.rel(), closed...) {
			continue
		}
		seen := map[string]bool{}
		for todo := []string{p.ImportPath}; len(todo) > 0; {
			path := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			dep := byPath[path]
			if seen[path] || dep == nil || dep.Standard {
				continue
			}
			seen[path] = true
			todo = append(todo, dep.Imports...)
			if !ours(path) && !strings.HasPrefix(path, "golang.org/x/sys/") {
				found = append(found, fmt.Sprintf("%s compiles in %s: only the standard library and golang.org/x/sys are allowed", p.rel(), path))
			}
		}
	}
	return found
}

// TestEachRuleRefuses shows each rule a module that breaks it.
func TestEachRuleRefuses(t *testing.T) {
	in := func(place string, imports ...string) *pkg {
		p := &pkg{ImportPath: strings.TrimSuffix(module+"/"+place, "/.")}
		for _, imp := range imports {
			p.Imports = append(p.Imports, strings.TrimSuffix(module+"/"+imp, "/."))
		}
		return p
	}
	for _, c := range []struct {
		name string
		pkgs []*pkg
		want string
	}{
		{"the contract imports the file system", []*pkg{in("broker", "internal/vfs")}, "broker imports internal/vfs"},
		{"the log imports the contract", []*pkg{in("internal/journal", "broker")}, "internal/journal imports broker"},
		{"a test of the log imports the contract", []*pkg{{ImportPath: module + "/internal/journal", XTestImports: []string{module + "/broker"}}}, "the tests of internal/journal import broker"},
		{"an internal package imports the root", []*pkg{in("internal/jobs", ".")}, "internal/jobs imports .:"},
		{"a binary holds the suite", []*pkg{in("cmd/spool", "broker/brokertest")}, "cmd/spool imports broker/brokertest"},
		{"a broker imports another", []*pkg{in("broker/filebroker", "broker/membroker")}, "broker/filebroker imports broker/membroker"},
		{"the root knows two brokers", []*pkg{in(".", "broker/filebroker", "broker/membroker")}, ". imports 2 brokers"},
		{"the server compiles in Prometheus", []*pkg{in("server", "spoolprom")}, "server imports spoolprom"},
		{"the root compiles in a client of Redis", []*pkg{in(".", "broker/filebroker"), {ImportPath: module + "/broker/filebroker", Imports: []string{"example.org/redis"}}, {ImportPath: "example.org/redis"}}, ". compiles in example.org/redis"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := strings.Join(breaches(c.pkgs), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got %q, want %q in it", got, c.want)
			}
		})
	}
	t.Run("what is allowed passes", func(t *testing.T) {
		pkgs := []*pkg{in("cmd/spool", ".", "broker/filebroker", "broker/membroker"), in("broker/filebroker", "broker", "internal/jobstate"), {ImportPath: "os", Standard: true}}
		if got := breaches(pkgs); len(got) > 0 {
			t.Errorf("got %q", got)
		}
	})
}

// TestOnlyTestsStepTheClock: vfs.StepWall is there for tests of several
// processes, whose clocks no test can reach in another way.
func TestOnlyTestsStepTheClock(t *testing.T) {
	const name = "vfs.StepWall"
	steps := false
	for _, s := range sources(t) {
		uses := strings.Contains(s.text, name)
		if uses && !s.test {
			t.Errorf("%s names %s", s.path, name)
		}
		steps = steps || uses && s.dir() == "internal/proctest"
	}
	if !steps {
		t.Errorf("no test of internal/proctest uses %s: this rule is about nothing", name)
	}
}
