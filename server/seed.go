package server

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// The short paths are an API of seven calls for one queue: what a message queue
// of one file offers, so that its users can move over without a change.
const (
	shortQueue = "default"
	shortTask  = "message"
)

// refused counts what capacities held up on the short paths, in this process.
type refused struct{ rejected, waited atomic.Int64 }

func (s *Server) seedRoutes() {
	for _, p := range [...]struct {
		pattern string
		scope   Scope
		handle  func(r *http.Request) (any, error)
	}{
		{"POST /enqueue", Produce, s.shortEnqueue},
		{"POST /dequeue", Work, s.shortDequeue},
		{"POST /ack", Work, s.shortAck},
		{"POST /nack", Work, s.shortNack},
		{"GET /stats", Read, s.shortStats},
		{"GET /depth", Read, s.shortDepth},
		{"GET /healthz", Public, s.shortHealth},
	} {
		parameter := ""
		if p.pattern == "POST /dequeue" {
			parameter = "wait"
		}
		s.plain(p.pattern, p.scope, func(r *http.Request) (any, error) {
			if err := onlyQuery(r, parameter); err != nil {
				return nil, err
			}
			return p.handle(r)
		})
	}
}

// plain adds a handler beside the framework.
func (s *Server) plain(pattern string, scope Scope, handle func(r *http.Request) (any, error)) {
	s.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		k, problem := s.allow(w, r, scope)
		if problem != nil {
			fail(w, problem)
			return
		}
		if k != nil {
			r = r.WithContext(context.WithValue(r.Context(), callerKey{}, k))
		}
		v, err := handle(r)
		if err != nil {
			fail(w, s.problem(r.Context(), err).(*wire.Problem))
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_ = wire.Write(w, v) // a client that has gone
	})
}

// allow looks at the credential of a request beside the framework.
func (s *Server) allow(w http.ResponseWriter, r *http.Request, scope Scope) (*key, *wire.Problem) {
	k, p := s.admit(r.Header.Get("Authorization"), scope)
	if p != nil && p.Status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", challenge)
	}
	return k, p
}

// short reads the body of a call beside the framework.
func short(r *http.Request, v any) error {
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return bodyError(err)
	}
	if len(b) == 0 {
		return fmt.Errorf("%w: request body is required", broker.ErrInvalid)
	}
	return wire.Read(b, v)
}

// spend reads a body that says nothing. Before its end nobody would notice that
// the client has gone, and a job would be leased to it.
func spend(r *http.Request) error {
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return bodyError(err)
	}
	return nil
}

// bodyError is why a body could not be read.
func bodyError(err error) error {
	if large, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return fmt.Errorf("%w: the body has more than %d bytes", broker.ErrTooLarge, large.Limit)
	}
	return wire.NewProblem("timeout", http.StatusRequestTimeout, "The body did not arrive", "")
}

// message is a job as the short calls show it. Its id carries the fencing token.
type message struct {
	ID             string    `json:"id"`
	Payload        string    `json:"payload"`
	PayloadBase64  string    `json:"payload_base64,omitzero"` // of bytes that are not UTF-8
	IdempotencyKey string    `json:"idempotency_key,omitzero"`
	Priority       int32     `json:"priority,omitzero"`
	FairnessKey    string    `json:"fairness_key,omitzero"`
	State          string    `json:"state"`
	Attempts       int       `json:"attempts"`
	EnqueuedAt     time.Time `json:"enqueued_at,omitzero"`
}

func messageOf(j *broker.Job, token broker.Token) message {
	m := message{
		ID: j.ID.String(), Payload: string(j.Payload), IdempotencyKey: j.Key, Priority: j.Priority, FairnessKey: j.Tenant,
		State: j.State.String(), Attempts: j.Attempt, EnqueuedAt: j.EnqueuedAt,
	}
	if token != 0 {
		m.ID += "." + token.String()
	}
	if !utf8.Valid(j.Payload) {
		m.PayloadBase64 = base64.StdEncoding.EncodeToString(j.Payload)
	}
	return m
}

