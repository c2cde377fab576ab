package journal

import (
	"testing"

	"github.com/spoolq/spool/internal/rare/raretest"
)

func TestMain(m *testing.M) { raretest.Main(m) }
