package redisbroker

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

func TestURLsNameServers(t *testing.T) {
	for _, c := range []struct {
		url  string
		want target
	}{
		{"redis://localhost", target{network: "tcp", addrs: []string{"localhost:6379"}}},
		{"redis://", target{network: "tcp", addrs: []string{"localhost:6379"}}},
		{"redis://:1234/3", target{network: "tcp", addrs: []string{"localhost:1234"}, db: 3}},
		{"redis://[::1]:7/?db=2&namespace=shop", target{network: "tcp", addrs: []string{"[::1]:7"}, db: 2, namespace: "shop"}},
		{"redis://u:p%40ss@h", target{network: "tcp", addrs: []string{"h:6379"}, user: "u", password: "p@ss"}},
		{"redis://:p/a@s:s@h:1/2", target{network: "tcp", addrs: []string{"h:1"}, password: "p/a@s:s", db: 2}},
		{"rediss://h", target{network: "tcp", tls: true, addrs: []string{"h:6379"}}},
		{"unix:///run/redis.sock?db=1", target{network: "unix", addrs: []string{"/run/redis.sock"}, db: 1}},
		{"redis+sentinel://a,b:1/4?master=m", target{kind: sentinel, network: "tcp", addrs: []string{"a:26379", "b:1"}, master: "m", db: 4}},
		{"redis-sentinel://:x@a?master_name=m&sentinel_user=su&sentinel_password=sp&addr=b", target{
			kind: sentinel, network: "tcp", addrs: []string{"a:26379", "b:26379"}, master: "m", password: "x", sentinelUser: "su", sentinelPassword: "sp",
		}},
		{"redis+cluster://a:1,b:2", target{kind: cluster, network: "tcp", addrs: []string{"a:1", "b:2"}}},
		{"rediss://a?cluster=true&addr=b:2", target{kind: cluster, network: "tcp", tls: true, addrs: []string{"a:6379", "b:2"}}},
		{"redis://h?wait_replicas=2&wait_disk=true", target{network: "tcp", addrs: []string{"h:6379"}, waitReplicas: 2, waitDisk: true}},
		{"valkey://h", target{network: "tcp", addrs: []string{"h:6379"}}},
	} {
		got, err := parse(c.url, &Config{})
		if err != nil {
			t.Errorf("%s: %v", c.url, err)
		} else if !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%s:\n got %+v\nwant %+v", c.url, *got, c.want)
		}
		if !IsURL(c.url) {
			t.Errorf("%s is no URL of ours", c.url)
		}
	}
}

func TestWhatToWaitForMayStandInTheURL(t *testing.T) {
	for _, c := range []struct {
		name     string
		url      string
		cfg      Config
		replicas int
		disk     bool
	}{
		{"what the URL says is used where the Config says nothing", "redis://h?wait_replicas=2&wait_disk=true", Config{}, 2, true},
		{"what the Config says comes first", "redis://h?wait_replicas=2&wait_disk=false", Config{WaitReplicas: 1, WaitDisk: true}, 1, true},
		{"nothing is waited for unless somebody says so", "redis://h", Config{}, 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := parse(c.url, &c.cfg); err != nil || c.cfg.WaitReplicas != c.replicas || c.cfg.WaitDisk != c.disk {
				t.Errorf("waits for %d replicas, disk %v, %v; want %d, %v", c.cfg.WaitReplicas, c.cfg.WaitDisk, err, c.replicas, c.disk)
			}
		})
	}
}

// hush is a secret that no error may hold, in any of its parts.
const hush = "hu5h/hu5h@hu5h:hu5h"

func TestNoErrorOfAWrongURLHoldsItsSecret(t *testing.T) {
	for name, url := range map[string]string{
		"no scheme":                      "hu5h@host",
		"an unknown scheme":              "hu5h://u:hu5h@host",
		"a scheme with the password":     "redis:hu5h@host",
		"a raw # in the password":        "redis://:hu5h#hu5h@host",
		"a raw ? in the password":        "redis://:hu5h?hu5h=hu5h@host",
		"a raw % in the password":        "redis://:hu5h%zzhu5h@host",
		"a raw / and no host":            "redis://:hu5h/hu5h",
		"a password for a port":          "redis://host:hu5h",
		"a password for a host":          "redis://hu5h:hu5h:hu5h",
		"a password for a database":      "redis://host/hu5h",
		"a password for a parameter":     "redis://host?hu5h=1",
		"a password as a parameter":      "redis://host?password=hu5h",
		"a raw % in a parameter":         "redis://host?namespace=%zzhu5h",
		"a password for a db":            "redis://host?db=hu5h",
		"a password for a namespace":     "redis://host?namespace=hu5h/hu5h",
		"a password for a cluster":       "redis://host?cluster=hu5h",
		"a password for an address":      "redis+cluster://host?addr=hu5h:hu5h",
		"sentinels without a master":     "redis+sentinel://:hu5h@host?sentinel_password=hu5h",
		"sentinels' secret and no such":  "redis://:hu5h@host?sentinel_password=hu5h",
		"a socket without a whole path":  "unix://hu5h",
		"a cluster with a database":      "redis+cluster://:hu5h@host/3",
		"several servers":                "redis://:hu5h@a,b",
		"a port that is none":            "redis://:hu5h@host:99999",
		"a password as a number":         "redis://host?wait_replicas=hu5h",
		"a password as yes or no":        "redis://host?wait_disk=hu5h",
		"a bracket that is not closed":   "redis://:hu5h@[::1",
		"a raw secret and a wrong place": "redis://u:" + hush + "@host/x",
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Open(t.Context(), url, Config{})
			if !errors.Is(err, broker.ErrInvalid) {
				t.Errorf("%s: %v, want ErrInvalid", url, err)
			}
			if err != nil && strings.Contains(err.Error(), "hu5h") {
				t.Errorf("the error holds a secret: %v", err)
			}
		})
	}
}

