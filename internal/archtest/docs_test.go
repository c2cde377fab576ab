package archtest

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// document is one Markdown file of the module.
type document struct{ path, text string }

func documents(t *testing.T) (docs []document) {
	t.Helper()
	dir := moduleDir(t)
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && name != dir && (strings.HasPrefix(d.Name(), ".") || nestedModule(name)) {
			return filepath.SkipDir
		}
		if filepath.Ext(name) != ".md" {
			return nil
		}
		text, err := os.ReadFile(name)
		docs = append(docs, document{name, string(text)})
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(docs) < 5 {
		t.Fatalf("only %d documents found", len(docs))
	}
	return docs
}

// TestLinksLeadSomewhere: a link to a file names one.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#]+)(#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```")
	for _, d := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(code.ReplaceAllString(d.text, ""), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(d.path), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", d.path, m[1])
			}
		}
	}
}

// TestTheReadmesCodeCompiles: each block of Go stands in the examples, line by
// line, so that it is compiled with them.
func TestTheReadmesCodeCompiles(t *testing.T) {
	dir := moduleDir(t)
	readme, err := os.ReadFile(filepath.Join(dir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	example, err := os.ReadFile(filepath.Join(dir, "example_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	compiled := codeLines(string(example))
	blocks := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllStringSubmatch(string(readme), -1)
	if len(blocks) == 0 {
		t.Fatal("there is no block of Go in README.md")
	}
	for _, b := range blocks {
		if !strings.Contains(compiled, codeLines(b[1])) {
			t.Errorf("these lines of README.md are not in example_test.go:\n%s", b[1])
		}
	}
}

// codeLines joins the lines of a text that are not empty, without their indent.
func codeLines(text string) string {
	var lines strings.Builder
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" {
			lines.WriteString(line + "\n")
		}
	}
	return lines.String()
}

// TestNamedTestsAreThere: who says that a test holds a promise names one.
func TestNamedTestsAreThere(t *testing.T) {
	there := map[string]bool{}
	for _, s := range sources(t) {
		if !s.test {
			continue
		}
		place := s.dir()
		if place == "" {
			place = "spool"
		}
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllStringSubmatch(s.text, -1) {
			there[place+"."+m[1]] = true
		}
	}
	named := 0
	for _, d := range documents(t) {
		for _, m := range regexp.MustCompile("`([\\w/]+\\.Test\\w+)`").FindAllStringSubmatch(d.text, -1) {
			if named++; !there[m[1]] {
				t.Errorf("%s names %s, which is not there", d.path, m[1])
			}
		}
	}
	if named == 0 {
		t.Error("no document names a test")
	}
}

// TestNamedCommandsAreThere: a document names only targets that the Makefile
// has, and commands that spool has.
func TestNamedCommandsAreThere(t *testing.T) {
	dir := moduleDir(t)
	makefile, err := os.ReadFile(filepath.Join(dir, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents(t) {
		for _, m := range regexp.MustCompile("(?m)(?:^|`)make ([a-z-]+)").FindAllStringSubmatch(d.text, -1) {
			if !strings.Contains(string(makefile), "\n"+m[1]+":") {
				t.Errorf("%s names make %s, which the Makefile does not have", d.path, m[1])
			}
		}
		for _, m := range regexp.MustCompile("(?m)(?:^|`|\\| )spool ([a-z]+)").FindAllStringSubmatch(d.text, -1) {
			found, err := filepath.Glob(filepath.Join(dir, "cmd/spool/testdata/help/spool-"+m[1]+"*.txt"))
			if err != nil || len(found) == 0 {
				t.Errorf("%s names spool %s, which is no command", d.path, m[1])
			}
		}
	}
}
