package dashboard

import (
	"testing"

	"github.com/spoolq/spool"
)

// dashboardOf is a dashboard that is closed when the test ends.
func dashboardOf(t testing.TB, c *spool.Client, cfg Config) *Dashboard {
	t.Helper()
	d, err := New(c, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = d.Close() })
	return d
}
