package redisbroker

import (
	"context"
	"errors"

	"github.com/spoolq/spool/broker"
)

// Open connects to the servers that a URL names, and returns once they answer:
//
//	redis://[USER:PASSWORD@]HOST[:PORT][/DATABASE]              one server
//	redis+sentinel://HOST[:PORT],HOST[:PORT]…[/DATABASE]?master=NAME   the primary that sentinels name
//	redis+cluster://HOST[:PORT],HOST[:PORT]…                    a cluster, of which some nodes are named
//	unix:///PATH/OF/SOCKET[?db=DATABASE]                        one server, by its socket
//
// With rediss the connections are encrypted. ?namespace=NAME is
// Config.Namespace, ?wait_replicas=N Config.WaitReplicas, ?wait_disk=true
// Config.WaitDisk. The user and the password are those of the servers; those
// of sentinels are the parameters sentinel_user and sentinel_password. No error
// and no line of the log repeats a secret.
//
// A server that is starting, or a primary that its sentinels replace, is waited for
// until ctx ends, at most a minute; one that is not there is an error at once.
//
// Errors: ErrInvalid for a URL or a Config that can never be right, or of another
// kind of server than is there (a node of a cluster, say);
// ErrUnsupported for a server older than 7.0, for one that evicts keys (unless
// Config.EvictionAllowed), and for one that cannot do what the Config asks;
// others when the server cannot be reached, or refuses the user.
func Open(ctx context.Context, url string, cfg Config) (*Broker, error) {
	to, err := parse(url, &cfg)
	if err != nil {
		return nil, err
	}
	if cfg.WaitReplicas < 0 || cfg.PoolSize < 0 || cfg.WaitTimeout < 0 || cfg.DialTimeout < 0 || cfg.CallTimeout < 0 {
		return nil, errors.Join(broker.ErrInvalid, errors.New("redis: Config has a negative number"))
	}
	cfg = cfg.withDefaults()
	n, err := newNetwork(ctx, to, cfg, namesOf(cfg.Namespace))
	if err != nil {
		return nil, err
	}
	b, err := newBroker(n, cfg)
	if err != nil {
		return nil, errors.Join(err, n.close())
	}
	return b, nil
}
