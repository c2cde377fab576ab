package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spoolq/spool/server"
)

// bad is a request that gets one of some statuses.
type bad struct {
	method, path, body string
	header             map[string]string
	chunked            bool
	codes              []int
}

func (b *bad) String() string {
	return fmt.Sprintf("%s %.100s %v %.100q", b.method, b.path, b.header, b.body)
}

// The routes that take a body, and those that read.
var (
	posts = []string{
		"/v1/jobs", "/v1/queues/q/jobs", "/v1/await", "/v1/claim", "/v1/extend", "/v1/settle", "/v1/queues/q/search", "/v1/lookup",
		"/v1/queues/q/cancel", "/v1/queues/q/requeue", "/v1/queues/q/delete", "/v1/queues/q/settings", "/v1/queues/q/schedules/s/tick",
	}
	gets = []string{
		"/v1/queues", "/v1/counts", "/v1/settings", "/v1/workers", "/v1/health", "/v1/caps", "/v1/live", "/v1/ready", "/v1/queues/q/jobs?state=ready",
		"/stats", "/depth", "/healthz",
	}
)

const maxBody = 256 << 10

// badRequests are more than a thousand, of every sort.
func badRequests() (all []bad) {
	post := func(path, body string, codes ...int) {
		all = append(all, bad{method: "POST", path: path, body: body, codes: codes})
	}
	with := func(method, path, body, name, value string, codes ...int) {
		all = append(all, bad{method: method, path: path, body: body, header: map[string]string{name: value}, codes: codes})
	}
	for _, path := range append(posts, "/enqueue", "/ack", "/nack") {
		for _, body := range []string{
			"", " ", "{", "}", "nul", "null null", "[]", `"x"`, "1", "true", `{"a"}`, `{"a":}`, `{"no_such_field":1}`, `{"":1}`, "{}{}", "\xff\xfe", "{\"\xff\":1}",
			`{'task':1}`, `{"task":"t",}`, "<xml/>", "task=t", "\x00", strings.Repeat("[", 50_000), strings.Repeat(`{"a":`, 50_000), `{"jobs":` + strings.Repeat("[", 20_000),
			`{"payload":` + strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) + `}`,
		} {
			post(path, body, 400)
		}
		post(path, `{"x":"`+strings.Repeat("y", maxBody)+`"}`, 413)
		all = append(all, bad{method: "POST", path: path, body: strings.Repeat(" ", maxBody+1), chunked: true, codes: []int{413}})
		with("POST", path, "{}", "Content-Encoding", "gzip", 415)
		with("POST", path, "{}", "Host", "evil.example.com", 421)
		with("POST", path, "{}", "Origin", "https://evil.example.com", 403)
		with("POST", path, "{}", "Sec-Fetch-Site", "cross-site", 403)
		for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "BREW"} {
			all = append(all, bad{method: method, path: path, codes: []int{405}})
		}
	}
	for _, path := range posts {
		for _, media := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/json; charset=utf-16", "application/xml", "nonsense", "*/*"} {
			with("POST", path, "{}", "Content-Type", media, 415)
		}
	}
	for _, path := range []string{"/v1/jobs", "/v1/claim", "/v1/settle", "/enqueue", "/dequeue"} {
		for _, id := range []string{"abc", "1", strings.Repeat("a", 36), "01890a5d-ac96-774b-bcce-b302099a805", "{}"} {
			with("POST", path, "{}", "Spool-Call-ID", id, 400)
		}
	}
	for _, path := range gets {
		for _, method := range []string{"PUT", "PATCH", "DELETE", "OPTIONS"} {
			all = append(all, bad{method: method, path: path, codes: []int{405}})
		}
		with("GET", path, "", "Host", "evil.example.com", 421)
	}
	return append(all, badValues()...)
}

// badValues are requests that can be read and can never be right.
func badValues() (all []bad) {
	wrong := []string{`1`, `-1`, `1.5`, `1e400`, `"x"`, `true`, `{}`, `[]`, `[1]`, `""`, `"\ud800"`, `"5"`}
	right := map[string]string{ // values of these that are not wrong
		"task": `"x" "5"`, "priority": `1 -1`, "max_attempts": `1`, "delay": ``, "timeout": ``, "at": ``, "headers": `{}`, "ordered": `true`,
		"key_hold": `""`, "batch": ``, "id": ``, "payload_base64": `""`, "retain": ``,
	}
	for field, fits := range right {
		for _, value := range wrong {
			if strings.Contains(" "+fits+" ", " "+value+" ") {
				continue
			}
			body := `{"task":"t","` + field + `":` + value + `}`
			if field == "task" {
				body = `{"task":` + value + `}`
			}
			all = append(all, bad{method: "POST", path: "/v1/jobs", body: body, codes: []int{400}},
				bad{method: "POST", path: "/v1/queues/q/jobs", body: `{"jobs":[{"task":"t"},` + body + `]}`, codes: []int{400}})
		}
	}
	for field, values := range map[string][]string{
		"max": {`0`, `-1`, `1001`, `1.5`, `"1"`, `[]`}, "ttl": {`1`, `"-1s"`, `"1"`, `"1y"`, `{}`}, "wait": {`1`, `"-1s"`, `"soon"`, `[]`},
		"queues": {`"q"`, `[1]`, `[""]`, `["a b"]`, `{}`}, "tasks": {`"t"`, `[null,1]`, `["a/b"]`}, "worker": {`1`, `{}`},
	} {
		for _, value := range values {
			all = append(all, bad{method: "POST", path: "/v1/claim", body: `{"` + field + `":` + value + `}`, codes: []int{400}})
		}
	}
	for _, name := range []string{"%20", "a%20b", "..%2f..%2fetc", "%00", "%ff", "a:b", "%C3%BC", strings.Repeat("x", 129), "a%0ab", "%7e"} {
		for _, path := range []string{"jobs?state=ready", "jobs/01890a5d-ac96-774b-bcce-b302099a8057", "jobs/01890a5d-ac96-774b-bcce-b302099a8057/payload"} {
			all = append(all, bad{method: "GET", path: "/v1/queues/" + name + "/" + path, codes: []int{400}})
		}
		for path, body := range map[string]string{"jobs": `{"jobs":[{"task":"t"}]}`, "search": `{"filter":{"states":["ready"]}}`, "settings": `{"set":[{"kind":"weight","name":"a","weight":1}]}`, "pause": ""} {
			all = append(all, bad{method: "POST", path: "/v1/queues/" + name + "/" + path, body: body, codes: []int{400}})
		}
		all = append(all, bad{method: "GET", path: "/v1/jobs/" + name, codes: []int{400}})
	}
	for _, query := range []string{"", "state=gone", "state=ready&limit=0", "state=ready&limit=1001", "state=ready&limit=x", "state=ready&cursor=%00", "state=ready&older_than=1", "state=ready&nothing=1"} {
		all = append(all, bad{method: "GET", path: "/v1/queues/q/jobs?" + query, codes: []int{400}})
	}
	for _, path := range []string{"/v2/jobs", "/v1", "/v1/", "/admin", "/v1/jobs/x/y/z", "/.git/config", "/enqueue/", "/v1/queues/q/jobs/", "/etc/passwd"} {
		all = append(all, bad{method: "GET", path: path, codes: []int{404, 405}}, bad{method: "POST", path: path, body: "{}", codes: []int{404, 405}})
	}
	return all
}

// send makes the request and says what is wrong with the answer.
func (b *bad) send(c *http.Client, url string) error {
	var body io.Reader
	if b.body != "" {
		body = strings.NewReader(b.body)
	}
	if b.chunked {
		body = io.MultiReader(body) // of a length that nobody knows
	}
	r, err := http.NewRequest(b.method, url+b.path, body)
	if err != nil {
		return err
	}
	if b.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range b.header {
		if r.Header.Set(name, value); name == "Host" {
			r.Host = value
		}
	}
	resp, err := c.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	said, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	for _, code := range b.codes {
		if resp.StatusCode == code {
			var p struct {
				Status            int
				Code, Title, Type string
			}
			if err := json.Unmarshal(said, &p); err != nil || p.Status != code || p.Code == "" || p.Title == "" || p.Type != "urn:spool:problem:"+p.Code {
				return fmt.Errorf("%d is no problem document: %.300s", code, said)
			}
			return nil
		}
	}
	return fmt.Errorf("answered %d, want %v: %.300s", resp.StatusCode, b.codes, said)
}

// descriptors is how many files this process has open; 0 where nobody says.
func descriptors() int {
	list, _ := os.ReadDir("/proc/self/fd")
	return len(list)
}

// work enqueues, claims and acks until ctx ends, and counts.
func goodWork(ctx context.Context, c *http.Client, url string) (done int, err error) {
	post := func(path, body string, into any) error {
		resp, err := c.Post(url+path, "application/json", strings.NewReader(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		said, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode > 299 {
			err = fmt.Errorf("%s: %d %s", path, resp.StatusCode, said)
		}
		if err != nil || into == nil {
			return err
		}
		return json.Unmarshal(said, into)
	}
	for ctx.Err() == nil {
		if err := post("/enqueue", `{"payload":"x"}`, nil); err != nil {
			return done, err
		}
		var m struct{ ID string }
		if err := post("/dequeue?wait=10s", "", &m); err != nil {
			return done, err
		}
		if err := post("/ack", `{"id":"`+m.ID+`"}`, nil); err != nil {
			return done, err
		}
		done++
	}
	return done, nil
}

func TestAThousandBadRequestsLeaveItServing(t *testing.T) {
	list := badRequests()
	if len(list) < 1000 {
		t.Fatalf("%d requests", len(list))
	}
	s := newServer(t, server.Config{MaxBody: maxBody})
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	c := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 8}}
	once := func(n int) {
		ctx, stop := context.WithCancel(t.Context())
		var load, senders sync.WaitGroup
		for range 2 {
			load.Go(func() {
				if done, err := goodWork(ctx, c, h.URL); err != nil || done == 0 {
					t.Errorf("beside bad requests %d jobs were done: %v", done, err)
				}
			})
		}
		for part := range 4 {
			senders.Go(func() {
				for i := part; i < n; i += 4 {
					if err := list[i].send(c, h.URL); err != nil {
						t.Errorf("%s: %v", &list[i], err)
					}
				}
			})
		}
		senders.Wait()
		stop()
		load.Wait()
		c.CloseIdleConnections()
	}
	once(100) // so that what a process opens once is open
	settle := func(is func() bool) bool {
		for end := time.Now().Add(10 * time.Second); !is(); runtime.Gosched() {
			if time.Now().After(end) {
				return false
			}
		}
		return true
	}
	goroutines, files := runtime.NumGoroutine(), descriptors()
	once(len(list))
	if !settle(func() bool { return runtime.NumGoroutine() <= goroutines+4 && descriptors() <= files+4 }) {
		var stacks bytes.Buffer
		buf := make([]byte, 1<<20)
		stacks.Write(buf[:runtime.Stack(buf, true)])
		t.Errorf("%d goroutines and %d files before, %d and %d after\n%.3000s", goroutines, files, runtime.NumGoroutine(), descriptors(), stacks.String())
	}
	t.Logf("%d bad requests", len(list))
}
