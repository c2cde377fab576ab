package main

import (
	"fmt"
	"os"
	"strings"
)

const (
	pageBegin = "<!-- measured: begin; written by make bench-peers -->\n"
	pageEnd   = "<!-- measured: end -->\n"
)

// rewrite puts text in the place of what was measured before in a page.
func rewrite(page, text string) (string, error) {
	before, rest, ok := strings.Cut(page, pageBegin)
	_, after, ended := strings.Cut(rest, pageEnd)
	if !ok || !ended {
		return "", fmt.Errorf("the page has no place for the table: the lines %q and %q", strings.TrimSpace(pageBegin), strings.TrimSpace(pageEnd))
	}
	return before + pageBegin + "\n" + text + "\n" + pageEnd + after, nil
}

func rewriteFile(name, text string) error {
	old, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	page, err := rewrite(string(old), text)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return os.WriteFile(name, []byte(page), 0o644)
}
