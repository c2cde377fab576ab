package redisbroker

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/spoolq/spool/broker"
)

// withDefaults fills in what a Config leaves open.
func (c Config) withDefaults() Config {
	if c.Namespace == "" {
		c.Namespace = "spool"
	}
	for _, d := range []struct {
		at   *time.Duration
		zero time.Duration
	}{{&c.WaitTimeout, 5 * time.Second}, {&c.DialTimeout, 5 * time.Second}, {&c.CallTimeout, 10 * time.Second}} {
		if *d.at <= 0 {
			*d.at = d.zero
		}
	}
	if c.WaitReplicas > 0 || c.WaitDisk {
		c.CallTimeout += c.WaitTimeout
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// newClient makes the client of a target. It repeats nothing by itself: see
// network.
func newClient(to *target, cfg *Config, dial dialFunc) redis.UniversalClient {
	off := &maintnotifications.Config{Mode: maintnotifications.ModeDisabled}
	switch to.kind {
	case cluster:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: to.addrs, Username: to.user, Password: to.password, Dialer: dial,
			MaxRedirects: maxRedirects, MaxRetries: -1, DisableRoutingPolicies: true, NewClient: newNode,
			DialTimeout: cfg.DialTimeout, DialerRetries: 1, ReadTimeout: cfg.CallTimeout, ContextTimeoutEnabled: true,
			PoolSize: cfg.PoolSize, PoolTimeout: cfg.CallTimeout, PipelinePoolSize: -1,
			DisableIdentity: true, MaintNotificationsConfig: off,
		})
	case sentinel:
		c := redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: to.master, SentinelAddrs: to.addrs, SentinelUsername: to.sentinelUser, SentinelPassword: to.sentinelPassword,
			Username: to.user, Password: to.password, DB: to.db, Dialer: dial, MaxRetries: -1,
			DialTimeout: cfg.DialTimeout, DialerRetries: 1, ReadTimeout: cfg.CallTimeout, ContextTimeoutEnabled: true,
			PoolSize: cfg.PoolSize, PoolTimeout: cfg.CallTimeout, PipelinePoolSize: -1,
			DisableIdentity: true,
		})
		c.AddHook(markHook{})
		return c
	}
	return newNode(&redis.Options{
		Network: to.network, Addr: to.addrs[0], Username: to.user, Password: to.password, DB: to.db, Dialer: dial, MaxRetries: -1,
		DialTimeout: cfg.DialTimeout, DialerRetries: 1, ReadTimeout: cfg.CallTimeout, ContextTimeoutEnabled: true,
		PoolSize: cfg.PoolSize, PoolTimeout: cfg.CallTimeout, PipelinePoolSize: -1,
		DisableIdentity: true, MaintNotificationsConfig: off,
	})
}

// newNode makes the client of one server.
func newNode(o *redis.Options) *redis.Client {
	c := redis.NewClient(o)
	c.AddHook(markHook{})
	return c
}

// master is the client of the server that a command with a key goes to.
func (n *network) master(ctx context.Context, cmd *redis.Cmd) (*redis.Client, error) {
	switch c := n.client.(type) {
	case *redis.ClusterClient:
		key, _ := cmd.Args()[3].(string)
		return c.MasterForKey(ctx, key)
	case *redis.Client:
		return c, nil
	}
	return nil, broker.ErrUnsupported
}

// node is the client of the node of a cluster at an address; nil when the
// cluster does not know it yet.
func (n *network) node(ctx context.Context, addr string) (found *redis.Client) {
	c, ok := n.client.(*redis.ClusterClient)
	if !ok {
		return nil
	}
	_ = c.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		if node.Options().Addr == addr {
			n.mu.Lock()
			found = node
			n.mu.Unlock()
		}
		return nil
	})
	return found
}
