package wire

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/spoolq/spool/broker"
)

// Problem is an error as RFC 9457 has it (application/problem+json).
type Problem struct {
	Type   string `json:"type" doc:"urn:spool:problem: and the code." example:"urn:spool:problem:full"`
	Title  string `json:"title" doc:"The same for every problem of a code."`
	Status int    `json:"status" doc:"The HTTP status."`
	Detail string `json:"detail,omitzero" doc:"What was wrong, where, and what to do."`
	Code   string `json:"code" doc:"Which problem it is, for programs." example:"full"`

	RetryAfter Duration `json:"retry_after,omitzero" doc:"When to try again."`
	Queue      string   `json:"queue,omitzero" doc:"Of code full: the queue whose capacity is used up."`
	Tenant     string   `json:"tenant,omitzero" doc:"Of code full: the tenant whose capacity is used up."`
	Room       string   `json:"room,omitzero" doc:"Of code full: what is full, by how much."`
	Never      bool     `json:"never,omitzero" doc:"Of code full: the call has more than the capacity by itself."`
}

// kind is a sort of problem.
type kind struct {
	code   string
	status int
	title  string
	err    error // what it is to a client; nil for those that no broker returns
}

// kinds, the more special before the more general.
var kinds = [...]kind{
	{"misplaced", http.StatusBadRequest, "The id that was chosen for a job does not fit", broker.ErrMisplaced},
	{"invalid", http.StatusBadRequest, "The request can never be right", broker.ErrInvalid},
	{"too_large", http.StatusRequestEntityTooLarge, "Something is larger than its limit", broker.ErrTooLarge},
	{"not_found", http.StatusNotFound, "There is no such job", broker.ErrNotFound},
	{"lease_lost", http.StatusConflict, "The lease is lost", broker.ErrLeaseLost},
	{"full", http.StatusTooManyRequests, "There is no room for new jobs", broker.ErrFull},
	{"conflict", http.StatusConflict, "It was changed meanwhile", broker.ErrConflict},
	{"poisoned", http.StatusServiceUnavailable, "The store does not take writes: one has failed", broker.ErrPoisoned},
	{"corrupt", http.StatusInternalServerError, "The store is damaged", broker.ErrCorrupt},
	{"unsupported", http.StatusNotImplemented, "The store cannot do this", broker.ErrUnsupported},
	{"closed", http.StatusServiceUnavailable, "The server is stopping", broker.ErrClosed},
	{"unknown_outcome", http.StatusGatewayTimeout, "Nobody can tell whether the call took place", broker.ErrUnknown},
	{"timeout", http.StatusGatewayTimeout, "The call took too long", context.DeadlineExceeded},
	{"cancelled", 499, "The client has gone", context.Canceled},
}

// Codes of problems that no broker has.
const (
	CodeInternal     = "internal"
	CodeUnauthorized = "unauthorized" // no credential, or a wrong one
	CodeForbidden    = "forbidden"    // the credential does not cover this
	CodeNoRoute      = "no_route"
	CodeMethod       = "method_not_allowed"
	CodeBusy         = "busy" // over a limit of the server
	CodeMedia        = "media_type"
)

// ProblemOf says what err is to a client.
func ProblemOf(err error) *Problem {
	k := kind{CodeInternal, http.StatusInternalServerError, "The server failed", nil}
	for _, one := range kinds {
		if errors.Is(err, one.err) {
			k = one
			break
		}
	}
	p := NewProblem(k.code, k.status, k.title, err.Error())
	var full *broker.FullError
	switch {
	case errors.As(err, &full):
		p.Queue, p.Tenant, p.Room, p.Never = full.Queue, full.Tenant, full.Text, full.RetryAfter == 0
		p.RetryAfter = Duration(full.RetryAfter)
	case k.err == broker.ErrFull: // the disk, or the memory of a server: not for this client to wait for
		p.Status = http.StatusInsufficientStorage
	case k.err == broker.ErrClosed || k.err == broker.ErrPoisoned:
		p.RetryAfter = Duration(time.Second)
	}
	return p
}

// NewProblem makes a problem.
func NewProblem(code string, status int, title, detail string) *Problem {
	return &Problem{Type: "urn:spool:problem:" + code, Title: title, Status: status, Detail: detail, Code: code}
}

// Error is the detail, or the title where there is none.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return "spool: " + p.Title
	}
	return p.Detail
}

// Err is the error of package broker that p is, with p's text.
func (p *Problem) Err() error {
	if p.Code == "full" && (p.RetryAfter != 0 || p.Never) {
		return &broker.FullError{Queue: p.Queue, Tenant: p.Tenant, RetryAfter: time.Duration(p.RetryAfter), Text: p.Room}
	}
	for _, k := range kinds {
		if k.code == p.Code {
			return &told{p.Error(), k.err}
		}
	}
	return p
}

// told is an error that a server told of.
type told struct {
	text string
	is   error
}

func (t *told) Error() string { return t.text }
func (t *told) Unwrap() error { return t.is }

// GetStatus, ContentType and GetHeaders are how a framework writes an error.

// GetStatus is the HTTP status.
func (p *Problem) GetStatus() int { return p.Status }

// ContentType is that of RFC 9457, whatever was asked for.
func (p *Problem) ContentType(string) string { return "application/problem+json" }

// GetHeaders returns Retry-After, in whole seconds, when p says when to try again.
func (p *Problem) GetHeaders() http.Header {
	if p.RetryAfter <= 0 {
		return nil
	}
	seconds := (time.Duration(p.RetryAfter) + time.Second - 1) / time.Second
	return http.Header{"Retry-After": {strconv.FormatInt(int64(seconds), 10)}}
}