func TestNoErrorOfAServerHoldsASecret(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "right"}})
	gone := redistest.Start(t, redistest.Options{})
	gone.Kill()
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("hu5h\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SPOOL_TEST_PASSWORD", "hu5h")
	for _, c := range []struct {
		name, url string
		cfg       Config
	}{
		{"a wrong password in the URL", "redis://u:hu5h@" + s.Addr(), Config{}},
		{"a wrong password in a variable", s.URL(), Config{PasswordEnv: "SPOOL_TEST_PASSWORD"}},
		{"a wrong password in a file", s.URL(), Config{PasswordFile: file}},
		{"two passwords", "redis://:hu5h@" + s.Addr(), Config{PasswordFile: file}},
		{"a variable that is not set", s.URL(), Config{PasswordEnv: "SPOOL_TEST_NO_SUCH"}},
		{"a file that is not there", s.URL(), Config{PasswordFile: file + ".not"}},
		{"no password", s.URL(), Config{}},
		{"a server that is not there", "redis://u:hu5h@" + gone.Addr(), Config{}},
		{"sentinels that are not there", "redis+sentinel://u:hu5h@" + gone.Addr() + "?master=m&sentinel_password=hu5h", Config{}},
		{"a cluster that is not there", "redis+cluster://u:hu5h@" + gone.Addr(), Config{}},
		{"a server that speaks no TLS", "rediss://u:hu5h@" + s.Addr(), Config{DialTimeout: time.Second}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var log strings.Builder
			c.cfg.Logger = slog.New(slog.NewTextHandler(&log, nil))
			began := time.Now()
			b, err := Open(t.Context(), c.url, c.cfg)
			if err == nil {
				_ = b.Close()
				t.Fatal("it opened")
			}
			if strings.Contains(err.Error()+log.String(), "hu5h") {
				t.Errorf("a secret was told: %v %s", err, log.String())
			}
			if took := time.Since(began); took > 5*time.Second {
				t.Errorf("the error came after %s: %v", took, err)
			}
		})
	}
}

func TestAPasswordMayStandInAVariableOrAFile(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Args: []string{"--requirepass", "p@s/s:w"}})
	file := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(file, []byte("p@s/s:w\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SPOOL_TEST_PASSWORD", "p@s/s:w")
	for _, c := range []struct {
		name, url string
		cfg       Config
	}{
		{"in the URL, as it is", "redis://:p@s/s:w@" + s.Addr(), Config{}},
		{"in the URL, escaped", "redis://default:p%40s%2Fs%3Aw@" + s.Addr(), Config{}},
		{"in a variable", s.URL(), Config{PasswordEnv: "SPOOL_TEST_PASSWORD"}},
		{"in a file", s.URL(), Config{PasswordFile: file}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := put(t.Context(), connect(t, c.url, c.cfg), c.name); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestASocketAndADatabaseAreUsed(t *testing.T) {
	s := redistest.Start(t, redistest.Options{Unix: true})
	if err := put(t.Context(), connect(t, "unix://"+s.Socket()+"?db=5", Config{}), "a"); err != nil {
		t.Fatal(err)
	}
	if got := s.Info("db5"); !strings.HasPrefix(got, "keys=2,") {
		t.Errorf("database 5 holds %q", got)
	}
}

func TestConnectionsAreEncryptedAndTheServerIsKnown(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	addr, roots := secureProxy(t, s.Addr())
	if err := put(t.Context(), connect(t, "rediss://"+addr, Config{TLS: &tls.Config{RootCAs: roots}}), "a"); err != nil {
		t.Error(err)
	}
	_, err := Open(t.Context(), "rediss://"+addr, Config{})
	var unknown x509.UnknownAuthorityError
	if !errors.As(err, &unknown) {
		t.Errorf("a server whose certificate nobody vouches for: %v", err)
	}
}

// secureProxy stands before a server and speaks TLS with clients.
func secureProxy(t *testing.T, target string) (addr string, roots *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	roots = x509.NewCertPool()
	roots.AddCert(cert)
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", target)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
	return l.Addr().String(), roots
}
