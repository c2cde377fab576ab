package main

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/rare"
	"github.com/spoolq/spool/internal/rare/raretest"
)

// TestMain is that of a package whose tests are counted, too: see
// TestWhatATestReachedIsGathered.
func TestMain(m *testing.M) { raretest.Main(m) }

func TestAPathThatNoTestReachedIsRed(t *testing.T) {
	counts := map[string]uint64{}
	for p := range rare.Paths {
		counts[p.String()] = 3
	}
	var out bytes.Buffer
	if err := report(&out, counts); err != nil || !strings.Contains(out.String(), "rare paths were reached") {
		t.Errorf("%v\n%s", err, &out)
	}
	delete(counts, rare.TailCut.String())
	out.Reset()
	err := report(&out, counts)
	if err == nil || !strings.Contains(err.Error(), "1 of ") || !strings.HasPrefix(out.String(), "        0  "+rare.TailCut.String()+"\n") {
		t.Errorf("%v\n%s", err, &out)
	}
}

// TestWhatATestReachedIsGathered runs this test binary again, with a directory.
func TestWhatATestReachedIsGathered(t *testing.T) {
	const child = "SPOOL_RARE_CHILD"
	if os.Getenv(child) != "" {
		rare.Reached(rare.TailCut)
		return
	}
	dir := t.TempDir()
	for range 2 {
		cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
		cmd.Env = append(os.Environ(), child+"=1", raretest.Variable+"="+dir)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	counts, binaries, err := raretest.Read(dir)
	if err != nil || binaries != 2 || counts[rare.TailCut.String()] != 2 || counts[rare.Poisoned.String()] != 0 {
		t.Errorf("%d binaries reached it %d times, %v", binaries, counts[rare.TailCut.String()], err)
	}
}
