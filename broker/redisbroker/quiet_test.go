package redisbroker

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

// TestTheClientLibraryWritesNothingPastTheLogger looks at the standard error of a
// process that finds no server.
func TestTheClientLibraryWritesNothingPastTheLogger(t *testing.T) {
	const child = "SPOOL_TEST_FINDS_NO_SERVER"
	if os.Getenv(child) != "" {
		if b, err := Open(t.Context(), "redis://127.0.0.1:1", Config{}); err == nil {
			_ = b.Close()
			t.Error("there is a server at port 1")
		}
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS") || strings.Contains(string(out), "redis: ") {
		t.Errorf("%v\n%s", err, out)
	}
}
