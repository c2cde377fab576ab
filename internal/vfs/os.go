package vfs

import (
	"errors"
	"io"
	"io/fs"
)

// pathError wraps what an operation on name returned, as package os does.
func pathError(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// closeAfter closes c, which err made useless, and joins what that returns.
func closeAfter(c io.Closer, err error) error {
	return errors.Join(err, c.Close())
}
