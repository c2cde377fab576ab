package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spoolq/spool/server"
	"github.com/spoolq/spool/server/servertest"
)

// caller makes requests of a server, each answer of which is checked.
type caller struct {
	testing.TB
	h      http.Handler
	header http.Header // of every request
}

func newCaller(t testing.TB, cfg server.Config) *caller {
	return &caller{t, servertest.Checked(t, newServer(t, cfg)), http.Header{}}
}

// answered is what came back.
type answered struct {
	testing.TB
	code   int
	header http.Header
	body   []byte
}

// do makes a request; what is like "GET /v1/queues".
func (c *caller) do(what, body string) *answered {
	c.Helper()
	method, path, _ := strings.Cut(what, " ")
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, reader)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, values := range c.header {
		r.Header[name] = values
		if name == "Host" {
			r.Host = values[0]
		}
	}
	w := httptest.NewRecorder()
	c.h.ServeHTTP(w, r)
	return &answered{c.TB, w.Code, w.Header(), w.Body.Bytes()}
}

// with is the same caller with one more header.
func (c *caller) with(name, value string) *caller {
	more := c.header.Clone()
	more.Set(name, value)
	return &caller{c.TB, c.h, more}
}

// want fails the test unless the answer has that status.
func (a *answered) want(code int) *answered {
	a.Helper()
	if a.code != code {
		a.Fatalf("answered %d, want %d: %s", a.code, code, a.body)
	}
	return a
}

// says fails the test unless the body holds a text.
func (a *answered) says(text string) *answered {
	a.Helper()
	if !bytes.Contains(a.body, []byte(text)) {
		a.Errorf("the answer does not say %q: %s", text, a.body)
	}
	return a
}

// get reads a value out of the body: names and numbers with dots between.
func (a *answered) get(path string) any {
	a.Helper()
	var v any
	d := json.NewDecoder(bytes.NewReader(a.body))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		a.Fatalf("%v: %s", err, a.body)
	}
	for name := range strings.SplitSeq(path, ".") {
		switch at := v.(type) {
		case map[string]any:
			v = at[name]
		case []any:
			var i int
			if err := json.Unmarshal([]byte(name), &i); err != nil || i >= len(at) {
				a.Fatalf("nothing at %s: %s", path, a.body)
			}
			v = at[i]
		default:
			a.Fatalf("nothing at %s: %s", path, a.body)
		}
	}
	return v
}

// text is a string in the body.
func (a *answered) text(path string) string {
	a.Helper()
	s, ok := a.get(path).(string)
	if !ok {
		a.Fatalf("no text at %s: %s", path, a.body)
	}
	return s
}
