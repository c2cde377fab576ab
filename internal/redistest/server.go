package redistest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Persistence is what a server keeps on disk.
type Persistence uint8

// The kinds of persistence. The zero value keeps nothing.
const (
	None     Persistence = iota // nothing survives the server's end
	Everysec                    // a log that is synced each second
	Always                      // a log that is synced before each reply
	Unsynced                    // a log that nobody syncs
)

func (p Persistence) args() []string {
	switch p {
	case Everysec:
		return []string{"--appendonly", "yes", "--appendfsync", "everysec"}
	case Unsynced:
		return []string{"--appendonly", "yes", "--appendfsync", "no"}
	case Always:
		return []string{"--appendonly", "yes", "--appendfsync", "always"}
	}
	return []string{"--appendonly", "no"}
}

// Options says how to start a server.
type Options struct {
	Persistence Persistence
	MaxMemory   int64    // bytes; 0 means no limit
	Unix        bool     // it listens on a unix socket, too
	Dir         string   // of its files; "" means a new one
	Args        []string // more of its command line, as "--requirepass", "secret"
}

// Server is a running server of one test. Its methods may be called from one
// goroutine at a time, Addr, URL and Do from any.
type Server struct {
	t      testing.TB
	dir    string
	socket string
	port   int
	conf   []string // what stands first on the command line
	args   []string // the rest, without the port
	cmd    *exec.Cmd
	ended  chan struct{} // closed when cmd ended
}

// install is what to do when there is no server.
const install = "apt-get install --no-install-recommends redis-server, or name a redis-server or valkey-server in SPOOL_REDIS_SERVER"

// binary finds the server.
func binary(t testing.TB) string {
	t.Helper()
	name := os.Getenv("SPOOL_REDIS_SERVER")
	if name == "" {
		name = "redis-server"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatalf("this test needs a Redis server: %v: %s", err, install)
	}
	return path
}

// Start starts a server and waits until it answers.
func Start(t testing.TB, o Options) *Server {
	t.Helper()
	s := prepare(t, o)
	s.launchAnywhere()
	s.Ready()
	return s
}

// prepare lays out a server's folder and command line.
func prepare(t testing.TB, o Options, more ...string) *Server {
	t.Helper()
	s := &Server{t: t, dir: o.Dir}
	if s.dir == "" {
		s.dir = folder(t)
	}
	s.args = append(s.args, "--bind", "127.0.0.1", "--dir", s.dir, "--logfile", filepath.Join(s.dir, "log"),
		"--save", "", "--daemonize", "no", "--maxmemory-policy", "noeviction", "--repl-diskless-sync-delay", "0")
	s.args = append(s.args, o.Persistence.args()...)
	if o.MaxMemory > 0 {
		s.args = append(s.args, "--maxmemory", strconv.FormatInt(o.MaxMemory, 10))
	}
	if o.Unix {
		s.socket = filepath.Join(shortDir(t), "s")
		s.args = append(s.args, "--unixsocket", s.socket)
	}
	s.args = append(append(s.args, more...), o.Args...)
	t.Cleanup(s.Kill)
	return s
}

// folder makes one for a server's files. The fast loop (go test -short) has it in
// memory where the system has a place for that: a disk's syncs are most of its time.
func folder(t testing.TB) string {
	t.Helper()
	in, ok := memory()
	if !ok || !testing.Short() {
		return t.TempDir()
	}
	dir, err := os.MkdirTemp(in, "redis")
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// shortDir makes a folder whose name is short enough for a socket in it.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "redis")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// freePort returns a port that nobody listens on. It lies below those that
// systems give to connections, so that it stays free while a server restarts.
func freePort(t testing.TB) int {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatal("no free port found")
	return 0
}

// launchAnywhere starts the server on the first port that is still free when
// the server comes to it.
func (s *Server) launchAnywhere() {
	s.t.Helper()
	for range 20 {
		s.port = freePort(s.t)
		if s.launch(); s.listens() {
			return
		}
	}
	s.t.Fatalf("no server started:\n%s", s.log())
}

// launch starts the process.
func (s *Server) launch() {
	s.t.Helper()
	cmd := exec.Command(binary(s.t), slices.Concat(s.conf, []string{"--port", strconv.Itoa(s.port)}, s.args)...)
	cmd.Dir = s.dir
	dieWithParent(cmd)
	started, ended := make(chan error, 1), make(chan struct{})
	go func() {
		// The kernel ties the server's life to the thread that started it.
		runtime.LockOSThread()
		defer close(ended)
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait()
		}
	}()
	if err := <-started; err != nil {
		s.t.Fatal(err)
	}
	s.cmd, s.ended = cmd, ended
}

