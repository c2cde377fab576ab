//go:build !linux

package vfs

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

func (h *host) WaitWord(*atomic.Uint32, uint32, time.Duration) error {
	return fmt.Errorf("wait for a word in memory: %w", errors.ErrUnsupported)
}

func (h *host) WakeWord(*atomic.Uint32) {}
