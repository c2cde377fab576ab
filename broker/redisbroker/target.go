package redisbroker

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spoolq/spool/broker"
)

// kind is how servers stand together.
type kind uint8

const (
	single kind = iota
	sentinel
	cluster
)

// target is what a URL names.
type target struct {
	kind    kind
	network string   // "tcp" or "unix"
	addrs   []string // of the server, the sentinels, or some nodes of the cluster
	tls     bool
	db      int
	master  string // sentinel: of the primary

	user, password                 string
	sentinelUser, sentinelPassword string
	namespace                      string
	waitReplicas                   int
	waitDisk                       bool
}

// String names the target without its secrets.
func (t *target) String() string {
	at := strings.Join(t.addrs, ",")
	switch t.kind {
	case sentinel:
		return "the primary " + t.master + " of the sentinels at " + at
	case cluster:
		return "the cluster at " + at
	}
	return "the server at " + at
}

// schemes are those of a URL, and what each means. Those of other clients of
// Redis are understood, too.
var schemes = map[string]target{
	"redis":            {kind: single, network: "tcp"},
	"rediss":           {kind: single, network: "tcp", tls: true},
	"unix":             {kind: single, network: "unix"},
	"redis+unix":       {kind: single, network: "unix"},
	"redis-socket":     {kind: single, network: "unix"},
	"redis+sentinel":   {kind: sentinel, network: "tcp"},
	"rediss+sentinel":  {kind: sentinel, network: "tcp", tls: true},
	"redis-sentinel":   {kind: sentinel, network: "tcp"},
	"rediss-sentinel":  {kind: sentinel, network: "tcp", tls: true},
	"redis+cluster":    {kind: cluster, network: "tcp"},
	"rediss+cluster":   {kind: cluster, network: "tcp", tls: true},
	"redis-cluster":    {kind: cluster, network: "tcp"},
	"rediss-cluster":   {kind: cluster, network: "tcp", tls: true},
	"valkey":           {kind: single, network: "tcp"},
	"valkeys":          {kind: single, network: "tcp", tls: true},
	"valkey+cluster":   {kind: cluster, network: "tcp"},
	"valkeys+cluster":  {kind: cluster, network: "tcp", tls: true},
	"valkey+sentinel":  {kind: sentinel, network: "tcp"},
	"valkeys+sentinel": {kind: sentinel, network: "tcp", tls: true},
}

// IsURL says whether Open knows the scheme of a URL.
func IsURL(url string) bool {
	scheme, _, ok := strings.Cut(url, "://")
	_, known := schemes[scheme]
	return ok && known
}

// parse reads a URL. No error repeats anything of it: where a URL is wrong it
// is not known which part of it is the password.
func parse(raw string, cfg *Config) (*target, error) {
	t, err := parseURL(raw)
	if err == nil {
		err = t.secret(cfg)
	}
	if err == nil && cfg.Namespace == "" {
		cfg.Namespace = t.namespace
	}
	if err == nil && cfg.WaitReplicas == 0 {
		cfg.WaitReplicas = t.waitReplicas
	}
	if err == nil {
		cfg.WaitDisk = cfg.WaitDisk || t.waitDisk
	}
	if err == nil && cfg.Namespace != "" && broker.ValidName(cfg.Namespace) != nil {
		err = errors.New("the namespace is no name: letters, digits, _ . and - do")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the broker's URL: %w", broker.ErrInvalid, err)
	}
	return t, nil
}

func parseURL(raw string) (*target, error) {
	scheme, rest, ok := strings.Cut(raw, "://")
	known, is := schemes[scheme]
	if !ok || !is {
		return nil, errors.New("its scheme is none of redis, rediss, unix, redis+sentinel, rediss+sentinel, redis+cluster, rediss+cluster")
	}
	t := &known
	if strings.Contains(rest, "#") {
		return nil, errors.New("a # in a password is written %23")
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.Contains(query, "@") {
		return nil, errors.New("a ? in a password is written %3F, an @ in a parameter %40")
	}
	// Passwords are often pasted as they are: the last @ ends them.
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		if err := t.login(rest[:i]); err != nil {
			return nil, err
		}
		rest = rest[i+1:]
	}
	if err := t.place(rest); err != nil {
		return nil, err
	}
	return t, t.parameters(query)
}

// login reads a user and a password.
func (t *target) login(info string) error {
	user, password, _ := strings.Cut(info, ":")
	var err1, err2 error
	t.user, err1 = url.PathUnescape(user)
	t.password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return errors.New("a % in a user's name or password is written %25")
	}
	return nil
}

// place reads addresses and a database, or the path of a socket.
func (t *target) place(rest string) error {
	if t.network == "unix" {
		path, err := url.PathUnescape(rest)
		if err != nil || !strings.HasPrefix(path, "/") {
			return errors.New("a socket is named by its whole path: unix:///run/redis/redis.sock")
		}
		t.addrs = []string{path}
		return nil
	}
	hosts, db, _ := strings.Cut(rest, "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if err := t.address(host); err != nil {
			return err
		}
	}
	if db = strings.Trim(db, "/"); db == "" {
		return nil
	}
	return t.database(db)
}

