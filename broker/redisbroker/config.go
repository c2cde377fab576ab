package redisbroker

import (
	"crypto/tls"
	"log/slog"
	"time"
)

// Config says how to use a server. The zero Config is right for a server of
// one's own.
type Config struct {
	// Namespace keeps apart stores that share a server and a database; it is
	// part of every key. A name as broker.ValidName has it; "" means "spool".
	// A namespace in the URL (?namespace=) is used when this is "".
	Namespace string

	// EvictionAllowed opens a server whose maxmemory-policy deletes keys when
	// memory is short: jobs can then vanish without a trace. Without it such a
	// server is refused.
	EvictionAllowed bool

	// WaitReplicas makes each call that changes something wait until so many
	// replicas have received it, too (WAIT): a failover to one of them loses
	// nothing then. 0 waits for none. When WaitTimeout passes before that, the
	// call returns broker.ErrUnknown: it took place, and is not as safe as asked.
	// What the URL says (?wait_replicas=, ?wait_disk=) is used when this is 0, or
	// WaitDisk false.
	WaitReplicas int
	// WaitDisk makes each call that changes something wait until the server has
	// synced it to its disk, and WaitReplicas replicas to theirs (WAITAOF;
	// Redis 7.2 or newer with appendonly). It makes a server with
	// appendfsync everysec as safe as one with always; a call takes up to a
	// second, until the server syncs. Open refuses it with ErrUnsupported
	// where WAITAOF answers too early: with everysec on Redis 7.4 and on Valkey
	// from 8.0 on. Replicas are not asked for their versions.
	WaitDisk    bool
	WaitTimeout time.Duration // 0 means 5 s

	// PasswordEnv and PasswordFile name an environment variable or a file that
	// holds the password, instead of the URL; the end of the last line of a
	// file is not part of it. At most one of the three is given.
	PasswordEnv  string
	PasswordFile string

	DialTimeout time.Duration // for a connection; 0 means 5 s
	// CallTimeout is how long one attempt waits for its reply. The call is then
	// repeated, over another connection. 0 means 10 s.
	CallTimeout time.Duration
	PoolSize    int // connections to a server at most; 0 means 10 for each CPU

	TLS    *tls.Config  // for rediss:// and the like; nil means the system's certificates
	Logger *slog.Logger // told of lost connections and changed promises; nil discards. go-redis's own is silent but where a program sets it
}
