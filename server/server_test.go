package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/server"
)

func TestAJobsWholeLife(t *testing.T) {
	c := newCaller(t, server.Config{})
	payload := `{"to": "ada",  "n": 12345678901234567890, "x":"<&>"}`
	id := c.do("POST /v1/jobs", `{"task":"mail","payload":`+payload+`,"key":"k"}`).want(201).text("id")
	c.do("POST /v1/jobs", `{"task":"mail","payload":1,"key":"k"}`).want(200).says(`"existing":true,"differs":true`)
	c.do("GET /v1/jobs/"+id, "").want(200).says(payload).says(`"state":"ready"`)
	c.do("GET /v1/queues/default/jobs/"+id+"/explain", "").want(200).says("no_worker")
	lease := c.do("POST /v1/claim", `{"worker":"w","tasks":["mail"]}`).want(200).says(payload)
	token := lease.text("leases.0.token")
	ref := fmt.Sprintf(`"queue":"default","id":%q,"token":%q`, id, token)
	c.do("POST /v1/extend", `{"worker":{"id":"w","name":"me"},"ttl":"1m","leases":[{`+ref+`,"progress":{"percent":40,"note":"half"},"log":["a line"]}]}`).want(200).says(`"held"`)
	c.do("GET /v1/workers", "").want(200).says(`"name":"me"`)
	c.do("GET /v1/queues/default/jobs/"+id, "").want(200).says(`"percent":40`).says("a line")
	c.do("POST /v1/settle", `{"settlements":[{`+ref+`,"kind":"nack","delay":"1h","error":"boom"}]}`).want(200).says(`"scheduled"`)
	c.do("POST /v1/settle", `{"settlements":[{`+strings.Replace(ref, token, "1", 1)+`,"kind":"ack"}]}`).want(200).says("lease_lost")
	c.do("POST /v1/queues/default/cancel", `{"filter":{"task":"mail","error_contains":"boo"},"reason":"no longer"}`).want(200).says(`"changed":1`)
	c.do("GET /v1/queues/default/jobs?state=cancelled", "").want(200).says("no longer")
	c.do("POST /v1/queues/default/requeue", `{"filter":{"ids":["`+id+`"]}}`).want(200).says(`"changed":1`)
	got := c.do("POST /v1/claim", `{}`).want(200)
	ref = fmt.Sprintf(`"queue":"default","id":%q,"token":%q`, id, got.text("leases.0.token"))
	c.do("POST /v1/settle", `{"settlements":[{`+ref+`,"kind":"ack","result":{"sent": true},"follow_ups":[{"queue":"next","job":{"task":"log"}}]}]}`).want(200).says(`"done"`).says("follow_ups")
	c.do("POST /v1/await", `{"jobs":[{"queue":"default","id":"`+id+`"}],"wait":"1s"}`).want(200).says(`{"sent": true}`)
	c.do("GET /v1/queues/default/jobs/"+id+"/result", "").want(200).says(`{"sent": true}`)
	raw := c.do("GET /v1/queues/default/jobs/"+id+"/payload", "").want(200)
	if string(raw.body) != payload || raw.header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("the payload is %s of %s", raw.body, raw.header.Get("Content-Type"))
	}
	c.do("POST /v1/queues/default/delete", `{"filter":{"states":["done"]}}`).want(200).says(`"changed":1`)
	c.do("GET /v1/jobs/"+id, "").want(404).says("not_found")
	c.do("GET /v1/queues", "").want(200).says(`"name":"next"`)
	c.do("GET /v1/counts?queue=next", "").want(200).says(`"ready":1`)
}

