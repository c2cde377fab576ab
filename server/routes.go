package server

// routes registers everything that is served.
func (s *Server) routes() {
	s.api = newAPI(s.mux, s.cfg.Version)
	s.api.UseMiddleware(s.authorize)
	s.produceRoutes()
	s.workRoutes()
	s.readRoutes()
	s.operateRoutes()
	s.streamRoutes()
	s.healthRoutes()
	s.seedRoutes()
	s.pageRoutes()
	s.metricsRoutes()
	tidy(s.api)
	s.mux.HandleFunc("/", s.noRoute)
}
