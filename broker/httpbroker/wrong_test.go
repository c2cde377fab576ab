package httpbroker_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/membroker"
)

// between stands before a server, for the calls of one path.
func between(path string, answer func(http.ResponseWriter, *http.Request, http.Handler)) func(testing.TB, http.Handler) http.Handler {
	return func(_ testing.TB, h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != path {
				h.ServeHTTP(w, r)
				return
			}
			answer(w, r, h)
		})
	}
}

// An error other than ErrUnknown means that nothing took place.
func TestWhatSomebodyElseAnswersLeavesTheOutcomeOpen(t *testing.T) {
	for _, c := range []struct {
		name string
		code int
		body string
	}{
		{"a page in place of the answer", 200, "<html>log in</html>"},
		{"half an answer", 201, `{"jobs":[{"i`},
		{"another JSON", 200, `{}`},
		{"an answer for none", 201, `{"jobs":[]}`},
		{"an answer for more", 201, `{"jobs":[{"id":"01890a5d-ac96-774b-bcce-b302099a8057"},{"id":"01890a5d-ac96-774b-bcce-b302099a8058"}]}`},
		{"nothing", 204, ""},
		{"a server that failed", 500, `{"code":"internal","title":"The server failed","status":500}`},
		{"a proxy that failed", 500, "<html>500</html>"},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			b := open(t, serve(t, membroker.New(membroker.Config{RememberCalls: true}), between("/v1/queues/q/jobs",
				func(w http.ResponseWriter, r *http.Request, h http.Handler) {
					h.ServeHTTP(httptest.NewRecorder(), r)
					w.WriteHeader(c.code)
					fmt.Fprint(w, c.body)
					if c.code == 500 {
						cancel() // such an attempt may be repeated
					}
				})))
			got, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t"}})
			if !errors.Is(err, broker.ErrUnknown) {
				t.Errorf("%d answers, %v", len(got), err)
			}
		})
	}
}

// Who refuses the second attempt says nothing of the first.
func TestARefusalAfterALostAnswerLeavesTheOutcomeOpen(t *testing.T) {
	for _, c := range []struct {
		code int
		body string
	}{{401, `{"code":"unauthorized","status":401}`}, {404, `{"code":"no_route","status":404}`}, {403, "<html>403</html>"}} {
		t.Run(fmt.Sprint(c.code), func(t *testing.T) {
			calls := 0
			b := open(t, serve(t, membroker.New(membroker.Config{RememberCalls: true}), between("/v1/queues/q/jobs",
				func(w http.ResponseWriter, r *http.Request, h http.Handler) {
					if calls++; calls == 1 {
						h.ServeHTTP(httptest.NewRecorder(), r)
						panic(http.ErrAbortHandler)
					}
					w.WriteHeader(c.code)
					fmt.Fprint(w, c.body)
				})))
			if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); !errors.Is(err, broker.ErrUnknown) {
				t.Error(err)
			}
		})
	}
}

func TestASettingThatAPageAnswersIsNotMade(t *testing.T) {
	b := open(t, serve(t, membroker.New(membroker.Config{RememberCalls: true}), between("/v1/queues/q/settings",
		func(w http.ResponseWriter, _ *http.Request, _ http.Handler) { fmt.Fprint(w, "<html>log in</html>") })))
	if err := b.Configure(t.Context(), broker.NewCall(), "q", broker.Change{}); !errors.Is(err, broker.ErrUnknown) {
		t.Error(err)
	}
}

// The word to stop takes another connection, and may be there first.
func TestAClaimReturnsWithItsContextThoughItArrivesAfterTheWordToStop(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	told, once := make(chan struct{}), sync.Once{}
	late := func(_ testing.TB, h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/claim" {
				cancel()
				<-told
			}
			h.ServeHTTP(w, r)
			if r.Method == http.MethodDelete {
				once.Do(func() { close(told) })
			}
		})
	}
	b := open(t, serve(t, membroker.New(membroker.Config{RememberCalls: true}), late))
	start := time.Now()
	_, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Wait: 20 * time.Second})
	if took := time.Since(start); took > 10*time.Second || !errors.Is(err, context.Canceled) {
		t.Errorf("after %v: %v", took, err)
	}
}

func TestAClaimOfASilentServerReturnsSoonAfterItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	over := make(chan struct{})
	silent := func(_ testing.TB, h http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodGet { // caps
				h.ServeHTTP(w, r)
				return
			}
			cancel()
			<-over
		})
	}
	url := serve(t, membroker.New(membroker.Config{RememberCalls: true}), silent)
	t.Cleanup(func() { close(over) })
	b, err := httpbroker.Open(t.Context(), url, httpbroker.Config{Logger: quiet, Timeout: 500 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	_, err = b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Wait: 20 * time.Second})
	if took := time.Since(start); took > 10*time.Second || !errors.Is(err, broker.ErrUnknown) {
		t.Errorf("after %v: %v", took, err)
	}
}

// A claim that waits ends with its client, also when nothing of its answer has come.
func TestAClaimThatIsCutOffByCloseSaysThatTheClientIsClosed(t *testing.T) {
	reached := make(chan struct{}, 1)
	hang := func(_ testing.TB, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/v1/claim" {
				_, _ = io.Copy(io.Discard, r.Body) // only then it is noticed that the client has gone
				reached <- struct{}{}
				<-r.Context().Done()
				return
			}
			next.ServeHTTP(w, r)
		})
	}
	b := open(t, serve(t, membroker.New(membroker.Config{}), hang))
	got := make(chan error, 1)
	go func() {
		_, err := b.Claim(context.Background(), broker.NewCall(), broker.ClaimRequest{Max: 1, TTL: time.Minute, Wait: time.Minute, Worker: "w"})
		got <- err
	}()
	<-reached
	if err := b.Close(); err != nil {
		t.Error(err)
	}
	if err := <-got; !errors.Is(err, broker.ErrClosed) {
		t.Errorf("the claim: %v", err)
	}
}