func TestSettingsOverHTTP(t *testing.T) {
	c := newCaller(t, server.Config{})
	c.do("POST /v1/queues/q/settings", `{"set":[
		{"kind":"limit","name":"l","limit":{"tasks":["t"],"count":5,"every":"1s"}},
		{"kind":"capacity","capacity":{"jobs":1}},
		{"kind":"weight","name":"acme","weight":3},
		{"kind":"schedule","name":"nightly","schedule":{"spec":"0 4 * * *","zone":"Europe/Berlin","job":{"task":"t","payload":{"a": 1}}}}]}`).want(204)
	c.do("GET /v1/settings?queue=q&kind=schedule", "").want(200).says(`"spec":"0 4 * * *"`).says(`{"a": 1}`)
	c.do("GET /v1/settings?queue=q&kind=limit", "").want(200).says(`"every":"1s"`)
	c.do("POST /v1/queues/q/settings", `{"set":[{"kind":"weight","name":"acme","weight":4,"revision":99}]}`).want(409).says("conflict")
	c.do("POST /v1/queues/q/settings", `{"set":[{"kind":"weight","name":"acme","weight":-4}]}`).want(400).says("weight is -4")
	c.do("POST /v1/queues/q/settings", `{"pause":["nightly"]}`).want(204)
	c.do("GET /v1/settings?kind=schedule", "").want(200).says(`"paused":true`)

	c.do("POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"}]}`).want(201)
	full := c.do("POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"}]}`).want(429).says(`"code":"full"`)
	if full.header.Get("Retry-After") == "" {
		t.Errorf("429 without Retry-After: %v", full.header)
	}
	c.do("POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"},{"task":"t"}],"wait":"20ms"}`).want(429).says(`"never":true`)
}

func TestEachBadRequestHasItsStatus(t *testing.T) {
	c := newCaller(t, server.Config{MaxBody: 4 << 20})
	large := strings.Repeat("x", 1<<20)
	for _, r := range []struct {
		name, what, body string
		code             int
		says             string
	}{
		{"a schedule of a minute that there is none of", "POST /v1/queues/q/settings", `{"set":[{"kind":"weight","name":"a","weight":1},{"kind":"schedule","name":"s","schedule":{"spec":"61 * * * *","job":{"task":"x"}}}]}`, 400, "/set/1/schedule: spec: "},
		{"a schedule that never fires", "POST /v1/queues/q/settings", `{"set":[{"kind":"schedule","name":"s","schedule":{"spec":"30 2 31 2 *","job":{"task":"x"}}}]}`, 400, "/set/0/schedule: spec: "},
		{"a schedule in a zone that there is none of", "POST /v1/queues/q/settings", `{"set":[{"kind":"schedule","name":"s","schedule":{"spec":"0 2 * * *","zone":"Mars/Base","job":{"task":"x"}}}]}`, 400, "/set/0/schedule: zone: "},
		{"a schedule of an unknown policy", "POST /v1/queues/q/settings", `{"set":[{"kind":"schedule","name":"s","schedule":{"spec":"0 2 * * *","missed":"some","job":{"task":"x"}}}]}`, 400, "/set/0/schedule: missed: "},
		{"a payload over the limit", "POST /v1/jobs", `{"task":"t","payload":"` + large + `"}`, 413, "payload has 1048578 bytes, the limit is 1048576"},
		{"a payload over the limit among others", "POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"},{"task":"t","payload":"` + large + `"}]}`, 413, "job 2 of 2: "},
		{"a payload over the limit on the short path", "POST /enqueue", `{"payload":"` + large + `x"}`, 413, "payload has 1048577 bytes"},
		{"a payload over the limit in a schedule", "POST /v1/queues/q/settings", `{"set":[{"kind":"schedule","name":"s","schedule":{"spec":"0 2 * * *","job":{"task":"x","payload":"` + large + `"}}}]}`, 413, "/set/0/schedule/job: "},
		{"a result over the limit", "POST /v1/settle", `{"settlements":[{"queue":"q","id":"01890a5d-ac96-774b-bcce-b302099a8057","token":"1","kind":"ack","result":"` + large + `"}]}`, 413, "result has 1048578 bytes"},
		{"a follow-up over the limit", "POST /v1/settle", `{"settlements":[{"queue":"q","id":"01890a5d-ac96-774b-bcce-b302099a8057","token":"1","kind":"ack","follow_ups":[{"queue":"q","job":{"task":"t","payload":"` + large + `"}}]}]}`, 413, "follow-up 1: "},
		{"no body", "POST /v1/jobs", "", 400, "body is required"},
		{"half a body", "POST /v1/jobs", `{"task"`, 400, "not JSON"},
		{"an unknown field", "POST /v1/jobs", `{"task":"t","x":1}`, 400, "/x: there is no such field"},
		{"a bad name", "POST /v1/jobs", `{"task":"a b"}`, 400, "has ' ' at position 2"},
		{"no task", "POST /v1/jobs", `{}`, 400, "task name is empty"},
		{"a negative delay", "POST /v1/jobs", `{"task":"t","delay":"-1ns"}`, 400, "delay -1ns is negative"},
		{"the year 10000", "POST /v1/jobs", `{"task":"t","at":"9999-12-31T23:59:59Z"}`, 400, "outside the years"},
		{"both a delay and a time", "POST /v1/jobs", `{"task":"t","delay":"1s","at":"2030-01-01T00:00:00Z"}`, 400, "use one"},
		{"two forms of a payload", "POST /v1/jobs", `{"task":"t","payload":1,"payload_base64":"AA=="}`, 400, "both payload and payload_base64"},
		{"one bad of three", "POST /v1/queues/q/jobs", `{"jobs":[{"task":"a"},{"task":""},{"task":"c"}]}`, 400, "job 2 of 3"},
		{"a bad queue", "POST /v1/queues/a%20b/jobs", `{"jobs":[{"task":"a"}]}`, 400, "queue name"},
		{"a payload that is too large", "POST /v1/jobs", `{"task":"t","payload":"` + strings.Repeat("x", 4<<20) + `"}`, 413, "the limit is"},
		{"a claim of too many", "POST /v1/claim", `{"max":1001}`, 400, "allowed are 1 to 1000"},
		{"a claim of none", "POST /v1/claim", `{"max":0}`, 400, "allowed are 1 to 1000"},
		{"a negative wait", "POST /v1/claim", `{"wait":"-1s"}`, 400, "negative"},
		{"an unknown kind", "POST /v1/settle", `{"settlements":[{"queue":"q","id":"01890a5d-ac96-774b-bcce-b302099a8057","token":"1","kind":"accept"}]}`, 400, "allowed are"},
		{"a settlement of no kind that is known", "POST /v1/settle", `{"settlements":[{"queue":"q","id":"01890a5d-ac96-774b-bcce-b302099a8057","token":"1","kind":"nak"}]}`, 400, "allowed are ack, nack, snooze"},
		{"a settlement without a queue", "POST /v1/settle", `{"settlements":[{"id":"01890a5d-ac96-774b-bcce-b302099a8057","token":"1","kind":"ack"}]}`, 400, "settlement 1 of 1: spool: invalid: queue name is empty"},
		{"a fraction as a priority", "POST /v1/jobs", `{"task":"t","priority":1.0}`, 400, "/priority: a JSON number does not fit here, it wants a whole number in range"},
		{"a number that is too large", "POST /v1/jobs", `{"task":"t","priority":3000000000}`, 400, "out of range"},
		{"no state", "GET /v1/queues/q/jobs", "", 400, "state"},
		{"a bad state", "GET /v1/queues/q/jobs?state=gone", "", 400, "state"},
		{"a page of none", "GET /v1/queues/q/jobs?state=ready&limit=0", "", 400, "limit"},
		{"a page of too many", "GET /v1/queues/q/jobs?state=ready&limit=1001", "", 400, "limit"},
		{"a fraction", "GET /v1/queues/q/jobs?state=ready&limit=1.5", "", 400, "limit"},
		{"an age without a unit", "GET /v1/queues/q/jobs?state=ready&older_than=5", "", 400, "write it as 1m30s"},
		{"an age that is none", "GET /v1/queues/q/jobs?state=ready&newer_than=soon", "", 400, "newer_than: "},
		{"a bad cursor", "GET /v1/queues/q/jobs?state=ready&cursor=xyz", "", 400, "cursor"},
		{"an unknown parameter", "GET /v1/counts?limit=1", "", 400, "limit"},
		{"a bad id", "GET /v1/jobs/1", "", 400, "not an id"},
		{"a job that is not there", "GET /v1/jobs/01890a5d-ac96-774b-bcce-b302099a8057", "", 404, "not_found"},
		{"a path that is not there", "GET /v1/nothing", "", 404, "no_route"},
		{"another method", "GET /v1/claim", "", 405, "takes POST"},
		{"another method yet", "PUT /v1/jobs", `{}`, 405, "takes POST"},
		{"a path with dots", "GET /v1/../v1/queues/", "", 307, ""},
		{"a claim that does not wait", "DELETE /v1/claims/01890a5d-ac96-774b-bcce-b302099a8057", "", 404, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			c := &caller{t, c.h, c.header}
			c.do(r.what, r.body).want(r.code).says(r.says)
		})
	}
	c.do("GET /v1/counts", "").want(200).says(`{"counts":[]}`)
	c.do("GET /v1/settings", "").want(200).says(`{"settings":[]}`)
	c.do("GET /v1/caps", "").want(200).says(`"max_payload":1048576`)
}