// address adds the address of a server, or sentinel.
func (t *target) address(hostport string) error {
	port := "6379"
	if t.kind == sentinel {
		port = "26379"
	}
	host := hostport
	if h, p, err := net.SplitHostPort(hostport); err == nil {
		host = h
		if p != "" {
			port = p
		}
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		host = host[1 : len(host)-1]
	}
	if host == "" {
		host = "localhost"
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 || strings.ContainsAny(host, " /\\@?#[]") || strings.Contains(host, ":") && net.ParseIP(host) == nil {
		return errors.New("an address is HOST or HOST:PORT, with a port from 1 to 65535")
	}
	t.addrs = append(t.addrs, net.JoinHostPort(host, port))
	return nil
}

func (t *target) database(s string) error {
	n, err := strconv.ParseUint(s, 10, 31)
	if err != nil {
		return errors.New("a database is a number, as in redis://localhost:6379/2")
	}
	t.db = int(n)
	return nil
}

// parameters reads what stands behind the question mark.
func (t *target) parameters(query string) error {
	q, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("its parameters cannot be read")
	}
	for name, values := range q {
		v := values[len(values)-1]
		switch name {
		case "db":
			err = t.database(v)
		case "namespace":
			t.namespace = v
		case "master", "master_name", "sentinelMasterId":
			t.master = v
		case "sentinel_user":
			t.sentinelUser = v
		case "sentinel_password":
			t.sentinelPassword = v
		case "wait_replicas":
			n, wrong := strconv.ParseUint(v, 10, 16)
			if t.waitReplicas = int(n); wrong != nil {
				err = errors.New("wait_replicas is a number of replicas")
			}
		case "wait_disk":
			if t.waitDisk, err = strconv.ParseBool(v); err != nil {
				err = errors.New("wait_disk is true or false")
			}
		case "cluster":
			on, wrong := strconv.ParseBool(v)
			if err = wrong; err != nil {
				err = errors.New("cluster is true or false")
			} else if on {
				t.kind = cluster
			}
		case "addr":
			for _, a := range values {
				err = errors.Join(err, t.address(a))
			}
		default:
			err = errors.New("it has an unknown parameter: there are addr, cluster, db, master, namespace, sentinel_user, sentinel_password, wait_disk and wait_replicas")
		}
		if err != nil {
			return err
		}
	}
	return t.fits()
}

// fits says whether the parts of a URL go together.
func (t *target) fits() error {
	switch {
	case t.kind == sentinel && t.master == "":
		return errors.New("the name of the primary is missing: ?master=NAME, as the sentinels call it")
	case t.kind != sentinel && (t.master != "" || t.sentinelUser != "" || t.sentinelPassword != ""):
		return errors.New("only redis+sentinel:// has a master and a sentinel's user and password")
	case t.kind == cluster && t.db != 0:
		return errors.New("a cluster has no database but 0")
	case t.kind == cluster && t.network == "unix":
		return errors.New("a cluster has no socket")
	case t.kind == single && len(t.addrs) > 1:
		return errors.New("several addresses are those of redis+sentinel:// or redis+cluster://")
	}
	return nil
}

// secret takes the password from where the configuration says.
func (t *target) secret(cfg *Config) error {
	given := []bool{t.password != "", cfg.PasswordEnv != "", cfg.PasswordFile != ""}
	if slices.Index(given, true) >= 0 && slices.Contains(given[slices.Index(given, true)+1:], true) {
		return errors.New("there are several passwords: one comes from the URL, from the variable that Config.PasswordEnv names (for the command line SPOOL_BROKER_PASSWORD), or from a file (Config.PasswordFile)")
	}
	switch {
	case cfg.PasswordEnv != "":
		password, ok := os.LookupEnv(cfg.PasswordEnv)
		if !ok {
			return fmt.Errorf("the environment variable %s, which holds the password, is not set", cfg.PasswordEnv)
		}
		t.password = password
	case cfg.PasswordFile != "":
		b, err := os.ReadFile(cfg.PasswordFile)
		if err != nil {
			return fmt.Errorf("the file that holds the password: %w", err)
		}
		t.password = strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r")
	}
	return nil
}

// Redacted says where a URL leads, without its secrets, for people to see. Two
// stores on one server have two names.
func Redacted(url string) string {
	t, err := parseURL(url)
	if err != nil {
		return "a server of Redis"
	}
	name := t.String()
	if t.db != 0 {
		name += fmt.Sprintf(", database %d", t.db)
	}
	if t.namespace != "" && t.namespace != "spool" {
		name += ", namespace " + t.namespace
	}
	return name
}
