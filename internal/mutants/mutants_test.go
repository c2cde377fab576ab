package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// module is the module's directory, as the tests of this package see it.
const module = "../.."

// TestEveryFaultHasItsPlace plants each fault, without running a test: what is left
// is Go, and the tests that the table names are there.
func TestEveryFaultHasItsPlace(t *testing.T) {
	const least = 45
	faults := allFaults()
	if len(faults) < least {
		t.Errorf("there are %d faults, want %d", len(faults), least)
	}
	seen := map[string]bool{}
	for _, f := range faults {
		source, err := os.ReadFile(filepath.Join(module, f.file))
		if err != nil {
			t.Fatal(err)
		}
		planted, err := f.plant(source)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), f.file, planted, 0); err != nil {
			t.Errorf("%s: %s: %v", f.place(), f.what, err)
		}
		if bytes.Equal(planted, source) || seen[f.place()+f.what] {
			t.Errorf("%s: %s: changes nothing, or is there twice", f.place(), f.what)
		}
		seen[f.place()+f.what] = true
	}
	for _, missing := range unknownTests(t, faults) {
		t.Error(missing)
	}
}

// unknownTests lists what the table names as tests and is none.
func unknownTests(t *testing.T, faults []*fault) (missing []string) {
	texts := map[string]string{}
	for _, f := range faults {
		if texts[f.pkg] == "" {
			files, err := filepath.Glob(filepath.Join(module, f.pkg, "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range files {
				b, err := os.ReadFile(name)
				if err != nil {
					t.Fatal(err)
				}
				texts[f.pkg] += string(b)
			}
		}
		for _, name := range f.tests {
			if !strings.Contains(texts[f.pkg], "\nfunc "+name+"(t ") {
				missing = append(missing, fmt.Sprintf("%s has no test %s", f.pkg, name))
			}
		}
		if len(f.tests) == 0 {
			missing = append(missing, f.place()+": no test is named")
		}
	}
	return missing
}

// TestASampleIsKilled plants a few faults whose tests are fast.
func TestASampleIsKilled(t *testing.T) {
	var out bytes.Buffer
	failed, err := run(context.Background(), &out, module, "a count is believed|for that of another$", 2)
	if err != nil || failed || !strings.Contains(out.String(), "2 killed, 0 survived, 0 not judged") {
		t.Errorf("failed: %v, %v\n%s", failed, err, &out)
	}
}

// toy is a module with one function.
func toy(t *testing.T) *judge {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module toy\n\ngo 1.24\n",
		"p/p.go": "package p\n\n// Min is the smaller one.\nfunc Min(a, b int) int {\n\tif a < b {\n\t\treturn a\n\t}\n\treturn b\n}\n",
		"p/p_test.go": `package p

import "testing"

func TestLeft(t *testing.T) { want(t, 1, 2, 1) }

func TestRight(t *testing.T) { want(t, 4, 3, 3) }

func want(t *testing.T, a, b, min int) {
	if got := Min(a, b); got != min {
		t.Errorf("got %d, want %d", got, min)
	}
}
`,
	} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text), 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	return &judge{dir: dir, tmp: t.TempDir()}
}

func TestEachFateIsTold(t *testing.T) {
	j := toy(t)
	fate := func(old, new string, tests ...string) string {
		v := j.try(context.Background(), &fault{file: "p/p.go", fn: "Min", old: old, new: new, pkg: "p", tests: tests})
		return v.fate()
	}
	for _, c := range []struct{ name, got, want string }{
		{"a test that is named notices", fate("return a", "return b", "TestLeft"), "killed by TestLeft"},
		{"another one notices", fate("return a", "return b", "TestRight"), "killed by TestLeft, not by what the table names"},
		{"a test crashes", fate("return a", "panic(a)", "TestLeft"), "killed by TestLeft"},
		{"none notices", fate("a < b", "a <= b", "TestLeft"), "SURVIVED"},
		{"it does not compile", fate("return a", "return c", "TestLeft"), "NOT JUDGED: the fault does not compile"},
		{"the place has gone", fate("return c", "return a", "TestLeft"), "NOT JUDGED: p/p.go Min has \"return c\" 0 times"},
		{"the place is two", fate("return", "return 1 +", "TestLeft"), "NOT JUDGED: p/p.go Min has \"return\" 2 times"},
	} {
		if !strings.HasPrefix(c.got, c.want) {
			t.Errorf("%s: %s", c.name, c.got)
		}
	}
	without := fault{pkg: "p", tests: []string{"TestLeft", "TestGone"}}
	if err := j.control(context.Background(), []*fault{&without}); !errors.Is(err, errControl) || !strings.Contains(err.Error(), "TestGone") {
		t.Errorf("the control says %v", err)
	}
}

func TestATestThatDoesNotEndIsBlamedOnlyIfTheTableSaysSo(t *testing.T) {
	out := []byte("=== RUN   TestA\n--- PASS: TestA (0.00s)\n=== RUN   TestB\npanic: test timed out after 1m0s\n\trunning tests:\n")
	if killer, err := blame(out, true); killer != "TestB (did not end)" || err != nil {
		t.Errorf("expected: %q, %v", killer, err)
	}
	if killer, err := blame(out, false); killer != "" || err == nil {
		t.Errorf("not expected: %q, %v", killer, err)
	}
}

func TestNamesOfFunctionsHaveTheirTypes(t *testing.T) {
	f := fault{file: "x.go", fn: "a.f", old: "1", new: "2"}
	source := []byte("package x\n\nfunc f() int { return 1 }\n\ntype a int\n\nfunc (a *a) f() int { return 1 }\n")
	got, err := f.plant(source)
	if err != nil || !slices.Equal(bytes.Split(got, []byte("\n"))[2], []byte("func f() int { return 1 }")) || !bytes.Contains(got, []byte("func (a *a) f() int { return 2 }")) {
		t.Errorf("%s, %v", got, err)
	}
	f.fn = "b.f"
	if _, err := f.plant(source); !errors.Is(err, errMoved) {
		t.Errorf("a type that is not there: %v", err)
	}
}