func TestAListByAge(t *testing.T) {
	c := newCaller(t, server.Config{})
	c.do("POST /v1/jobs", `{"task":"t"}`).want(201)
	for query, want := range map[string]string{
		"newer_than=1h": `"task":"t"`, "older_than=1h": `"jobs":[]`, "older_than=1ns&newer_than=1h30m": `"task":"t"`,
	} {
		c.do("GET /v1/queues/default/jobs?state=ready&"+query, "").want(200).says(want)
	}
}

func TestAnIDOfACallIsNotForACallOfMore(t *testing.T) {
	store := spool.New(membroker.New(membroker.Config{RememberCalls: true}), spool.Config{Logger: quiet})
	s, err := server.New(store, server.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); store.Close() })
	c := (&caller{t, s, http.Header{}}).with("Spool-Call-ID", "01890a5d-ac96-774b-bcce-b302099a8057")
	first := c.do("POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"},{"task":"t"}]}`).want(201)
	if again := c.do("POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"},{"task":"t"}]}`).want(201); string(again.body) != string(first.body) {
		t.Errorf("%s, then %s", first.body, again.body)
	}
	c.do("POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"},{"task":"t"},{"task":"t"}]}`).want(400).says("that of another call")
	c.do("POST /v1/jobs", `{"task":"t"}`).want(400).says("that of another call")
	c.do("POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"},{"task":"other"}]}`).want(400).says("that of another call, for another job 2 of 2")
	c.do("POST /v1/queues/p/jobs", `{"jobs":[{"task":"t"},{"task":"t"}]}`).want(400).says("that of another call")
	for _, of := range []struct{ name, first, other string }{
		{"another payload", `{"task":"t","payload":{"a":1}}`, `{"task":"t","payload":{"a":2}}`},
		{"another id", `{"task":"t","id":"01890a5d-ac96-774b-bcce-b302099a8001"}`, `{"task":"t","id":"01890a5d-ac96-774b-bcce-b302099a8002"}`},
		{"an id in place of none", `{"task":"t"}`, `{"task":"t","id":"01890a5d-ac96-774b-bcce-b302099a8003"}`},
		{"none in place of an id", `{"task":"t","id":"01890a5d-ac96-774b-bcce-b302099a8004"}`, `{"task":"t"}`},
		{"another delay", `{"task":"t","delay":"1h"}`, `{"task":"t","delay":"2h"}`},
		{"another header", `{"task":"t","headers":{"a":"b"}}`, `{"task":"t","headers":{"a":"c"}}`},
		{"a key", `{"task":"t","payload":1}`, `{"task":"t","payload":1,"key":"k"}`},
	} {
		c := c.with("Spool-Call-ID", broker.NewID().String())
		first := c.do("POST /v1/jobs", of.first).want(201)
		if again := c.do("POST /v1/jobs", of.first).want(201); string(again.body) != string(first.body) {
			t.Errorf("%s: the repeat is answered %s, the first %s", of.name, again.body, first.body)
		}
		c.do("POST /v1/jobs", of.other).want(400).says("that of another call")
	}
}

