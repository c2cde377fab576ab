package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	pageBegin  = "<!-- measured: begin; written by make bench-peers -->\n"
	pageEnd    = "<!-- measured: end -->\n"
	redisBegin = "<!-- measured on Redis: begin; written by make bench-redis -->\n"
	redisEnd   = "<!-- measured on Redis: end -->\n"
)

// rewrite puts text in the place of what was measured before in a page, between
// the lines begin and end.
func rewrite(page, text, begin, end string) (string, error) {
	before, rest, ok := strings.Cut(page, begin)
	_, after, ended := strings.Cut(rest, end)
	if !ok || !ended {
		return "", fmt.Errorf("the page has no place for the table: the lines %q and %q", strings.TrimSpace(begin), strings.TrimSpace(end))
	}
	return before + begin + "\n" + text + "\n" + end + after, nil
}

func rewriteFile(name, text, begin, end string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	page, err := rewrite(string(old), text, begin, end)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(page), 0o644)
}
