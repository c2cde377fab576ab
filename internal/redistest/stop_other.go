//go:build !unix

package redistest

// Stop fails the test: there are no signals here.
func (s *Server) Stop() { s.t.Helper(); s.t.Fatal("this system cannot stop a process") }

// Cont fails the test: there are no signals here.
func (s *Server) Cont() { s.t.Helper(); s.t.Fatal("this system cannot stop a process") }