func TestABodyHasToSayThatItIsJSON(t *testing.T) {
	c := newCaller(t, server.Config{})
	for _, media := range []string{"", "text/plain", "application/x-www-form-urlencoded", "application/json; charset"} {
		c.with("Content-Type", media).do("POST /v1/jobs", `{"task":"t"}`).want(415).says("Content-Type: application/json")
	}
	c.with("Content-Type", "application/json; charset=utf-8").do("POST /v1/jobs", `{"task":"t"}`).want(201)
	c.with("Content-Encoding", "gzip").do("POST /v1/jobs", `{"task":"t"}`).want(415)
}

func TestAPageOfSomebodyElseGetsNothing(t *testing.T) {
	c := newCaller(t, server.Config{Hosts: []string{"jobs.example.com"}})
	c.with("Host", "evil.example.com").do("GET /v1/queues", "").want(421).says("evil.example.com")
	c.with("Host", "jobs.example.com:8080").do("GET /v1/queues", "").want(200)
	c.with("Host", "[::1]:8080").do("GET /v1/queues", "").want(200)
	c.with("Sec-Fetch-Site", "cross-site").do("POST /v1/queues/q/pause", "").want(403)
	c.with("Origin", "https://evil.example.com").do("POST /dequeue", "").want(403)
	c.with("Sec-Fetch-Site", "same-origin").do("POST /v1/queues/q/pause", "").want(200)
	if got := c.do("GET /v1/queues", "").header.Get("Access-Control-Allow-Origin"); got != "" {
		t.Errorf("other origins may read: %s", got)
	}
}

