package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// startServers starts what the chosen peers need below dir. What cannot be had
// is in missing, with the reason.
func startServers(dir string, need map[string]bool) (up map[string]*server, missing map[string]error) {
	up, missing = map[string]*server{}, map[string]error{}
	makers := map[string]func(dir string) (*server, error){
		"redis": redisServer, "beanstalkd": beanstalkdServer, "nats": natsServer, "postgres": postgresServer,
	}
	for _, s := range redisSettings {
		makers[s.server] = redisServerWith(s)
	}
	for name, make := range makers {
		if !need[name] {
			continue
		}
		s, err := make(filepath.Join(dir, name))
		if err == nil {
			err = s.start()
		}
		if err != nil {
			missing[name] = err
			continue
		}
		up[name] = s
	}
	return up, missing
}

func redisServer(dir string) (*server, error) {
	program, err := find("redis-server")
	return &server{
		name: "redis", program: program, version: []string{"--version"}, dir: dir,
		ready: redisReady, addr: dir + ".sock", end: syscall.SIGTERM, count: readCounts,
		args: func(s *server) []string {
			return []string{"--port", "0", "--unixsocket", s.addr, "--dir", s.dir, "--appendonly", "yes", "--appendfsync", "always", "--save", "", "--daemonize", "no"}
		},
	}, err
}

func beanstalkdServer(dir string) (*server, error) {
	program, err := find("beanstalkd", "/usr/sbin", "/usr/bin")
	return &server{
		name: "beanstalkd", program: program, version: []string{"-v"}, dir: dir,
		ready: func(s *server) error { return dial("unix", s.addr) }, addr: dir + ".sock", end: syscall.SIGTERM,
		args: func(s *server) []string { return []string{"-l", "unix:" + s.addr, "-b", s.dir, "-f0"} },
	}, err
}

func natsServer(dir string) (*server, error) {
	program, err := find("nats-server", os.Getenv("BENCH_BIN"))
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	addr := fmt.Sprintf("127.0.0.1:%d", port)
	return &server{
		name: "nats", program: program, version: []string{"--version"}, dir: dir,
		ready: func(s *server) error { return dial("tcp", addr) }, addr: "nats://" + addr, end: syscall.SIGTERM,
		args: func(s *server) []string { return []string{"-c", s.dir + ".conf"} },
		prepare: func(s *server) error {
			text := fmt.Sprintf("listen: %q\njetstream { store_dir: %q, sync_interval: always }\n", addr, s.dir)
			return os.WriteFile(s.dir+".conf", []byte(text), 0o644)
		},
	}, err
}

// postgresServer is as initdb makes it; it refuses to run as root.
func postgresServer(dir string) (*server, error) {
	program, err := find("postgres", "/usr/lib/postgresql/*/bin")
	if err != nil {
		return nil, err
	}
	as, err := unprivileged("postgres")
	sockets := dir + ".run"
	s := &server{
		name: "postgres", program: program, version: []string{"--version"}, dir: dir, as: as,
		ready: postgresReady, end: syscall.SIGINT,
		addr: "postgres://postgres@/postgres?host=" + sockets,
		args: func(s *server) []string {
			return []string{"-D", s.dir, "-c", "listen_addresses=", "-c", "unix_socket_directories=" + sockets}
		},
	}
	s.prepare = func(s *server) error {
		if err := os.MkdirAll(sockets, 0o777); err != nil {
			return err
		}
		if err := os.Chmod(sockets, 0o777); err != nil {
			return err
		}
		out, err := s.command(filepath.Join(filepath.Dir(program), "initdb"), "-D", s.dir, "-A", "trust", "-U", "postgres").CombinedOutput()
		if err != nil {
			return fmt.Errorf("initdb: %w: %s", err, lastLine(string(out)))
		}
		return nil
	}
	return s, err
}

func dial(network, addr string) error {
	c, err := net.Dial(network, addr)
	if err != nil {
		return err
	}
	return c.Close()
}

// redisReady is an error while Redis loads its file.
func redisReady(s *server) error {
	c := redis.NewClient(&redis.Options{Network: "unix", Addr: s.addr, MaxRetries: -1})
	defer c.Close()
	return c.Ping(context.Background()).Err()
}

// postgresReady is an error while PostgreSQL recovers.
func postgresReady(s *server) error {
	c, err := pgx.Connect(context.Background(), s.addr)
	if err != nil {
		return err
	}
	return c.Close(context.Background())
}

// manyConns is how many connections a PostgreSQL has for the clients.
const manyConns = 88

// unprivileged returns that user's credential, or nil when this is not root.
func unprivileged(name string) (*syscall.Credential, error) {
	if os.Getuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup(name)
	if err != nil {
		return nil, err
	}
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.Atoi(u.Gid)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
