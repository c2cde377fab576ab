package server_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/server"
)

// served is a server on a real socket, that tells when a request has begun and
// when it has ended.
type served struct {
	*httptest.Server
	begun, ended chan string
}

func serveReally(t *testing.T) *served {
	h := newServer(t, server.Config{})
	s := &served{begun: make(chan string, 10), ended: make(chan string, 10)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.begun <- r.URL.Path
		h.ServeHTTP(w, r)
		s.ended <- r.URL.Path
	}))
	t.Cleanup(s.Close)
	return s
}

// soon returns what comes, within a time that no wait of these tests is shorter than.
func soon(t *testing.T, c chan string) string {
	t.Helper()
	select {
	case v := <-c:
		return v
	case <-time.After(10 * time.Second):
		t.Fatal("nothing came")
		return ""
	}
}

// post makes a request that may be given up.
func (s *served) post(ctx context.Context, t *testing.T, path, body string) <-chan int {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	code := make(chan int, 1)
	go func() {
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			code <- 0
			return
		}
		resp.Body.Close()
		code <- resp.StatusCode
	}()
	return code
}

func TestAWaitEndsWhenItsClientHasGone(t *testing.T) {
	for _, path := range []string{"/v1/claim", "/dequeue?wait=50s"} {
		t.Run(path, func(t *testing.T) {
			s := serveReally(t)
			ctx, leave := context.WithCancel(t.Context())
			s.post(ctx, t, path, `{"wait":"50s"}`)
			soon(t, s.begun)
			leave()
			soon(t, s.ended)
			if code := <-s.post(t.Context(), t, "/enqueue", `{"payload":"x"}`); code != 200 {
				t.Fatal(code)
			}
			if code := <-s.post(t.Context(), t, "/dequeue", ""); code != 200 {
				t.Errorf("the job is leased to nobody: %d", code)
			}
		})
	}
}
