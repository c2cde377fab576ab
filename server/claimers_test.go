package server

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/membroker"
)

// listing is a server in a bubble, whose workers are asked for.
type listing struct {
	*testing.T
	*Server
}

func newListing(t *testing.T) *listing {
	quiet := slog.New(slog.DiscardHandler)
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: quiet})
	s, err := New(c, Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); c.Close() })
	return &listing{t, s}
}

func (l *listing) do(path, body string) *httptest.ResponseRecorder {
	l.Helper()
	r := httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	return w
}

// want compares the listed workers with some of the form "id tasks".
func (l *listing) want(all ...string) {
	l.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://localhost/v1/workers", nil)
	w := httptest.NewRecorder()
	l.ServeHTTP(w, r)
	var got struct {
		Workers []struct {
			ID    string   `json:"id"`
			Tasks []string `json:"tasks"`
		} `json:"workers"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		l.Fatal(err)
	}
	listed := []string{}
	for _, one := range got.Workers {
		listed = append(listed, fmt.Sprint(one.ID, " ", one.Tasks))
	}
	if fmt.Sprint(listed) != fmt.Sprint(all) {
		l.Errorf("listed are %v, want %v", listed, all)
	}
}

func TestWhoClaimsIsListedUntilNothingIsHeardOfIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListing(t)
		l.do("/v1/claim", `{}`)
		l.do("/v1/claim", `{"worker":"tester","unlisted":true}`)
		l.want()
		l.do("/v1/claim", `{"worker":"w","tasks":["mail"]}`)
		l.do("/dequeue", ``)
		l.want("dequeue []", "w [mail]")
		time.Sleep(relist)
		l.do("/v1/claim", `{"worker":"w","tasks":["sms"]}`)
		l.want("dequeue []", "w [sms]")
		time.Sleep(silent - relist + time.Second)
		l.want("w [sms]")
		l.do("/v1/extend", `{"worker":{"id":"w"}}`) // it runs something
		time.Sleep(silent - time.Second)
		l.want("w [sms]")
		time.Sleep(2 * time.Second)
		l.want()
		l.do("/v1/claim", `{"worker":"w"}`)
		l.want("w []")
		l.do("/v1/extend", `{"worker":{"id":"w"},"leaving":true}`)
		l.want()
	})
}

func TestAWorkerThatWaitsIsListedHoweverLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListing(t)
		l.cfg.MaxWait = 2 * silent
		done := make(chan struct{})
		go func() { l.do("/v1/claim", fmt.Sprintf(`{"worker":"w","wait":"%v"}`, 2*silent)); close(done) }()
		time.Sleep(2*silent - time.Second)
		l.want("w []")
		<-done
	})
}

func TestAWorkerThatRegisteredItselfIsForgottenWhenItHasGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newListing(t)
		l.do("/v1/extend", `{"worker":{"id":"w","name":"me","tasks":["mail"]}}`)
		l.do("/v1/claim", `{"worker":"w"}`) // says less than the registration
		l.want("w [mail]")
		time.Sleep(silent - time.Second)
		l.want("w [mail]")
		time.Sleep(2 * time.Second)
		l.want()
	})
}
