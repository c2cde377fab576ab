package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// fault is one that is planted: a piece of a function replaced by another.
type fault struct {
	what     string // what the code does then, as a phrase
	file     string // from the module's directory
	fn       string // the function, "Type.method" for a method
	old, new string // old is there exactly once
	// pkg is the package whose tests have to notice, from the module's
	// directory, and tests those that are run first.
	pkg   string
	tests []string
	// hangs says that a test which does not end has noticed, too.
	hangs bool
}

// place names where the fault is planted.
func (f *fault) place() string { return f.file + " " + f.fn }

// errMoved says that a fault's place is not there any more: the code has moved
// on, and the table has to be mended.
var errMoved = errors.New("the place is not there any more: mend the table")

// plant returns the source with the fault in it.
func (f *fault) plant(source []byte) ([]byte, error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, f.file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || nameOf(fn) != f.fn {
			continue
		}
		from, to := fset.Position(fn.Pos()).Offset, fset.Position(fn.End()).Offset
		body := string(source[from:to])
		if n := strings.Count(body, f.old); n != 1 {
			return nil, fmt.Errorf("%s has %q %d times: %w", f.place(), f.old, n, errMoved)
		}
		body = strings.Replace(body, f.old, f.new, 1)
		return append(append(source[:from:from], body...), source[to:]...), nil
	}
	return nil, fmt.Errorf("%s: no such function: %w", f.place(), errMoved)
}

// nameOf is a function's name, with the type of its receiver.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if id, ok := t.(*ast.Ident); ok {
		return id.Name + "." + fn.Name.Name
	}
	return fn.Name.Name // of a generic type: there is none here that has a fault
}
