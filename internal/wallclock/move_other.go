//go:build !(linux && amd64)

package wallclock

import (
	"errors"
	"fmt"
	"time"
)

// Move is not known here.
func Move(time.Duration) error {
	return fmt.Errorf("%w: a wall clock of a process's own is for Linux on x86-64", errors.ErrUnsupported)
}
