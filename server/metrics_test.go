package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool/server"
	"github.com/spoolq/spool/spoolprom"
)

func TestMetricsAreForWhoMayRead(t *testing.T) {
	newCaller(t, server.Config{}).do("GET /metrics", "").want(404)
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "up 1\n") })
	newCaller(t, server.Config{Metrics: metrics}).do("GET /metrics", "").want(200).says("up 1")
	newCaller(t, server.Config{Metrics: metrics}).do("POST /metrics", "").want(405)
	var credentials []server.Credential
	for _, scope := range []server.Scope{server.Produce, server.Read} {
		credentials = append(credentials, server.Credential{Name: string(scope), Hash: server.HashSecret("a long secret for " + string(scope)), Scopes: []server.Scope{scope}})
	}
	c := newCaller(t, server.Config{Metrics: metrics, Expvar: true, Credentials: credentials})
	for _, path := range []string{"GET /metrics", "GET /debug/vars"} {
		c.do(path, "").want(401)
		c.with("Authorization", "Bearer a long secret for produce").do(path, "").want(403)
		c.with("Authorization", "Bearer a long secret for read").do(path, "").want(200)
	}
}

// TestTheVariableTellsOfTheNewestServer: two servers of a process share it.
func TestTheVariableTellsOfTheNewestServer(t *testing.T) {
	newCaller(t, server.Config{Expvar: true}).do("POST /enqueue", `{"payload":"x"}`).want(200)
	s := newServer(t, server.Config{Expvar: true})
	c := &caller{t, s, http.Header{}}
	c.do("POST /v1/queues/default/settings", `{"set":[{"kind":"capacity","capacity":{"jobs":2}}]}`).want(204)
	for range 2 {
		c.do("POST /enqueue", `{"payload":"x"}`).want(200)
	}
	c.do("POST /enqueue", `{"payload":"x"}`).want(429)
	var vars struct {
		Spool *struct {
			Queues map[string]struct {
				Ready int64 `json:"ready"`
			} `json:"queues"`
			Depth    int64 `json:"depth"`
			Rejected int64 `json:"rejected"`
		} `json:"spool"`
	}
	if err := json.Unmarshal(c.do("GET /debug/vars", "").want(200).body, &vars); err != nil {
		t.Fatal(err)
	}
	if vars.Spool == nil || vars.Spool.Depth != 2 || vars.Spool.Rejected != 1 || vars.Spool.Queues["default"].Ready != 2 {
		t.Errorf("the variable is %+v", vars.Spool)
	}
	s.Stop()
	newCaller(t, server.Config{Expvar: true}).do("GET /debug/vars", "").want(200).says(`"depth":0`)
}

// TestRequestsAreObservedByTheirPattern goes through the whole server.
func TestRequestsAreObservedByTheirPattern(t *testing.T) {
	r := prometheus.NewPedanticRegistry()
	c := &caller{t, spoolprom.NewHTTP(r)(newServer(t, server.Config{})), http.Header{}}
	c.do("POST /v1/queues/mine/jobs", `{"jobs":[{"task":"t"}]}`).want(201)
	c.do("GET /v1/queues/mine/jobs?state=ready", "").want(200)
	c.do("GET /nothing/of/that/kind", "").want(404)
	c.with("Host", "evil.example").do("GET /v1/queues", "").want(421)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, m := range families[0].Metric {
		labels := map[string]string{}
		for _, l := range m.Label {
			labels[l.GetName()] = l.GetValue()
		}
		got[labels["code"]+" "+labels["route"]] = true
	}
	for _, want := range []string{"201 POST /v1/queues/{queue}/jobs", "200 GET /v1/queues/{queue}/jobs", "404 /", "421 _none"} {
		if !got[want] {
			t.Errorf("there is no %q in %v", want, got)
		}
	}
	if len(got) != 4 {
		t.Errorf("%d series", len(got))
	}
}
