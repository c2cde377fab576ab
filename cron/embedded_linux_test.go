package cron

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
)

// In an empty root there is no zone data but what is compiled in.
func TestZonesWithoutAHostsData(t *testing.T) {
	if dir := os.Getenv("CRON_TEST_ROOT"); dir != "" {
		if err := syscall.Chroot(dir); err != nil {
			t.Fatal(err)
		}
		for _, zone := range []string{"Europe/Berlin", "Europe/Isle_of_Man", "US/Eastern", "Asia/Calcutta"} {
			s := schedule(t, "0 9 * * *", zone, Wall)
			if s.Zone() != zone {
				t.Errorf("%s became %s", zone, s.Zone())
			}
		}
		s := schedule(t, "0 9 * * *", "Europe/Berlin", Wall)
		if got, ok := s.Next(at(t, "2022-03-27")); !ok || !got.Equal(at(t, "2022-03-27T07:00")) {
			t.Errorf("got %v, %t", got, ok)
		}
		return
	}
	if os.Getuid() != 0 {
		t.Skip("changing the root needs root")
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestZonesWithoutAHostsData$", "-test.v")
	cmd.Env = append(os.Environ(), "CRON_TEST_ROOT="+t.TempDir(), "ZONEINFO=/no/such/file", "TZ=Australia/Sydney")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestZonesWithoutAHostsData") {
		t.Errorf("%v\n%s", err, out)
	}
}