func TestEveryRouteWantsItsScope(t *testing.T) {
	secrets := map[server.Scope]string{}
	var cfg server.Config
	for _, scope := range server.Scopes {
		secrets[scope] = server.NewSecret()
		cfg.Credentials = append(cfg.Credentials, server.Credential{Name: string(scope), Hash: server.HashSecret(secrets[scope]), Scopes: []server.Scope{scope}})
	}
	c := newCaller(t, cfg)
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	for _, r := range []struct {
		what, body string
		scope      server.Scope
	}{
		{"POST /v1/jobs", `{"task":"t"}`, server.Produce}, {"POST /v1/queues/q/jobs", `{"jobs":[]}`, server.Produce},
		{"POST /v1/await", `{"jobs":[]}`, server.Produce}, {"POST /enqueue", `{"payload":""}`, server.Produce},
		{"POST /v1/claim", `{}`, server.Work}, {"DELETE /v1/claims/" + id, "", server.Work}, {"POST /v1/extend", `{}`, server.Work},
		{"POST /v1/settle", `{"settlements":[]}`, server.Work}, {"POST /dequeue", "", server.Work}, {"POST /ack", `{"id":"x"}`, server.Work}, {"POST /nack", `{"id":"x"}`, server.Work},
		{"GET /v1/jobs/" + id, "", server.Read}, {"GET /v1/queues/q/jobs/" + id, "", server.Read}, {"GET /v1/queues/q/jobs/" + id + "/explain", "", server.Read},
		{"GET /v1/queues/q/jobs/" + id + "/payload", "", server.Read}, {"GET /v1/queues/q/jobs/" + id + "/result", "", server.Read},
		{"GET /v1/queues/q/jobs?state=ready", "", server.Read}, {"POST /v1/queues/q/search", `{"filter":{"states":["ready"]}}`, server.Read},
		{"POST /v1/lookup", `{"jobs":[]}`, server.Read}, {"GET /v1/counts", "", server.Read}, {"GET /v1/queues", "", server.Read},
		{"GET /v1/settings", "", server.Read}, {"GET /v1/workers", "", server.Read}, {"GET /v1/health", "", server.Read},
		{"GET /stats", "", server.Read}, {"GET /depth", "", server.Read},
		{"POST /v1/queues/q/cancel", `{}`, server.Operate}, {"POST /v1/queues/q/requeue", `{}`, server.Operate}, {"POST /v1/queues/q/delete", `{}`, server.Operate},
		{"POST /v1/queues/q/pause", "", server.Operate}, {"POST /v1/queues/q/resume", "", server.Operate},
		{"POST /v1/queues/q/settings", `{}`, server.Operate}, {"POST /v1/queues/q/schedules/s/tick", `{}`, server.Operate}, {"POST /v1/maintain", "", server.Operate},
	} {
		c.do(r.what, r.body).want(401).says("unauthorized")
		c.with("Authorization", "Bearer "+server.NewSecret()).do(r.what, r.body).want(401)
		c.with("Authorization", "Basic "+secrets[r.scope]).do(r.what, r.body).want(401)
		for scope, secret := range secrets {
			got := c.with("Authorization", "Bearer "+secret).do(r.what, r.body)
			if scope == r.scope && (got.code == 401 || got.code == 403) || scope != r.scope && got.code != 403 {
				t.Errorf("%s with the scope %s: %d %s", r.what, scope, got.code, got.body)
			}
		}
	}
	c.do("GET /v1/caps", "").want(401)
	for _, secret := range secrets { // a client of each asks for them first
		c.with("Authorization", "Bearer "+secret).do("GET /v1/caps", "").want(200).says(`"max_batch"`)
	}
	basic := http.Request{Header: http.Header{}}
	basic.SetBasicAuth("x", secrets[server.Read])
	c.with("Authorization", basic.Header.Get("Authorization")).do("GET /v1/caps", "").want(401).says("Authorization: Bearer")
	for _, what := range []string{"GET /v1/live", "GET /v1/ready"} {
		c.do(what, "").want(204)
	}
	for _, what := range []string{"GET /healthz", "GET /v1/openapi.json"} {
		c.do(what, "").want(200)
	}
	for _, what := range []string{"GET /V1/queues", "GET //v1/queues", "GET /v1/queues/", "GET /v1/%2e%2e/v1/queues", "OPTIONS /v1/queues", "HEAD /v1/queues"} {
		if got := c.do(what, ""); got.code < 300 {
			t.Errorf("%s: %d %s", what, got.code, got.body)
		}
	}
}