func (s *Server) shortEnqueue(r *http.Request) (any, error) {
	var in struct {
		Payload        *string       `json:"payload"`
		IdempotencyKey string        `json:"idempotency_key"`
		Priority       int32         `json:"priority"`
		FairnessKey    string        `json:"fairness_key"`
		Wait           wire.Duration `json:"wait"`
	}
	if err := short(r, &in); err != nil {
		return nil, err
	}
	if in.Payload == nil {
		return nil, fmt.Errorf("%w: payload is missing", broker.ErrInvalid)
	}
	call, err := callOf(r)
	if err != nil {
		return nil, err
	}
	jobs := []broker.NewJob{{
		Task: shortTask, Payload: []byte(*in.Payload), Key: in.IdempotencyKey, Priority: in.Priority, Tenant: in.FairnessKey,
	}}
	answers, err := s.enqueue(r.Context(), call, shortQueue, jobs, time.Duration(in.Wait))
	if err != nil {
		return nil, err
	}
	if answers[0].Existing && !mayRead(r.Context()) { // it may be somebody else's
		return map[string]any{"message": map[string]broker.ID{"id": answers[0].ID}, "created": false}, nil
	}
	got, err := s.broker.Get(r.Context(), []broker.Ref{{Queue: shortQueue, ID: answers[0].ID}})
	if err != nil {
		return nil, err
	}
	if got[0].State == 0 { // done and gone already
		got[0] = broker.Job{ID: answers[0].ID, Payload: jobs[0].Payload, State: broker.Done}
	}
	return map[string]any{"message": messageOf(&got[0], 0), "created": !answers[0].Existing}, nil
}

// callOf is the call that a request names.
func callOf(r *http.Request) (broker.Call, error) {
	text := r.Header.Get(callHeader)
	if text == "" {
		return broker.NewCall(), nil
	}
	id, err := broker.ParseID(text)
	if err != nil {
		return broker.Call{}, fmt.Errorf("%w: header %s: %w", broker.ErrInvalid, callHeader, err)
	}
	return broker.Call{ID: id}, nil
}

func (s *Server) shortDequeue(r *http.Request) (any, error) {
	call, err := callOf(r)
	if err != nil {
		return nil, err
	}
	wait, err := shortWait(r)
	if err != nil {
		return nil, err
	}
	request := broker.ClaimRequest{Queues: []string{shortQueue}, Max: 1, Worker: "dequeue", Remote: true, Wait: s.cut(wait)}
	done, err := s.claimers.claim(r.Context(), &request)
	if err != nil {
		return nil, err
	}
	defer done()
	ctx, cancel := s.waiting(r.Context())
	defer cancel()
	got, err := s.broker.Claim(ctx, call, request)
	if err != nil && r.Context().Err() == nil && errors.Is(err, context.Canceled) {
		err = nil // the server stops
	}
	if err != nil {
		return nil, err
	}
	if len(got.Leases) == 0 {
		return nil, wire.NewProblem("empty", http.StatusNotFound, "The queue is empty", "nothing is ready now")
	}
	return messageOf(&got.Leases[0].Job, got.Leases[0].Token), nil
}

// shortWait is how long a dequeue waits: a parameter of its query, or a field of
// its body, which may be left out.
func shortWait(r *http.Request) (time.Duration, error) {
	var in struct {
		Wait wire.Duration `json:"wait"`
	}
	// To its end: before that nobody would notice that the client has gone, and a
	// job would be leased to it.
	b, err := io.ReadAll(r.Body)
	if err != nil {
		return 0, bodyError(err)
	}
	if len(bytes.TrimSpace(b)) > 0 {
		if err := wire.Read(b, &in); err != nil {
			return 0, err
		}
	}
	if query := r.URL.Query(); query.Has("wait") {
		if err := in.Wait.UnmarshalText([]byte(query.Get("wait"))); err != nil {
			return 0, fmt.Errorf("%w: wait: %w", broker.ErrInvalid, err)
		}
	}
	if in.Wait < 0 {
		return 0, fmt.Errorf("%w: wait %v is negative", broker.ErrInvalid, in.Wait)
	}
	return time.Duration(in.Wait), nil
}

