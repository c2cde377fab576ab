package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"path/filepath"
	"strings"

	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/internal/migrate"
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

// openSide opens one of the two stores of a move.
func (a *app) openSide(name string, how access) (migrate.Broker, error) {
	if strings.Contains(name, "://") {
		return nil, usagef("%s: this release opens directories", name)
	}
	return a.openStore(name, how)
}

// sideName names a store wherever it is said, without secrets.
func (a *app) sideName(name string) string {
	abs, err := filepath.Abs(name)
	if err != nil || strings.Contains(name, "://") {
		return name
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

// isStore says whether a directory holds a store, without touching it.
func isStore(dir string) error {
	err := filebroker.IsStore(dir)
	if err == nil || dir == "" || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &noStore{dir}
}