func TestTheShortPaths(t *testing.T) {
	c := newCaller(t, server.Config{})
	c.do("POST /dequeue", "").want(404).says("empty")
	c.do("POST /enqueue", `{}`).want(400).says("payload is missing")
	first := c.do("POST /enqueue", `{"payload":"hello <b>","idempotency_key":"k","priority":5,"fairness_key":"acme"}`).want(200).says(`"created":true`)
	again := c.do("POST /enqueue", `{"payload":"hello <b>","idempotency_key":"k"}`).want(200).says(`"created":false`)
	if first.text("message.id") != again.text("message.id") {
		t.Errorf("two ids for one key: %s, %s", first.body, again.body)
	}
	c.do("GET /depth", "").want(200).says(`"current":1`).says(`"high_water":1`)
	got := c.do("POST /dequeue", "").want(200)
	if got.text("payload") != "hello <b>" || got.text("fairness_key") != "acme" {
		t.Errorf("dequeued %s", got.body)
	}
	id := got.text("id")
	c.do("POST /ack", `{"id":"`+first.text("message.id")+`"}`).want(409) // without the token
	c.do("POST /nack", `{"id":"`+id+`"}`).want(200).says(`"dead":false`)
	c.do("POST /ack", `{"id":"`+id+`"}`).want(409).says("lease_lost")
	c.do("POST /ack", `{"id":"01890a5d-ac96-774b-bcce-b302099a8057.7"}`).want(409) // it was given out once, and the job is gone
	c.do("POST /ack", `{"id":"01890a5d-ac96-774b-bcce-b302099a8057"}`).want(404)
	c.do("POST /enqueue", `{"payload":"once"}`).want(200)
	gone := c.do("POST /dequeue", "").want(200).text("id")
	c.do("POST /ack", `{"id":"`+gone+`"}`).want(200)
	c.do("POST /ack", `{"id":"`+gone+`"}`).want(409).says("lease_lost")
	c.do("POST /ack", `{"id":"nonsense"}`).want(400)
	c.do("GET /enqueue", "").want(405)
	c.do("GET /stats", "").want(200).says(`"failed":1`).says(`"scheduled":1`)
	c.do("GET /healthz", "").want(200).says(`{"ok":true}`)
	c.do("GET /debug/vars", "").want(404)
	c.do("POST /dequeue?wait=-1s", "").want(400).says("wait -1s is negative")
	c.do("POST /dequeue", `{"wait":"-1s"}`).want(400).says("wait -1s is negative")
	c.do("POST /dequeue?wait=", "").want(400).says("wait: ")
	c.do("POST /dequeue", `{"queue":"x"}`).want(400).says("/queue: there is no such field")
	c.do("POST /dequeue", `{"wait`).want(400).says("not JSON")
	c.do("POST /dequeue", `{}`).want(404)
	c.do("GET /depth?queue=x", "").want(400).says("there is no parameter")
	c.do("GET /stats?wait=1s", "").want(400).says("there is no parameter")
	c.do("POST /v1/queues/default/settings", `{"set":[{"kind":"capacity","capacity":{"jobs":1}}]}`).want(204)
	c.do("POST /enqueue", `{"payload":"x"}`).want(429)
	c.do("GET /stats", "").want(200).says(`"rejected":1`)
	newCaller(t, server.Config{Expvar: true}).do("GET /debug/vars", "").want(200).says("memstats")
}

