package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/internal/vfs/crashfs"
	"github.com/spoolq/spool/server"
)

var errDisk = errors.New("the disk is gone")

// onDisk is a caller of a store in files, on a machine whose disk can fail.
func onDisk(t *testing.T) (*caller, *crashfs.Machine) {
	m := crashfs.New(crashfs.Config{Uptime: time.Hour})
	b, err := filebroker.Open("/jobs", filebroker.Config{Logger: quiet, RememberCalls: true}.On(m.Process()))
	if err != nil {
		t.Fatal(err)
	}
	c := spool.New(b, spool.Config{Logger: quiet})
	s, err := server.New(c, server.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); m.Inject(nil); c.Close() })
	return &caller{t, s, http.Header{}}, m
}

func TestAPoisonedStoreIsToldOfAndReadOn(t *testing.T) {
	c, m := onDisk(t)
	id := c.do("POST /v1/jobs", `{"task":"t","payload":{"a": 1}}`).want(201).text("id")
	c.do("GET /v1/ready", "").want(204)
	m.Inject(func(op crashfs.Op) error {
		if op.Kind == crashfs.OpSync && strings.HasSuffix(op.Path, ".log") {
			return errDisk
		}
		return nil
	})
	for _, r := range []struct{ what, body string }{
		{"POST /v1/jobs", `{"task":"t"}`}, {"POST /v1/jobs", `{"task":"t"}`}, {"POST /v1/queues/q/jobs", `{"jobs":[{"task":"t"}]}`}, {"POST /v1/claim", `{}`},
		{"POST /v1/queues/default/cancel", `{"filter":{}}`}, {"POST /v1/queues/default/pause", ""}, {"POST /enqueue", `{"payload":"x"}`},
	} {
		got := c.do(r.what, r.body).want(503).says(`"code":"poisoned"`).says("The store does not take writes: one has failed")
		if got.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After: %v", r.what, got.header)
		}
	}
	c.do("GET /v1/ready", "").want(503).says("poisoned")
	c.do("GET /healthz", "").want(503).says("poisoned")
	c.do("GET /v1/health", "").want(200).says(`"status":"poisoned"`).says(errDisk.Error())
	c.do("GET /v1/live", "").want(204)
	c.do("GET /v1/jobs/"+id, "").want(200).says(`{"a": 1}`).says(`"ready"`)
	c.do("GET /v1/counts", "").want(200).says(`"ready":`)
}

// A balancer would cut off the acks that free the disk.
func TestAFullDiskIsReadyAndSaysSo(t *testing.T) {
	store := spool.New(fullDisk{membroker.New(membroker.Config{})}, spool.Config{Logger: quiet})
	s, err := server.New(store, server.Config{Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop(); store.Close() })
	c := &caller{t, s, http.Header{}}
	c.do("GET /v1/ready", "").want(204)
	c.do("GET /healthz", "").want(200)
	c.do("GET /v1/health", "").want(200).says(`"status":"full"`)
}

// fullDisk is a store whose disk is full.
type fullDisk struct{ *membroker.Broker }

func (fullDisk) Health(context.Context) (broker.Health, error) {
	return broker.Health{Status: broker.DiskFull, Text: "the disk is full"}, nil
}

// A credential is rotated by an entry more, and then one less, each with a start
// of the server: here of a new handler, as a socket of systemd passes it on.
func TestACredentialIsRotatedWhileRequestsRun(t *testing.T) {
	old, fresh := server.NewSecret(), server.NewSecret()
	entry := func(secret string) server.Credential {
		return server.Credential{Name: "web", Hash: server.HashSecret(secret), Scopes: []server.Scope{server.Produce}}
	}
	store := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: quiet})
	defer store.Close()
	var now atomic.Pointer[server.Server]
	start := func(credentials ...server.Credential) {
		s, err := server.New(store, server.Config{Logger: quiet, Credentials: credentials})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Stop) // the one before serves what it has begun
		now.Store(s)
	}
	start(entry(old))
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { now.Load().ServeHTTP(w, r) }))
	defer h.Close()
	enqueue := func(secret string) int {
		r, err := http.NewRequest(http.MethodPost, h.URL+"/v1/jobs", strings.NewReader(`{"task":"t"}`))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+secret)
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Error(err)
			return 0
		}
		resp.Body.Close()
		return resp.StatusCode
	}
	var secret atomic.Pointer[string]
	secret.Store(&old)
	var stop atomic.Bool
	var made atomic.Int64
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for !stop.Load() {
				if code := enqueue(*secret.Load()); code != http.StatusCreated {
					t.Errorf("answered %d", code)
				}
				made.Add(1)
			}
		})
	}
	goOn := func() {
		for was := made.Load(); made.Load() < was+100 && !t.Failed(); {
			runtime.Gosched()
		}
	}
	goOn()
	start(entry(old), entry(fresh))
	goOn()
	secret.Store(&fresh)
	goOn()
	stop.Store(true)
	clients.Wait() // nobody shows the old one any more
	start(entry(fresh))
	if code := enqueue(old); code != http.StatusUnauthorized {
		t.Errorf("the old secret is answered %d", code)
	}
	if code := enqueue(fresh); code != http.StatusCreated {
		t.Errorf("the new secret is answered %d", code)
	}
}
