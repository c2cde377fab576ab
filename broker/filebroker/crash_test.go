package filebroker

import (
	"testing"
	"testing/synctest"

	"github.com/spoolq/spool/internal/vfs/crashfs"
)

func TestScene(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t, crashfs.Config{Seed: 1})
		a, b := s.open(), s.open()
		everyRecord(s, a, b, 0)
		t.Log(len(s.moments), s.seq, a.real.log.Pos())
		a.drop()
	})
}