// onlyQuery refuses parameters of a query that a short path does not have.
func onlyQuery(r *http.Request, allowed string) error {
	if r.URL.RawQuery == "" {
		return nil
	}
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return fmt.Errorf("%w: query: %w", broker.ErrInvalid, err)
	}
	for name := range values {
		if name != allowed {
			return fmt.Errorf("%w: query: there is no parameter %.64q here: this path is of the queue %s", broker.ErrInvalid, name, shortQueue)
		}
	}
	return nil
}

// shortSettle ends the lease that the id of a message carries.
func (s *Server) shortSettle(r *http.Request, kind broker.SettleKind) (*broker.Settled, error) {
	var in struct {
		ID    string `json:"id"`
		Error string `json:"error"`
	}
	if err := short(r, &in); err != nil {
		return nil, err
	}
	call, err := callOf(r)
	if err != nil {
		return nil, err
	}
	text, lease, leased := strings.Cut(in.ID, ".")
	id, err := broker.ParseID(text)
	if err != nil {
		return nil, fmt.Errorf("%w: id: %w", broker.ErrInvalid, err)
	}
	ref := broker.Ref{Queue: shortQueue, ID: id}
	token, err := broker.ParseToken(lease)
	if leased && err != nil {
		return nil, fmt.Errorf("%w: id: %w", broker.ErrInvalid, err)
	}
	settlement := broker.Settlement{Ref: ref, Token: token, Kind: kind, Error: in.Error}
	if kind == broker.Nack {
		jobs, err := s.broker.Get(r.Context(), []broker.Ref{ref})
		if err != nil {
			return nil, err
		}
		settlement.Delay = spool.Exponential{}.Delay(jobs[0].Failures+1, nil)
		settlement.Error = cmp.Or(in.Error, "nack")
	}
	answers, err := s.broker.Settle(r.Context(), call, []broker.Settlement{settlement})
	if err != nil {
		return nil, err
	}
	if errors.Is(answers[0].Err, broker.ErrNotFound) && leased {
		// There was such a lease, since the id has its token: the job is done and gone.
		return nil, fmt.Errorf("%w: job %s is settled, and not kept", broker.ErrLeaseLost, id)
	}
	return &answers[0], answers[0].Err
}

func (s *Server) shortAck(r *http.Request) (any, error) {
	if _, err := s.shortSettle(r, broker.Ack); err != nil {
		return nil, err
	}
	return map[string]bool{"ok": true}, nil
}

func (s *Server) shortNack(r *http.Request) (any, error) {
	got, err := s.shortSettle(r, broker.Nack)
	if err != nil {
		return nil, err
	}
	return map[string]bool{"dead": got.State == broker.Dead}, nil
}

// shortQueueNow is the sum of the short calls' queue.
func (s *Server) shortQueueNow(ctx context.Context) (wire.Queue, error) {
	counts, err := s.broker.Counts(ctx, shortQueue)
	if err != nil {
		return wire.Queue{}, err
	}
	if sums := wire.QueuesOf(counts); len(sums) > 0 {
		return sums[0], nil
	}
	return wire.Queue{}, nil
}

func (s *Server) shortStats(r *http.Request) (any, error) {
	q, err := s.shortQueueNow(r.Context())
	if err != nil {
		return nil, err
	}
	return map[string]int64{
		"scheduled": q.Scheduled, "ready": q.Ready, "leased": q.Leased, "dead": q.Dead, "depth": q.Depth, "high_water": q.HighWater,
		"enqueued": q.Totals.Enqueued, "acked": q.Totals.Acked, "failed": q.Totals.Failed, "expired": q.Totals.Expired,
		"cancelled": q.Totals.Cancelled, "rejected": s.refused.rejected.Load(), "blocked": s.refused.waited.Load(),
	}, nil
}

func (s *Server) shortDepth(r *http.Request) (any, error) {
	q, err := s.shortQueueNow(r.Context())
	if err != nil {
		return nil, err
	}
	return map[string]int64{"current": q.Depth, "high_water": q.HighWater}, nil
}

func (s *Server) shortHealth(r *http.Request) (any, error) {
	if _, err := s.ready(r.Context(), nil); err != nil {
		return nil, err
	}
	return map[string]bool{"ok": true}, nil
}
