package server_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/spoolq/spool/server"
)

// withScopes is a caller for each scope, and one with two.
func withScopes(t *testing.T, cfg server.Config) map[string]*caller {
	secrets := map[string]string{}
	for name, scopes := range map[string][]server.Scope{
		"produce": {server.Produce}, "work": {server.Work}, "read": {server.Read}, "operate": {server.Operate},
		"produce and read": {server.Produce, server.Read},
	} {
		secrets[name] = server.NewSecret()
		cfg.Credentials = append(cfg.Credentials, server.Credential{Name: name, Hash: server.HashSecret(secrets[name]), Scopes: scopes})
	}
	all, c := map[string]*caller{}, newCaller(t, cfg)
	for name, secret := range secrets {
		all[name] = c.with("Authorization", "Bearer "+secret)
	}
	return all
}

func TestWhoProducesLearnsNoPayloadOfSomebodyElse(t *testing.T) {
	c := withScopes(t, server.Config{})
	const secret = "the secret of somebody else"
	c["produce"].do("POST /enqueue", `{"payload":"`+secret+`","idempotency_key":"k"}`).want(200).says(secret) // its own
	got := c["produce"].do("POST /enqueue", `{"payload":"","idempotency_key":"k"}`).want(200).says(`"created":false`)
	if bytes.Contains(got.body, []byte(secret)) || got.text("message.id") == "" {
		t.Errorf("a known key shows %s", got.body)
	}
	c["produce and read"].do("POST /enqueue", `{"payload":"","idempotency_key":"k"}`).want(200).says(secret)

	id := c["produce"].do("POST /v1/jobs", `{"task":"t","payload":"`+secret+`","retain":"1h"}`).want(201).text("id")
	token := c["work"].do("POST /v1/claim", `{"tasks":["t"]}`).want(200).text("leases.0.token")
	c["work"].do("POST /v1/settle", `{"settlements":[{"queue":"default","id":"`+id+`","token":"`+token+`","kind":"ack","result":"done it"}]}`).want(200)
	await := `{"jobs":[{"queue":"default","id":"` + id + `"}]}`
	if got := c["produce"].do("POST /v1/await", await).want(200).says("done it"); bytes.Contains(got.body, []byte(secret)) {
		t.Errorf("an await shows %s", got.body)
	}
	c["produce and read"].do("POST /v1/await", await).want(200).says(secret)
}

// audited is a server with what it recorded.
func audited(t *testing.T, cfg server.Config, text bool) (map[string]*caller, *bytes.Buffer) {
	var log bytes.Buffer
	cfg.Audit = slog.New(slog.NewJSONHandler(&log, nil))
	if text {
		cfg.Audit = slog.New(slog.NewTextHandler(&log, nil))
	}
	return withScopes(t, cfg), &log
}

func TestWhatAnOperatorDoesAndTriesIsRecorded(t *testing.T) {
	c, log := audited(t, server.Config{}, false)
	c["produce"].do("POST /v1/jobs", `{"task":"t"}`).want(201)
	for _, r := range []struct {
		who, what, body string
		code            int
		want            map[string]any
	}{
		{"operate", "POST /v1/queues/default/cancel", `{"filter":{"task":"t"}}`, 200,
			map[string]any{"did": "cancel", "outcome": "done", "changed": 1.0, "filter": map[string]any{"task": "t"}}},
		{"operate", "POST /v1/queues/default/delete", `{"filter":{}}`, 200,
			map[string]any{"did": "delete", "outcome": "done", "filter": "every job"}},
		{"operate", "POST /v1/queues/default/requeue", `{"filter":{"states":["leased"]},"limit":-1}`, 400,
			map[string]any{"did": "requeue", "outcome": "refused", "filter": map[string]any{"states": "leased"}}},
		{"operate", "POST /v1/queues/a%20b/pause", ``, 400, map[string]any{"did": "pause", "outcome": "refused", "queue": "a b"}},
		{"operate", "POST /v1/queues/q/settings", `{"set":[{"kind":"weight","name":"acme","weight":3}],"clear":[{"kind":"ageing"}]}`, 204,
			map[string]any{"did": "change settings", "outcome": "done", "queue": "q",
				"set": []any{map[string]any{"kind": "weight", "name": "acme", "weight": 3.0}}, "clear": []any{map[string]any{"kind": "ageing"}}}},
		{"operate", "POST /v1/queues/q/settings", `{"set":[{"kind":"weight","name":"acme","weight":-3}]}`, 400,
			map[string]any{"did": "change settings", "outcome": "refused"}},
		{"read", "POST /v1/queues/q/pause", ``, 403, map[string]any{"who": "read", "did": "pause-queue", "outcome": "refused", "queue": "q"}},
	} {
		log.Reset()
		c[r.who].do(r.what, r.body).want(r.code)
		var got map[string]any
		if err := json.Unmarshal(log.Bytes(), &got); err != nil {
			t.Errorf("%s %s: recorded %q: %v", r.what, r.body, log, err)
			continue
		}
		r.want["who"] = r.who
		for name, want := range r.want {
			if fmt.Sprint(got[name]) != fmt.Sprint(want) {
				t.Errorf("%s %s: %s is %v, want %v", r.what, r.body, name, got[name], want)
			}
		}
	}
}

func TestTheTextOfARecordIsForPeople(t *testing.T) {
	c, log := audited(t, server.Config{}, true)
	c["operate"].do("POST /v1/queues/q/cancel", `{"filter":{"task":"t","states":["ready"],"older_than":"1h"}}`).want(200)
	if got := log.String(); !strings.Contains(got, "filter.states=ready filter.task=t filter.older_than=1h0m0s") {
		t.Error(got)
	}
	log.Reset()
	const secret = "a payload that is nobody's to read"
	c["operate"].do("POST /v1/queues/q/settings", `{"set":[{"kind":"schedule","name":"n","schedule":{"spec":"0 4 * * *","job":{"task":"t","payload":"`+secret+`"}}}]}`).want(204)
	if got := log.String(); !strings.Contains(got, "0 4 * * *") || strings.Contains(got, secret) {
		t.Error(got)
	}
}

func TestACertificateSaysWhoItWas(t *testing.T) {
	var log bytes.Buffer
	s := newServer(t, server.Config{Audit: slog.New(slog.NewTextHandler(&log, nil))})
	r := httptest.NewRequest(http.MethodPost, "https://127.0.0.1/v1/queues/q/pause", nil)
	r.TLS = &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{{Subject: pkix.Name{CommonName: "bob"}}}}}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if got := log.String(); w.Code != http.StatusOK || !strings.Contains(got, `who="CN=bob"`) {
		t.Errorf("%d: %s", w.Code, got)
	}
}
