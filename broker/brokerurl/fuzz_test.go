package brokerurl

import (
	"errors"
	"strings"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/fuzztest"
)

// FuzzURL reads arbitrary text as the URL of a broker: it is a directory, a scheme
// that is known, or an error, and what people are shown of it holds no password.
func FuzzURL(f *testing.F) {
	for _, url := range []string{
		"./jobs", "file:///var/lib/a%20b", "file://", "file:///%", "memory://", "memory://x", "postgres://a", "redis:6379", "",
		"redis://:secret@h/1", "http://127.0.0.1:8080", "https://:SECRET@host/base?q#f", "http://[::1", "http://@", "a://b@c@d",
	} {
		f.Add(url)
	}
	const secret = "kJ8hYq"
	f.Fuzz(func(t *testing.T, url string) {
		fuzztest.Bound(t, func() {
			dir, ok, err := Dir(url)
			if err != nil && !errors.Is(err, broker.ErrInvalid) || ok != (err == nil && dir != "") {
				t.Fatalf("%q is the directory %q, %v, %v", url, dir, ok, err)
			}
			Redacted(url)
			scheme, rest, isURL := strings.Cut(url, "://")
			if !isURL || scheme == "file" || strings.Contains(url, secret) {
				return
			}
			hidden := scheme + "://user:" + secret + "@" + rest
			if shown := Redacted(hidden); strings.Contains(shown, secret) {
				t.Fatalf("%q is shown as %q", hidden, shown)
			}
		})
	})
}
