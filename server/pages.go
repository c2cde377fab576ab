package server

import (
	"context"
	"net/http"
	"strings"
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
		fail(w, p)
		return
	}
	if k != nil {
		r = r.WithContext(context.WithValue(r.Context(), callerKey{}, k))
	}
	s.cfg.Pages.ServeHTTP(w, r)
}
