package main

import (
	"io"
	"log/slog"
)

// newLogger returns a logger that writes as the tool's own notes look.
func newLogger(w io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(noteWriter{w}, &slog.HandlerOptions{Level: level, ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
		if len(groups) == 0 && (a.Key == slog.TimeKey || a.Key == slog.LevelKey) {
			return slog.Attr{}
		}
		return a
	}}))
}

// noteWriter puts the tool's name before each line: a handler writes a line at
// a time.
type noteWriter struct{ w io.Writer }

func (n noteWriter) Write(p []byte) (int, error) {
	if _, err := n.w.Write(append([]byte("spool: "), p...)); err != nil {
		return 0, err
	}
	return len(p), nil
}
