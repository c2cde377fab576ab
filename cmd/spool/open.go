package main

import (
	"errors"
	"io/fs"
	"log/slog"

	"github.com/spoolq/spool/broker/filebroker"
)

// openStore opens the store in a directory. Only creating makes one.
func (a *app) openStore(dir string, how access) (*filebroker.Broker, error) {
	if how != creating {
		if err := isStore(dir); err != nil {
			return nil, err
		}
	}
	return filebroker.Open(dir, filebroker.Config{Logger: newLogger(a.errw, slog.LevelWarn), AllowUnsafeFS: a.unsafeFS})
}

// isStore says whether a directory holds a store, without touching it.
func isStore(dir string) error {
	err := filebroker.IsStore(dir)
	if err == nil || dir == "" || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &noStore{dir}
}
