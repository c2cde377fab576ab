// Package raretest gathers which rare paths the tests of several packages reached.
package raretest

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/rare"
)

// Variable names the directory that test binaries write to what they reached; one
// that does not find it set writes nothing.
const Variable = "SPOOL_RARE"

// Main is the TestMain of a package whose tests reach rare paths.
func Main(m *testing.M) {
	code := m.Run()
	if dir := os.Getenv(Variable); dir != "" {
		if err := write(dir); err != nil {
			fmt.Fprintln(os.Stderr, "rare paths:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// write notes the counts of this process in a file of its own.
func write(dir string) (err error) {
	f, err := os.CreateTemp(dir, "reached-")
	if err != nil {
		return err
	}
	for p := range rare.Paths {
		if _, err := fmt.Fprintf(f, "%d\t%v\n", rare.Count(p), p); err != nil {
			return err
		}
	}
	return f.Close()
}

// Read adds up what test binaries wrote to a directory, and says how many did.
func Read(dir string) (counts map[string]uint64, binaries int, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "reached-*"))
	if err != nil {
		return nil, 0, err
	}
	counts = map[string]uint64{}
	for _, name := range files {
		if err := add(counts, name); err != nil {
			return nil, 0, fmt.Errorf("read %s: %w", name, err)
		}
	}
	return counts, len(files), nil
}

func add(counts map[string]uint64, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close() // only read from
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		number, path, _ := strings.Cut(lines.Text(), "\t")
		n, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			return err
		}
		counts[path] += n
	}
	return lines.Err()
}
