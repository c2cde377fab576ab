// Package servertest checks what a server answers against its own description.
package servertest

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/pb33f/libopenapi"
	validator "github.com/pb33f/libopenapi-validator"
	"github.com/pb33f/libopenapi-validator/errors"
)

// Document returns the description that a server serves, which has to be right
// itself.
func Document(t testing.TB, h http.Handler) validator.Validator {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/openapi.json", nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("the description: %d %s", w.Code, w.Body)
	}
	doc, err := libopenapi.NewDocument(w.Body.Bytes())
	if err != nil {
		t.Fatalf("the description cannot be read: %v", err)
	}
	v, errs := validator.NewValidator(doc)
	if len(errs) > 0 {
		t.Fatalf("the description: %v", errs)
	}
	if ok, errs := v.ValidateDocument(); !ok {
		for _, e := range errs {
			t.Errorf("the description is wrong: %s: %s", e.Message, e.Reason)
		}
		t.FailNow()
	}
	return v
}

// The description is the same for every server, and takes a while to read.
var (
	shared      sync.Once
	description validator.Validator
)

// Checked is h, each answer of which is compared with h's description, and each
// request to which h said yes. Streams pass unseen. It is safe for concurrent
// use.
func Checked(t testing.TB, h http.Handler) http.Handler {
	shared.Do(func() { description = Document(t, h) })
	v := description
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/events") || !strings.HasPrefix(r.URL.Path, "/v1/") || strings.HasPrefix(r.URL.Path, "/v1/openapi") {
			h.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		h.ServeHTTP(rec, r)
		check(t, v, r, body, rec)
		for name, values := range rec.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes()) // a client that has gone
	})
}

func check(t testing.TB, v validator.Validator, r *http.Request, body []byte, rec *httptest.ResponseRecorder) {
	if rec.Code/100 == 3 || r.Method == http.MethodHead {
		return // not by what is described
	}
	if rec.Code == http.StatusNotFound || rec.Code == http.StatusMethodNotAllowed {
		if !strings.Contains(rec.Header().Get("Content-Type"), "problem+json") {
			t.Errorf("%s %s: %d is no problem document: %s", r.Method, r.URL, rec.Code, rec.Body)
		}
		return // a path that is in no description
	}
	copied := r.Clone(r.Context())
	if copied.Header.Get("Authorization") == "" { // a server without credentials
		copied.Header.Set("Authorization", "Bearer none")
	}
	copied.Body = io.NopCloser(bytes.NewReader(body))
	if rec.Code < 300 {
		if ok, errs := v.ValidateHttpRequestSync(copied); !ok {
			for _, e := range errs {
				t.Errorf("%s %s was taken, but is not as described: %s: %s\n%.2000s", r.Method, r.URL, e.Message, reasons(e), body)
			}
		}
		copied.Body = io.NopCloser(bytes.NewReader(body))
	}
	if rec.Code == http.StatusNoContent || rec.Header().Get("Content-Type") == "application/octet-stream" {
		return
	}
	if ok, errs := v.ValidateHttpResponse(copied, rec.Result()); !ok {
		for _, e := range errs {
			t.Errorf("%s %s is not answered as described: %s: %s\n%.2000s", r.Method, r.URL, e.Message, reasons(e), rec.Body)
		}
	}
}

// reasons says where a body is not as described.
func reasons(e *errors.ValidationError) string {
	text := e.Reason
	for _, s := range e.SchemaValidationErrors {
		text += fmt.Sprintf("; %s: %s", s.FieldPath, s.Reason)
	}
	return text
}
