package server

import (
	"context"
	"html/template"
	"net/http"
	"strings"

	"github.com/spoolq/spool/internal/wire"
)

// pageRoutes mounts the pages for browsers.
func (s *Server) pageRoutes() {
	if s.cfg.Pages == nil {
		return
	}
	s.mux.Handle("GET /{$}", http.RedirectHandler(PagesPath, http.StatusFound))
	s.mux.Handle(PagesPath, http.StripPrefix(strings.TrimSuffix(PagesPath, "/"), http.HandlerFunc(s.page)))
}

// page serves a page to who may see it.
func (s *Server) page(w http.ResponseWriter, r *http.Request) {
	scope := Read
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		scope = Operate
	}
	authorization := r.Header.Get("Authorization")
	if _, password, ok := r.BasicAuth(); ok {
		authorization = "Bearer " + password
	}
	k, p := s.admit(authorization, scope)
	if p != nil {
		if p.Status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Basic realm="spool: any name, and a credential as the password", charset="UTF-8"`)
		}
		if p.Status == http.StatusForbidden && strings.Contains(r.Header.Get("Accept"), "text/html") {
			refuse(w, p)
			return
		}
		fail(w, p)
		return
	}
	if k != nil {
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, k))
	}
	s.cfg.Pages.ServeHTTP(w, r)
}

var refusal = template.Must(template.New("").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{{.Title}}</title></head>
<body><h1>{{.Title}}</h1><p>{{.Detail}}. Nothing was changed.</p><p><a href="` + PagesPath + `">Overview</a></p></body></html>
`))

// refuse is fail for a browser.
func refuse(w http.ResponseWriter, p *wire.Problem) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	w.WriteHeader(p.Status)
	_ = refusal.Execute(w, p) // a client that has gone
}
