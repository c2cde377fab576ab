package server

func (s *Server) seedRoutes() {}
