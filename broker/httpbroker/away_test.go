package httpbroker_test

import (
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/membroker"
)

func TestItIsToldOnceThatTheServerIsAwayAndThatItAnswersAgain(t *testing.T) {
	var refuse atomic.Int64 // so many requests
	url := serve(t, membroker.New(membroker.Config{RememberCalls: true}), func(_ testing.TB, next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if refuse.Add(-1) >= 0 {
				panic(http.ErrAbortHandler) // the connection ends
			}
			next.ServeHTTP(w, r)
		})
	})
	var log strings.Builder
	b, err := httpbroker.Open(t.Context(), url, httpbroker.Config{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for round := 1; round <= 2; round++ {
		refuse.Store(3)
		if _, err := b.Enqueue(t.Context(), broker.NewCall(), "q", []broker.NewJob{{Task: "t"}}); err != nil {
			t.Fatal(err)
		}
		for _, says := range []string{"a call is repeated until the server answers", "the server answers again"} {
			if n := strings.Count(log.String(), says); n != round || !strings.Contains(log.String(), url) {
				t.Errorf("round %d: %q is told %d times:\n%s", round, says, n, log.String())
			}
		}
	}
}
