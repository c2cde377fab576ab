package server

import (
	"context"
	"fmt"
	"mime"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// bodyTimeout is how long a request's body may take to arrive. Tests shorten it.
var bodyTimeout = 30 * time.Second

// guard lets a request through to its handler, or refuses it.
func guard(s *Server, w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	defer func() {
		if e := recover(); e != nil {
			if e == http.ErrAbortHandler {
				panic(e)
			}
			s.log.ErrorContext(r.Context(), "a request panicked", "panic", e, "method", r.Method, "path", r.URL.Path)
			fail(w, wire.NewProblem(wire.CodeInternal, http.StatusInternalServerError, "The server failed", ""))
		}
	}()
	switch {
	case s.life.Err() != nil:
		fail(w, wire.ProblemOf(broker.ErrClosed))
		return
	case !s.hostAllowed(r.Host):
		fail(w, wire.NewProblem(wire.CodeForbidden, http.StatusMisdirectedRequest, "This host name is not served here",
			fmt.Sprintf("the request is for the host %.64q; allow it in the server's configuration (hosts)", r.Host)))
		return
	case r.ContentLength > s.cfg.MaxBody:
		h.Set("Connection", "close") // so that the rest is not read
		fail(w, wire.ProblemOf(fmt.Errorf("%w: a body of %d bytes, the limit is %d", broker.ErrTooLarge, r.ContentLength, s.cfg.MaxBody)))
		return
	case r.Header.Get("Content-Encoding") != "":
		fail(w, wire.NewProblem(wire.CodeMedia, http.StatusUnsupportedMediaType, "The body is encoded in a way that is not taken", "send it without Content-Encoding"))
		return
	}
	if err := s.origins.Check(r); err != nil {
		fail(w, wire.NewProblem(wire.CodeForbidden, http.StatusForbidden, "A page of somebody else sent this", err.Error()))
		return
	}
	if r.ContentLength != 0 { // -1: nobody knows
		if p := mediaProblem(r); p != nil && strings.HasPrefix(r.URL.Path, "/v1/") { // the rest is guarded by where it comes from
			fail(w, p)
			return
		}
		timely := &timelyBody{ReadCloser: http.MaxBytesReader(w, r.Body, s.cfg.MaxBody), ctl: http.NewResponseController(w), header: h}
		s.bodies.begin(timely)
		defer s.bodies.end(timely, false)
		r.Body = timely
	}
	timely := &timelyWriter{ResponseWriter: w, ctl: http.NewResponseController(w)}
	defer timely.extend(0) // what is left in the buffers
	s.mux.ServeHTTP(timely, withCertificate(r))
}

// mediaProblem refuses a body that does not say that it is JSON: a page of
// somebody else can make a browser send any other without asking.
func mediaProblem(r *http.Request) *wire.Problem {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset := strings.ToLower(params["charset"])
	if err == nil && media == "application/json" && (charset == "" || charset == "utf-8") {
		return nil
	}
	return wire.NewProblem(wire.CodeMedia, http.StatusUnsupportedMediaType, "The body has a content type that is not taken",
		fmt.Sprintf("it is %.64q: send it in UTF-8, with Content-Type: application/json", r.Header.Get("Content-Type")))
}

// noRoute answers a request that no other handler is for.
func (s *Server) noRoute(w http.ResponseWriter, r *http.Request) {
	var allowed []string
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		probe := r.Clone(r.Context())
		probe.Method = method
		if _, pattern := s.mux.Handler(probe); pattern != "/" {
			allowed = append(allowed, method)
		}
	}
	if allowed == nil {
		fail(w, wire.NewProblem(wire.CodeNoRoute, http.StatusNotFound, "There is nothing at this path",
			fmt.Sprintf("%s %.128s: /v1/openapi.json describes what there is", r.Method, r.URL.Path)))
		return
	}
	w.Header().Set("Allow", strings.Join(allowed, ", "))
	fail(w, wire.NewProblem(wire.CodeMethod, http.StatusMethodNotAllowed, "This path does not take this method",
		fmt.Sprintf("%s takes %s", r.URL.Path, strings.Join(allowed, " and "))))
}

// timelyWriter ends an answer that its client does not take: it would keep the
// answer in memory for as long as it likes.
type timelyWriter struct {
	http.ResponseWriter
	ctl *http.ResponseController
}

// An answer has writeTime, and a second more for each slowest bytes. The time is
// longer than bodyTimeout, for which an answer may have to wait when its handler
// left the body alone. Tests change both.
var (
	writeTime = time.Minute
	slowest   = 64 << 10
)

// extend gives the next n bytes their time.
func (w *timelyWriter) extend(n int) {
	_ = w.ctl.SetWriteDeadline(time.Now().Add(writeTime + time.Duration(n/slowest)*time.Second)) // not every connection has one
}

