package server

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"reflect"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// route is an operation of the API.
type route struct {
	method, path string
	id           string // of the operation, for generated clients
	summary      string
	doc          string
	scope        Scope
	status       int // of success; 0 means 200
	tag          string
}

// scopeKey is where an operation's metadata has its scope.
const scopeKey = "scope"

// register adds an operation to the API: its handler is a function from a
// request's shape to an answer's, its errors are those of package broker.
func register[I, O any](s *Server, r route, handle func(context.Context, *I) (*O, error)) {
	add(s, s.api, r, handle)
}

// describe adds an operation to the description alone: its handler is mounted by
// itself.
func describe[I, O any](s *Server, r route, handle func(context.Context, *I) (*O, error)) {
	add(s, huma.NewAPI(huma.Config{OpenAPI: s.api.OpenAPI()}, nowhere{}), r, handle)
}

// nowhere is an adapter that mounts nothing.
type nowhere struct{ huma.Adapter }

// Handle implements huma.Adapter.
func (nowhere) Handle(*huma.Operation, func(huma.Context)) {}

func add[I, O any](s *Server, to huma.API, r route, handle func(context.Context, *I) (*O, error)) {
	op := huma.Operation{
		Method: r.method, Path: r.path, OperationID: r.id, Summary: r.summary, Description: r.doc, Tags: []string{r.tag},
		DefaultStatus: r.status, MaxBodyBytes: s.cfg.MaxBody, BodyReadTimeout: bodyTimeout,
		SkipValidateBody: true, RejectUnknownQueryParameters: true,
		Metadata:  map[string]any{scopeKey: r.scope},
		Responses: map[string]*huma.Response{"4XX": s.problemResponse(), "5XX": s.problemResponse(), "default": s.problemResponse()},
		Security:  []map[string][]string{{"credential": {}}},
	}
	if r.scope == Public {
		op.Security = []map[string][]string{{}}
	}
	huma.Register(to, op, func(ctx context.Context, in *I) (*O, error) {
		out, err := handle(ctx, in)
		if err != nil {
			return nil, s.problem(ctx, err)
		}
		return out, nil
	})
}

func (s *Server) problemResponse() *huma.Response {
	schema := s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeFor[wire.Problem](), true, "Problem")
	return &huma.Response{
		Description: "A problem, as RFC 9457 has it.",
		Content:     map[string]*huma.MediaType{"application/problem+json": {Schema: schema}},
	}
}

// newAPI makes an API without operations on mux.
func newAPI(mux *http.ServeMux, version string) huma.API {
	schemas := huma.NewMapRegistry("#/components/schemas/", huma.DefaultSchemaNamer)
	schemas.RegisterTypeAlias(reflect.TypeFor[jsontext.Value](), reflect.TypeFor[json.RawMessage]()) // any JSON
	format := huma.Format{
		Marshal: func(w io.Writer, v any) error {
			b, err := wire.Append(nil, v)
			if err == nil {
				_, _ = w.Write(append(b, '\n')) // a client that has gone
			}
			return err
		},
		Unmarshal: wire.Read,
	}
	api := humago.New(mux, huma.Config{
		OpenAPI: &huma.OpenAPI{
			OpenAPI: "3.1.0",
			Servers: []*huma.Server{{URL: "/", Description: "The one that serves this."}},
			Info: &huma.Info{
				Title: "spool", Version: version, License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
				Description: "A durable job queue over HTTP. Every call that changes something may be repeated under the same " + callHeader + ".",
			},
			Components: &huma.Components{
				Schemas:         schemas,
				SecuritySchemes: map[string]*huma.SecurityScheme{"credential": {Type: "http", Scheme: "bearer"}},
			},
		},
		OpenAPIPath:   "/v1/openapi",
		Formats:       map[string]huma.Format{"application/json": format, "application/problem+json": format},
		DefaultFormat: "application/json",
		Transformers:  []huma.Transformer{ownProblems},
	})
	api.UseMiddleware(func(ctx huma.Context, next func(huma.Context)) { next(&context400{ctx}) })
	return api
}

// tidy takes out of the description what the framework puts there and nothing
// answers: its own errors, and null in place of a list.
func tidy(api huma.API) {
	all := api.OpenAPI().Components.Schemas.Map()
	delete(all, "ErrorModel")
	delete(all, "ErrorDetail")
	for _, s := range all {
		noNull(s)
	}
	for _, path := range api.OpenAPI().Paths {
		for _, op := range []*huma.Operation{path.Get, path.Post, path.Delete} {
			if op == nil {
				continue
			}
			for _, p := range op.Parameters {
				noNull(p.Schema)
			}
		}
	}
}

func noNull(s *huma.Schema) {
	if s == nil {
		return
	}
	if s.Type == huma.TypeArray {
		s.Nullable = false
	}
	noNull(s.Items)
	for _, p := range s.Properties {
		noNull(p)
	}
}

// ownProblems turns the framework's errors into problems.
func ownProblems(_ huma.Context, _ string, v any) (any, error) {
	e, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	return problemOfModel(e), nil
}

// context400 answers 400 where the framework would answer 422: a request that
// can never be right has one status here.
type context400 struct{ inner }

type inner = huma.Context // under another name than its method Context

func (c *context400) SetStatus(code int) {
	if code == http.StatusUnprocessableEntity {
		code = http.StatusBadRequest
	}
	c.inner.SetStatus(code)
}

// Unwrap lets the adapter find its own context.
func (c *context400) Unwrap() huma.Context { return c.inner }

// callHeader names the call id of a request that changes something.
const callHeader = "Spool-Call-ID"

// Called is the part of a request that names its call.
type Called struct {
	CallID broker.ID `header:"Spool-Call-ID" doc:"A UUID that names the call: a repeat with the same one gives the first answer and changes nothing, for as long as caps.retry says."`
}

// call is the call of a request, a new one where none is named.
func (c *Called) call() broker.Call {
	if c.CallID.IsZero() {
		return broker.NewCall()
	}
	return broker.Call{ID: c.CallID}
}

// answer is an output with a JSON body.
type answer[T any] struct{ Body T }

// empty is the output of an operation that answers 204.
type empty struct{}
