package main

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/brokerurl"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/httpbroker"
	"github.com/spoolq/spool/broker/redisbroker"
	"github.com/spoolq/spool/internal/migrate"
)

// passwordEnv names the environment variable that may hold the password of
// --broker, so that it stands in no list of processes.
const passwordEnv = "SPOOL_BROKER_PASSWORD"

// choose decides what the command works on: what a flag names, else the broker
// that SPOOL_BROKER names, else the directory.
func (a *app) choose(url string, parsed *kong.Context) error {
	byFlag := given(parsed, "broker")
	switch {
	case url == "":
		return nil
	case byFlag && given(parsed, "dir"):
		return usagef("--broker and --dir name two stores: one of them would do")
	case given(parsed, "dir"):
		return nil
	}
	dir, isDir, err := brokerurl.Dir(url)
	if err != nil {
		return usagef("%s", plain(err))
	}
	if isDir {
		a.dir = dir
		return nil
	}
	if url == "memory://" {
		return usagef("a broker in memory ends with the command: a directory, redis:// or http:// would do")
	}
	a.url = url
	return onlyDirectories(parsed.Selected(), byFlag)
}

// given says whether a flag stands on the command line.
func given(parsed *kong.Context, flag string) bool {
	return slices.ContainsFunc(parsed.Path, func(p *kong.Path) bool { return p.Flag != nil && p.Flag.Name == flag })
}

// onlyDirectories refuses a broker for the commands that are about a
// directory. Those that make one of their own let SPOOL_BROKER pass.
func onlyDirectories(command *kong.Node, byFlag bool) error {
	if command == nil || command.Group == nil || command.Name == "version" {
		return nil
	}
	if command.Name == "migrate" { // it names its stores itself
		if byFlag {
			return usagef("spool migrate names both stores behind it: leave --broker away")
		}
		return nil
	}
	switch command.Group.Key {
	case "store":
		return usagef("spool %s is about a store in a directory, and --broker or SPOOL_BROKER names a server: name the directory with --dir", command.Name)
	case "try":
		if byFlag {
			return usagef("spool %s makes a directory of its own and uses no broker: leave --broker away", command.Name)
		}
	}
	return nil
}

// place names the store for people.
func (a *app) place() string {
	if a.url != "" {
		return brokerurl.Redacted(a.url)
	}
	return a.dir
}

// openBroker opens what choose chose.
func (a *app) openBroker(ctx context.Context, how access) (broker.Broker, error) {
	if a.url == "" {
		b, err := a.openStore(a.dir, how)
		if err != nil {
			return nil, err
		}
		return b, nil
	}
	http := httpbroker.Config{Credential: os.Getenv(passwordEnv), Logger: newLogger(a.errw, slog.LevelWarn)}
	return brokerurl.Open(ctx, a.url, brokerurl.Config{Redis: a.redis(passwordEnv), HTTP: http})
}

// redis is how a server is used whose password an environment variable may hold:
// the first of some that is set.
func (a *app) redis(envs ...string) redisbroker.Config {
	cfg := redisbroker.Config{Logger: newLogger(a.errw, slog.LevelWarn)}
	for _, env := range envs {
		if os.Getenv(env) != "" {
			cfg.PasswordEnv = env
			break
		}
	}
	return cfg
}

// openStore opens the store in a directory. Only creating makes one.
func (a *app) openStore(dir string, how access) (*filebroker.Broker, error) {
	if how != creating {
		if err := isStore(dir); err != nil {
			return nil, err
		}
	}
	type opened struct {
		b   *filebroker.Broker
		err error
	}
	done := make(chan opened, 1)
	go func() {
		b, err := filebroker.Open(dir, filebroker.Config{Logger: newLogger(a.errw, slog.LevelWarn), AllowUnsafeFS: a.unsafeFS, RememberCalls: a.remember})
		done <- opened{b, err}
	}()
	ctx, stop := interruptible()
	defer stop()
	select {
	case o := <-done:
		return o.b, o.err
	case <-ctx.Done(): // Open waits for a process that holds the store's lock, and may be stopped
		return nil, context.Cause(ctx)
	}
}

// openSide opens one of the two stores of a move. The password of a server stands
// in its URL, in the variable env, or in that of --broker.
func (a *app) openSide(ctx context.Context, name, env string, how access) (migrate.Broker, error) {
	dir, isDir, err := brokerurl.Dir(name)
	if err != nil {
		return nil, usagef("%s", plain(err))
	}
	switch {
	case isDir:
		return a.openStore(dir, how)
	case !redisbroker.IsURL(name):
		return nil, usagef("queues move between directories and servers of Redis: a path, redis:// and its relatives name them")
	case hasPassword(name):
		return redisbroker.Open(ctx, name, a.redis())
	}
	return redisbroker.Open(ctx, name, a.redis(env, passwordEnv))
}

// hasPassword reports whether a URL has one of its own.
func hasPassword(url string) bool {
	_, rest, _ := strings.Cut(url, "://")
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		rest = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	return at >= 0 && strings.Contains(rest[:at], ":")
}

// sideName names a store wherever it is said, without secrets.
func (a *app) sideName(name string) string {
	dir, isDir, err := brokerurl.Dir(name)
	if err != nil || !isDir {
		return brokerurl.Redacted(name)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		return dir
	}
	if real, err := filepath.EvalSymlinks(abs); err == nil {
		return real
	}
	return abs
}

// said is what was typed for a store, without secrets.
func (a *app) said(name string) string {
	if _, isDir, err := brokerurl.Dir(name); err == nil && isDir {
		return name
	}
	return a.sideName(name)
}

// isStore says whether a directory holds a store, without touching it.
func isStore(dir string) error {
	err := filebroker.IsStore(dir)
	if err == nil || dir == "" || errors.Is(err, fs.ErrPermission) {
		return err
	}
	return &noStore{dir}
}
