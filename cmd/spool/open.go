package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

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
	b, err := filebroker.Open(dir, filebroker.Config{Logger: slog.New(slog.NewTextHandler(os.Stderr, nil))})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// isStore says whether a directory looks like a store, without touching it.
func isStore(dir string) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &noStore{dir}
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%w: it is a file", &noStore{dir})
	}
	// A store whose CURRENT is lost has segments, and is for verify and repair.
	for _, pattern := range []string{"CURRENT", "*.log", "*.idx"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return nil
		}
	}
	return &noStore{dir}
}