func TestAStoppedServerRefuses(t *testing.T) {
	s := newServer(t, server.Config{})
	c := &caller{t, s, http.Header{}}
	done := make(chan *answered)
	waiting := c.with("Spool-Call-ID", broker.NewID().String())
	go func() { done <- waiting.do("POST /v1/claim", `{"wait":"1m"}`) }()
	id := waiting.header.Get("Spool-Call-ID")
	for c.do("DELETE /v1/claims/"+id, "").code == 404 { // until it waits
	}
	(<-done).want(200).says(`"leases":[]`)
	s.Stop()
	c.do("GET /v1/live", "").want(503).says("closed")
}

func TestPagesAreForWhoMaySeeThem(t *testing.T) {
	secrets := map[server.Scope]string{}
	cfg := server.Config{Pages: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "page %s for %s", r.URL.Path, server.Caller(r))
	})}
	for _, scope := range server.Scopes {
		secrets[scope] = server.NewSecret()
		cfg.Credentials = append(cfg.Credentials, server.Credential{Name: "who-" + string(scope), Hash: server.HashSecret(secrets[scope]), Scopes: []server.Scope{scope}})
	}
	c := newCaller(t, cfg)
	as := func(scope server.Scope) *caller {
		r := http.Request{Header: http.Header{}}
		r.SetBasicAuth("anybody", secrets[scope])
		return c.with("Authorization", r.Header.Get("Authorization"))
	}
	if got := c.do("GET /ui/queues", "").want(401).header.Get("WWW-Authenticate"); !strings.HasPrefix(got, "Basic") {
		t.Errorf("asked by %q", got)
	}
	as(server.Read).do("GET /ui/queues", "").want(200).says("page /queues for who-read")
	as(server.Work).do("GET /ui/queues", "").want(403)
	as(server.Read).do("POST /ui/queues", "").want(403)
	page := as(server.Read).with("Accept", "text/html").do("POST /ui/queues", "").want(403).says("<h1>The credential does not cover this</h1>").says("it needs the scope operate")
	if media := page.header.Get("Content-Type"); !strings.HasPrefix(media, "text/html") {
		t.Errorf("a browser is answered %s", media)
	}
	as(server.Operate).do("POST /ui/queues", "").want(200)
	c.with("Authorization", "Bearer "+secrets[server.Read]).do("GET /ui/", "").want(200)
	if got := c.do("GET /", "").want(302).header.Get("Location"); got != "/ui/" {
		t.Errorf("/ leads to %s", got)
	}
	newCaller(t, server.Config{}).do("GET /", "").want(404)
}