// listens waits until the server says that it takes connections, or has ended.
func (s *Server) listens() bool {
	for {
		select {
		case <-s.ended:
			return false
		case <-time.After(5 * time.Millisecond):
		}
		// An answer on the port could be that of somebody who was faster.
		if said := s.log(); strings.Contains(said, "Ready to accept connections") || strings.Contains(said, "Sentinel ID is") {
			return true
		}
	}
}

// Ready waits until the server answers a PING.
func (s *Server) Ready() {
	s.t.Helper()
	s.until("PING", func() bool {
		reply, err := s.Do("PING")
		no, refused := err.(Error)
		return reply == "PONG" || refused && strings.HasPrefix(string(no), "NOAUTH")
	})
}

// until gives a condition of a server 30 s to come true.
func (s *Server) until(what string, ok func() bool) {
	s.t.Helper()
	until(s.t, what, ok, s.log)
}

func until(t testing.TB, what string, ok func() bool, log func() string) {
	t.Helper()
	untilLate(t, what, 30*time.Second, ok, log)
}

func untilLate(t testing.TB, what string, late time.Duration, ok func() bool, log func() string) {
	t.Helper()
	for end := time.Now().Add(late); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v\n%s", what, late, log())
		}
	}
}

// log returns what the server said.
func (s *Server) log() string {
	b, err := os.ReadFile(filepath.Join(s.dir, "log"))
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// Addr is the server's host and port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// Socket is the path of the server's socket; "" without Options.Unix.
func (s *Server) Socket() string { return s.socket }

// URL names the server as a broker's URL does.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Dir is the server's folder.
func (s *Server) Dir() string { return s.dir }

// Do sends one command over a connection of its own. It may be called from any
// goroutine.
func (s *Server) Do(args ...any) (any, error) {
	c, err := Dial(s.Addr())
	if err != nil {
		return nil, err
	}
	defer func() { _ = c.Close() }()
	return c.Do(args...)
}

// Must is Do for a command that has to succeed.
func (s *Server) Must(args ...any) any {
	s.t.Helper()
	reply, err := s.Do(args...)
	if err != nil {
		s.t.Fatalf("%s: %v: %v", s.Addr(), args, err)
	}
	return reply
}

// Info returns a field of INFO, "" when there is none.
func (s *Server) Info(field string) string {
	s.t.Helper()
	for line := range strings.Lines(fmt.Sprint(s.Must("INFO", "everything"))) {
		if value, ok := strings.CutPrefix(strings.TrimSpace(line), field+":"); ok {
			return value
		}
	}
	return ""
}

// is reports whether a field of INFO has a value, for until: a server whose
// connections are just being cut has not.
func (s *Server) is(field, value string) bool {
	text, err := s.Do("INFO", "everything")
	return err == nil && slices.Contains(strings.Split(fmt.Sprint(text), "\r\n"), field+":"+value)
}

// Kill ends the server as SIGKILL does, and waits until it is gone. A server
// that is not there is no error.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.cmd = nil
}

// Restart starts a killed server again, on its folder and its port, and waits
// until it answers.
func (s *Server) Restart() {
	s.t.Helper()
	s.Relaunch()
	s.Ready()
}

// Relaunch is Restart that does not wait until the server has loaded its data.
func (s *Server) Relaunch() {
	s.t.Helper()
	s.Kill()
	s.until("the port is free again", func() bool {
		s.launch()
		return s.listensAgain()
	})
}

// listensAgain says whether the server, just started, holds its port.
func (s *Server) listensAgain() bool {
	for {
		select {
		case <-s.ended:
			return false
		case <-time.After(time.Millisecond):
		}
		if c, err := Dial(s.Addr()); err == nil {
			_ = c.Close()
			return true
		}
	}
}

// Alive says whether the server has not been killed.
func (s *Server) Alive() bool { return s.cmd != nil }
