package main

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
)

// openFile opens the store in a directory. Only creating makes one.
func openFile(dir string, how access) (broker.Broker, error) {
	if how != creating {
		if err := isStore(dir); err != nil {
			return nil, err
		}
	}
	b, err := filebroker.Open(dir, filebroker.Config{Logger: newLogger(os.Stderr, slog.LevelWarn)})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// isStore says whether a directory holds a store, without touching it.
func isStore(dir string) error {
	err := filebroker.IsStore(dir)
	if err == nil || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &noStore{dir}
}