// WriteHeader implements http.ResponseWriter.
func (w *timelyWriter) WriteHeader(code int) {
	w.extend(0)
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *timelyWriter) Write(b []byte) (int, error) {
	w.extend(len(b))
	return w.ResponseWriter.Write(b)
}

// SetReadDeadline leaves the deadline of the body as it is: the framework would
// set its own.
func (w *timelyWriter) SetReadDeadline(time.Time) error { return nil }

// Unwrap lets an http.ResponseController find the connection's own.
func (w *timelyWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// hostSet is the set of allowed names; nil allows every one.
func hostSet(names []string) map[string]bool {
	set := map[string]bool{"localhost": true}
	for _, name := range names {
		if name == "*" {
			return nil
		}
		set[strings.ToLower(name)] = true
	}
	return set
}

// hostAllowed says whether a Host header names this server: by an address of
// loopback, or by a name that is known.
func (s *Server) hostAllowed(host string) bool {
	if s.hosts == nil {
		return true
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return true
	}
	return s.hosts[strings.ToLower(host)]
}

// challenge says how to show a credential.
const challenge = `Bearer realm="spool"`

// callerKey is where a request's context has the key that it showed.
type callerKey struct{}

// authorize is a middleware that wants the scope of an operation.
func (s *Server) authorize(ctx huma.Context, next func(huma.Context)) {
	scope, _ := ctx.Operation().Metadata[scopeKey].(Scope)
	k, p := s.admit(ctx.Header("Authorization"), scope)
	if p != nil {
		if scope == Operate && k != nil {
			_ = s.record(context.WithValue(ctx.Context(), callerKey{}, k), ctx.Operation().OperationID, ctx.Param("queue"), p)
		}
		if p.Status == http.StatusUnauthorized {
			ctx.SetHeader("WWW-Authenticate", challenge)
		}
		ctx.SetHeader("Content-Type", p.ContentType(""))
		ctx.SetStatus(p.Status)
		_ = wire.Write(ctx.BodyWriter(), p) // a client that has gone
		return
	}
	if k != nil {
		ctx = huma.WithContext(ctx, context.WithValue(ctx.Context(), callerKey{}, k))
	}
	next(ctx)
}

// admit returns the key of a caller, nil when none is needed or known, and why it
// is refused.
func (s *Server) admit(authorization string, scope Scope) (*key, *wire.Problem) {
	if scope == Public || len(s.keys) == 0 {
		return nil, nil
	}
	k := s.keys.find(authorization)
	switch {
	case k == nil && authorization == "":
		return nil, wire.NewProblem(wire.CodeUnauthorized, http.StatusUnauthorized, "A credential is needed", "send it as: Authorization: Bearer …")
	case k == nil && strings.HasPrefix(strings.ToLower(authorization), "basic "):
		return nil, wire.NewProblem(wire.CodeUnauthorized, http.StatusUnauthorized, "The credential is not known",
			"a user and a password count at /ui/ alone: send the secret as: Authorization: Bearer …")
	case k == nil:
		return nil, wire.NewProblem(wire.CodeUnauthorized, http.StatusUnauthorized, "The credential is not known", "")
	case scope != Anyone && !k.scopes[scope]:
		return k, wire.NewProblem(wire.CodeForbidden, http.StatusForbidden, "The credential does not cover this", "it needs the scope "+string(scope))
	}
	return k, nil
}

// Caller names who makes a request, by the name of its credential.
func Caller(r *http.Request) string { return caller(r.Context()) }

// caller names who makes a request, for the audit log.
func caller(ctx context.Context) string {
	if k, ok := ctx.Value(callerKey{}).(*key); ok {
		return k.name
	}
	if name, ok := ctx.Value(certificateKey{}).(string); ok {
		return name
	}
	return "anybody"
}

// certificateKey is where a request's context has the name in the certificate that
// its client showed.
type certificateKey struct{}

// withCertificate remembers whom a client's certificate names.
func withCertificate(r *http.Request) *http.Request {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return r
	}
	return r.WithContext(context.WithValue(r.Context(), certificateKey{}, r.TLS.VerifiedChains[0][0].Subject.String()))
}

// MayOperate reports whether who makes a request may change what a page shows: see
// Config.Pages.
func MayOperate(r *http.Request) bool { return mayDo(r.Context(), Operate) }

// mayRead reports whether the caller of a request may read jobs.
func mayRead(ctx context.Context) bool { return mayDo(ctx, Read) }

func mayDo(ctx context.Context, scope Scope) bool {
	k, ok := ctx.Value(callerKey{}).(*key)
	return !ok || k.scopes[scope]
}
