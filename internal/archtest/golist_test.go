package archtest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

const module = "github.com/spoolq/spool"

// systems are those that the code is built for: an import can hide behind a
// build constraint.
var systems = []string{"linux", "darwin", "windows"}

// pkg is what go list says of a package.
type pkg struct {
	ImportPath   string
	Standard     bool
	Imports      []string
	TestImports  []string
	XTestImports []string
}

// rel is the package's place in the module: "." for the root, "broker".
func (p *pkg) rel() string { return relative(p.ImportPath) }

// relative cuts the module off an import path; foreign paths stay whole.
func relative(path string) string {
	if path == module {
		return "."
	}
	return strings.TrimPrefix(path, module+"/")
}

func ours(path string) bool { return path == module || strings.HasPrefix(path, module+"/") }

// root finds the module's directory: the nearest one above with a go.mod.
var root = sync.OnceValues(func() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", errors.New("no go.mod above the test")
		}
		dir = filepath.Dir(dir)
	}
})

func moduleDir(t *testing.T) string {
	t.Helper()
	dir, err := root()
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// listed caches what go list says, by system.
var listed sync.Map

// everything returns the module's packages and all that they import, as the
// given system sees them.
func everything(t *testing.T, goos string) []*pkg {
	t.Helper()
	dir := moduleDir(t)
	load, _ := listed.LoadOrStore(goos, sync.OnceValues(func() ([]*pkg, error) { return goList(dir, goos) }))
	pkgs, err := load.(func() ([]*pkg, error))()
	if err != nil {
		t.Fatal(err)
	}
	return pkgs
}

func goList(dir, goos string) ([]*pkg, error) {
	const fields = "ImportPath,Standard,Imports,TestImports,XTestImports"
	cmd := exec.Command("go", "list", "-deps", "-json="+fields, "./...")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS="+goos, "CGO_ENABLED=0")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go list for %s: %w\n%s", goos, err, stderr.Bytes())
	}
	var pkgs []*pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(pkg)
		if err := dec.Decode(p); errors.Is(err, io.EOF) {
			return pkgs, nil
		} else if err != nil {
			return nil, fmt.Errorf("read go list: %w", err)
		}
		pkgs = append(pkgs, p)
	}
}

// match says whether a package's place fits one of the patterns: a place, or a
// place and "/..." for it and all below.
func match(place string, patterns ...string) bool {
	return slices.ContainsFunc(patterns, func(pat string) bool {
		base, tree := strings.CutSuffix(pat, "/...")
		return place == base || tree && strings.HasPrefix(place, base+"/")
	})
}

// placesOf returns those of the import paths that are ours, as places.
func placesOf(imports []string) (places []string) {
	for _, imp := range imports {
		if ours(imp) {
			places = append(places, relative(imp))
		}
	}
	return places
}
