package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// What a reader can hold: a function fits on a screen, a file is one noun.
const (
	maxFuncLines     = 70
	maxFileLines     = 600
	maxTestFileLines = 800
)

// source is one parsed Go file of the module.
type source struct {
	path string // from the module's directory, with slashes
	test bool
	text string
	fset *token.FileSet
	ast  *ast.File
}

// dir is the source's directory from the module's, "" for the root.
func (s *source) dir() string { return strings.TrimPrefix(path.Dir("/"+s.path), "/") }

func (s *source) line(p token.Pos) int { return s.fset.Position(p).Line }

// sources parses every Go file of the module, whatever its build constraint.
func sources(t *testing.T) []*source {
	t.Helper()
	dir := moduleDir(t)
	var all []*source
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != dir && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") || nestedModule(name)) {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") {
			return nil
		}
		s, err := parse(dir, name)
		all = append(all, s)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(all) == 0 {
		t.Fatal("no Go files found")
	}
	return all
}

// parse reads one file of the module in dir.
func parse(dir, name string) (*source, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	rel, err := filepath.Rel(dir, name)
	if err != nil {
		return nil, err
	}
	s := &source{path: filepath.ToSlash(rel), test: strings.HasSuffix(name, "_test.go"), text: string(text), fset: token.NewFileSet()}
	s.ast, err = parser.ParseFile(s.fset, name, text, parser.ParseComments|parser.SkipObjectResolution)
	return s, err
}

func nestedModule(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "go.mod"))
	return err == nil
}

func TestAFunctionFitsOnAScreen(t *testing.T) {
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		for _, d := range s.ast.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				if n := s.line(fn.End()) - s.line(fn.Pos()) + 1; n > maxFuncLines {
					t.Errorf("%s:%d: %s has %d lines, the budget is %d", s.path, s.line(fn.Pos()), fn.Name.Name, n, maxFuncLines)
				}
			}
		}
	}
}

func TestAFileIsOneNoun(t *testing.T) {
	for _, s := range sources(t) {
		budget := maxFileLines
		if s.test {
			budget = maxTestFileLines
		}
		if n := strings.Count(s.text, "\n"); n > budget {
			t.Errorf("%s has %d lines, the budget is %d", s.path, n, budget)
		}
	}
}

func TestEveryPackageSaysWhatItIs(t *testing.T) {
	documented, seen := map[string]bool{}, map[string]string{}
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		seen[s.dir()] = s.ast.Name.Name
		if s.ast.Doc != nil {
			documented[s.dir()] = true
		}
	}
	for dir, name := range seen {
		if !documented[dir] {
			t.Errorf("package %s in %q has no package comment", name, dir)
		}
	}
}

func TestExportedSymbolsAreDocumented(t *testing.T) {
	for _, s := range sources(t) {
		if s.test || s.ast.Name.Name == "main" {
			continue
		}
		for _, d := range s.ast.Decls {
			for _, name := range undocumented(d) {
				t.Errorf("%s:%d: %s is exported and has no comment", s.path, s.line(d.Pos()), name)
			}
		}
	}
}

// undocumented returns the exported names that a declaration leaves without a
// comment. A comment on a group counts for what the group holds.
func undocumented(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Doc == nil && d.Name.IsExported() && (d.Recv == nil || exportedReceiver(d.Recv)) {
			names = append(names, d.Name.Name)
		}
	case *ast.GenDecl:
		if d.Doc != nil {
			return nil
		}
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				if spec.Doc == nil && spec.Name.IsExported() {
					names = append(names, spec.Name.Name)
				}
			case *ast.ValueSpec:
				for _, n := range spec.Names {
					if spec.Doc == nil && spec.Comment == nil && n.IsExported() {
						names = append(names, n.Name)
					}
				}
			}
		}
	}
	return names
}

func exportedReceiver(recv *ast.FieldList) bool {
	for typ := recv.List[0].Type; ; {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return x.IsExported()
		default:
			return false
		}
	}
}

// maySleep lists the test functions that call time.Sleep outside a synctest
// bubble, and why: each waits for a real process or a real clock, none hides a
// race. The key is the file and the function.
var maySleep = map[string]string{}

func TestNoTestSleepsToHideARace(t *testing.T) {
	used, all := map[string]bool{}, sources(t)
	bubbles := bubbleMakers(all)
	for _, s := range all {
		if !s.test {
			continue
		}
		for _, d := range s.ast.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || fn.Body == nil {
				continue
			}
			key := s.path + ":" + fn.Name.Name
			for _, pos := range sleeps(fn.Body, bubbles[s.dir()]) {
				used[key] = true
				if maySleep[key] == "" {
					t.Errorf("%s:%d: %s calls time.Sleep outside a synctest bubble: wait for the condition itself", s.path, s.line(pos), fn.Name.Name)
				}
			}
		}
	}
	for key := range maySleep {
		if !used[key] {
			t.Errorf("%s may sleep and does not: drop its row", key)
		}
	}
}

// bubbleMakers returns, by directory, the test functions that run what they
// are given in a synctest bubble, be it by way of another one.
func bubbleMakers(all []*source) map[string][]string {
	makers := map[string][]string{}
	for grown := true; grown; {
		grown = false
		for _, s := range all {
			for _, d := range s.ast.Decls {
				fn, ok := d.(*ast.FuncDecl)
				if !ok || !s.test || fn.Body == nil || fn.Recv != nil || slices.Contains(makers[s.dir()], fn.Name.Name) {
					continue
				}
				if callsBubble(fn.Body, makers[s.dir()]) {
					makers[s.dir()] = append(makers[s.dir()], fn.Name.Name)
					grown = true
				}
			}
		}
	}
	return makers
}

func callsBubble(n ast.Node, makers []string) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		found = found || ok && isBubble(call, makers)
		return !found
	})
	return found
}

func isBubble(call *ast.CallExpr, makers []string) bool {
	id, ok := call.Fun.(*ast.Ident)
	return ok && slices.Contains(makers, id.Name) || isCall(call, "synctest", "Test")
}

// sleeps finds the calls of time.Sleep in n that stand outside of the
// arguments of synctest.Test and of the named functions, which call it.
func sleeps(n ast.Node, bubbles []string) (at []token.Pos) {
	ast.Inspect(n, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		if isBubble(call, bubbles) {
			return false
		}
		if isCall(call, "time", "Sleep") {
			at = append(at, call.Pos())
		}
		return true
	})
	return at
}

func isCall(call *ast.CallExpr, pkg, name string) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != name {
		return false
	}
	id, ok := sel.X.(*ast.Ident)
	return ok && id.Name == pkg
}

func TestNothingIsLeftForLater(t *testing.T) {
	later := regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)
	for _, s := range sources(t) {
		for i, line := range strings.Split(s.text, "\n") {
			if m := later.FindString(line); m != "" {
				t.Errorf("%s:%d says %s: do it, or open an issue and say what holds now", s.path, i+1, m)
			}
		}
	}
}
