//go:build !linux

package filebroker

import "testing"

// smallDisk is a plain directory: nothing can be mounted here.
func smallDisk(t *testing.T, _ int) string { return t.TempDir() }
