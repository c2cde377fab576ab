package brokerurl

import (
	"errors"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/broker/redisbroker"
	"github.com/spoolq/spool/internal/redistest"
)

func TestAURLNamesABroker(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a b")
	s := redistest.Start(t, redistest.Options{Unix: true})
	for _, c := range []struct {
		name, url string
		is        func(b broker.Broker) bool
	}{
		{"a path", dir, is[*filebroker.Broker]},
		{"a file URL", "file://" + strings.ReplaceAll(dir, " ", "%20"), is[*filebroker.Broker]},
		{"memory", "memory://", is[*membroker.Broker]},
		{"redis", s.URL(), is[*redisbroker.Broker]},
		{"a socket", "unix://" + s.Socket(), is[*redisbroker.Broker]},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := Open(t.Context(), c.url, Config{File: filebroker.Config{AllowUnsafeFS: true}})
			if err != nil {
				t.Fatal(err)
			}
			if !c.is(b) {
				t.Errorf("it is a %T", b)
			}
			if err := b.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func is[B broker.Broker](b broker.Broker) bool { _, ok := b.(B); return ok }

func TestAURLThatNamesNoBrokerIsRefusedWithoutItsSecret(t *testing.T) {
	for _, c := range []struct {
		url  string
		want error
		says string
	}{
		{"", broker.ErrInvalid, "memory://"},
		{"amqp://u:hu5h@host", broker.ErrInvalid, "redis://"},
		{"hu5h://host", broker.ErrInvalid, "redis://"},
		{"postgres://u:hu5h@host/db", broker.ErrUnsupported, "postgres:// yet"},
		{"https://:hu5h@127.0.0.1:1", syscall.ECONNREFUSED, "127.0.0.1:1"},
		{"http://:hu5h@", broker.ErrInvalid, "http://127.0.0.1:8080"},
		{"memory://hu5h", broker.ErrInvalid, "memory://"},
		{"file://hu5h%zz", broker.ErrInvalid, "%25"},
		{"file://", broker.ErrInvalid, "path"},
		{"redis:hu5h@host", broker.ErrInvalid, "://"},
		{"redis://u:hu5h@host/x", broker.ErrInvalid, "database"},
		{"localhost:6379", broker.ErrInvalid, "redis://HOST:PORT"},
		{"redis-1.example.com:6379/2", broker.ErrInvalid, "http://HOST:PORT"},
		{":8080", broker.ErrInvalid, "http://HOST:PORT"},
		{"[::1]:6379", broker.ErrInvalid, "redis://HOST:PORT"},
		{"u:hu5h@host", broker.ErrInvalid, "redis://HOST:PORT"},
		{"u:hu5h/hu5h@host:1", broker.ErrInvalid, "redis://HOST:PORT"},
		{"http+unix://host", broker.ErrInvalid, "http+unix:///"},
		{"http+unix://:hu5h@/nowhere/s.sock", syscall.ENOENT, "/nowhere/s.sock"},
	} {
		b, err := Open(t.Context(), c.url, Config{})
		if b != nil || !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%q: %v, %v; want %v, and %q in it", c.url, b, err, c.want, c.says)
		}
		if strings.Contains(err.Error()+Redacted(c.url), "hu5h") {
			t.Errorf("%q: a secret was told: %v", c.url, err)
		}
	}
	for url, want := range map[string]string{
		"./jobs":                               "./jobs",
		"file:///var/jobs":                     "/var/jobs",
		"redis://u:hu5h@host:1/2":              "the server at host:1, database 2",
		"redis://u:hu5h@host:1?namespace=shop": "the server at host:1, namespace shop",
		"redis+cluster://:hu5h@a,b":            "the cluster at a:6379,b:6379",
		"unix://hu5h:hu5h@/run/sock":           "the server at /run/sock",
		"https://:hu5h@host/x":                 "https://host/x",
		"http+unix://:hu5h@/run/s.sock":        "http+unix:///run/s.sock",
	} {
		if got := Redacted(url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
}

func TestADirectoryMayLookLikeAnAddressBehindASlash(t *testing.T) {
	for _, name := range []string{"./localhost:6379", "/var/localhost:6379", "jobs", "a:b", "a@b", "../x:1", "localhost", "a/b:c@d"} {
		if dir, ok, err := Dir(name); dir != name || !ok || err != nil {
			t.Errorf("%s: %q, %v, %v", name, dir, ok, err)
		}
	}
}
