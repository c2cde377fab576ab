package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"testing"
)

func parseText(t *testing.T, text string) *ast.File {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\n"+text, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestUndocumentedFindsExportedNames(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"a bare function", "func A() {}", []string{"A"}},
		{"a method of a generic type", "func (t *T[X]) A() {}", []string{"A"}},
		{"a method of an unexported type", "func (t *t) A() {}", nil},
		{"a documented function", "// A does.\nfunc A() {}", nil},
		{"a bare type", "type A int", []string{"A"}},
		{"a bare constant in a group", "const (\n\tA = 1\n\tB = 2 // two\n)", []string{"A"}},
		{"a documented group", "// All of them.\nconst (\n\tA = 1\n)", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, d := range parseText(t, c.text).Decls {
				got = append(got, undocumented(d)...)
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

func TestSleepsPassesOverBubbles(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       int
	}{
		{"a sleep", "time.Sleep(1)", 1},
		{"a sleep in a closure", "func() { time.Sleep(1) }()", 1},
		{"a sleep in a bubble", "synctest.Test(t, func() { time.Sleep(1) })", 0},
		{"a sleep in a bubble that a helper makes", "bubble(t, func() { time.Sleep(1) })", 0},
		{"a sleep in what no bubble runs", "other(t, func() { time.Sleep(1) })", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := len(sleeps(parseText(t, "func f() { "+c.body+" }"), []string{"bubble"})); got != c.want {
				t.Errorf("found %d, want %d", got, c.want)
			}
		})
	}
}
