//go:build unix

package redistest

import "syscall"

// Stop makes the server stand still, as SIGSTOP does: its kernel still takes
// connections and bytes, nobody answers.
func (s *Server) Stop() { s.signal(syscall.SIGSTOP) }

// Cont lets a server that stands still go on.
func (s *Server) Cont() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(sig); err != nil {
		s.t.Fatal(err)
	}
}
