// Command unreached runs the tests of packages, named as for go test, prints how
// often each rare path of the file queue was reached, and ends with 1 when one was
// reached by none of them, or a test failed.
package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/rare/raretest"
)

func main() {
	if err := run(os.Stdout, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "unreached:", err)
		os.Exit(1)
	}
}

func run(out io.Writer, args []string) error {
	dir, err := os.MkdirTemp("", "rare-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	test := exec.Command("go", append([]string{"test", "-count=1", "-timeout", "40m"}, args...)...)
	test.Env = append(os.Environ(), raretest.Variable+"="+dir)
	test.Stdout, test.Stderr = out, out
	failed := test.Run()
	counts, binaries, err := raretest.Read(dir)
	if err == nil && binaries == 0 {
		err = errors.New("no test binary wrote what it reached: does its TestMain call raretest.Main?")
	}
	if err == nil {
		err = report(out, counts)
	}
	return errors.Join(failed, err)
}

// report prints a table, the rarest first. Its error counts those that were never
// reached.
func report(out io.Writer, counts map[string]uint64) error {
	paths := slices.Collect(rare.Paths)
	slices.SortStableFunc(paths, func(a, b rare.Path) int { return cmp.Compare(counts[a.String()], counts[b.String()]) })
	never := 0
	for _, p := range paths {
		n := counts[p.String()]
		if n == 0 {
			never++
		}
		if _, err := fmt.Fprintf(out, "%9d  %v\n", n, p); err != nil {
			return err
		}
	}
	if never > 0 {
		return fmt.Errorf("%d of %d rare paths were reached by no test", never, len(paths))
	}
	_, err := fmt.Fprintf(out, "all %d rare paths were reached\n", len(paths))
	return err
}
