package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/broker"
)

// promise is what a server's settings make of an acknowledged call. Where a
// managed server tells less, the fields say unknown.
type promise struct {
	valkey      bool
	node        bool // of a cluster
	version     string
	appendonly  bool
	fsync       string // appendfsync: "always", "everysec", "no", or "" for unknown
	policy      string // maxmemory-policy
	replicas    int    // connected; of a cluster, of the node that has the fewest
	minReplicas int    // min-replicas-to-write; -1 for unknown
	wait        int    // Config.WaitReplicas
	disk        bool   // Config.WaitDisk
	early       bool   // WAITAOF answers before the disk has what it waits for
}

// readPromise asks each primary. The weakest answer counts.
func (n *network) readPromise(ctx context.Context) (promise, error) {
	var all []promise
	err := n.eachPrimary(ctx, func(node *redis.Client) error {
		p, err := askPromise(ctx, node)
		if p.node && n.target.kind != cluster {
			err = errNode
		}
		all = append(all, p)
		return err
	})
	if err != nil {
		return promise{}, err
	}
	if len(all) == 0 {
		return promise{}, errors.New("the cluster has no primary")
	}
	p := all[0]
	for _, other := range all[1:] {
		p = p.weaker(other)
	}
	p.wait, p.disk = n.cfg.WaitReplicas, n.cfg.WaitDisk
	return p, nil
}

// eachPrimary calls fn for each primary, one after the other.
func (n *network) eachPrimary(ctx context.Context, fn func(node *redis.Client) error) error {
	c, ok := n.client.(*redis.ClusterClient)
	if !ok {
		return fn(n.client.(*redis.Client))
	}
	turn := make(chan struct{}, 1)
	return c.ForEachMaster(ctx, func(_ context.Context, node *redis.Client) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		return fn(node)
	})
}

// askPromise asks one server. CONFIG is often forbidden where others run the
// server: what INFO says is used then.
func askPromise(ctx context.Context, node *redis.Client) (promise, error) {
	text, err := node.Info(ctx, "server", "persistence", "memory", "replication", "cluster").Result()
	if err != nil {
		return promise{}, err
	}
	info := fields(text)
	p := promise{version: info["redis_version"], node: info["cluster_enabled"] == "1", minReplicas: -1}
	if v := info["valkey_version"]; v != "" {
		p.valkey, p.version = true, v
	}
	if info["redis_mode"] == "sentinel" || info["server_mode"] == "sentinel" {
		return p, errSentinel
	}
	if role := info["role"]; role != "" && role != "master" {
		return p, readOnlyError("READONLY the server is a replica, of " + net.JoinHostPort(info["master_host"], info["master_port"]))
	}
	if info["loading"] == "1" {
		return p, readOnlyError("LOADING the server loads its data")
	}
	p.appendonly = info["aof_enabled"] == "1"
	p.policy = info["maxmemory_policy"]
	p.replicas, _ = strconv.Atoi(info["connected_slaves"])
	if set, err := node.ConfigGet(ctx, "appendfsync").Result(); err == nil {
		p.fsync = set["appendfsync"]
	}
	if set, err := node.ConfigGet(ctx, "min-replicas-to-write").Result(); err == nil {
		if least, err := strconv.Atoi(set["min-replicas-to-write"]); err == nil {
			p.minReplicas = least
		}
	}
	p.early = p.fsync != "always" && waitsTooShort(p.valkey, p.version)
	return p, nil
}

// waitsTooShort says of which servers WAITAOF answers, unless they sync always,
// before the disk has what was written: what came less than a second after a sync
// counts as synced. Source: github.com/redis/redis, pull requests 12622, which brought
// it, and 13793, which mended it after 7.4. Valkey has it from 8.0 on; none is known
// that is mended.
func waitsTooShort(valkey bool, version string) bool {
	if valkey {
		return !older(version, "8.0")
	}
	return !older(version, "7.4") && older(version, "8.0")
}

// readOnlyError is a refusal that the server did not make in so many words.
type readOnlyError string

func (e readOnlyError) Error() string { return string(e) }

// RedisError marks it as one of a server's.
func (readOnlyError) RedisError() {}

// fields reads what INFO prints.
func fields(info string) map[string]string {
	m := map[string]string{}
	for line := range strings.Lines(info) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			m[k] = v
		}
	}
	return m
}

// weaker joins two promises to what both keep.
func (p promise) weaker(q promise) promise {
	order := []string{"no", "", "everysec", "always"}
	rank := func(s string) int {
		for i, o := range order {
			if s == o {
				return i
			}
		}
		return 0
	}
	p.appendonly = p.appendonly && q.appendonly
	p.early = p.early || q.early
	if rank(q.fsync) < rank(p.fsync) {
		p.fsync = q.fsync
	}
	if evicts(q.policy) {
		p.policy = q.policy
	}
	if older(q.version, p.version) {
		p.version = q.version
	}
	p.replicas = min(p.replicas, q.replicas)
	p.minReplicas = min(p.minReplicas, q.minReplicas)
	return p
}

func evicts(policy string) bool { return policy != "" && policy != "noeviction" }

// older compares dotted version numbers.
func older(a, b string) bool {
	x, y := strings.Split(a, "."), strings.Split(b, ".")
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i])
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return m < n
		}
	}
	return len(x) < len(y)
}

// check refuses a server that cannot keep a queue.
func (p *promise) check(cfg *Config) error {
	name, oldest := "Redis", "7.0"
	if p.valkey {
		name = "Valkey"
	}
	switch {
	case older(p.version, oldest):
		return fmt.Errorf("%w: the server is %s %s: it takes 7.0 or newer", broker.ErrUnsupported, name, p.version)
	case evicts(p.policy) && !cfg.EvictionAllowed:
		return fmt.Errorf("%w: the server's maxmemory-policy is %s: it deletes jobs when memory is short. "+
			"Set it to noeviction (CONFIG SET maxmemory-policy noeviction, and in redis.conf), or use a server of its own for the queue; "+
			"Config.EvictionAllowed opens it all the same", broker.ErrUnsupported, p.policy)
	case cfg.WaitDisk && older(p.version, "7.2"):
		return fmt.Errorf("%w: Config.WaitDisk needs Redis 7.2 or newer, or Valkey, and the server is %s %s", broker.ErrUnsupported, name, p.version)
	case cfg.WaitDisk && !p.appendonly:
		return fmt.Errorf("%w: Config.WaitDisk needs a server with appendonly yes", broker.ErrUnsupported)
	case cfg.WaitDisk && p.early:
		return fmt.Errorf("%w: Config.WaitDisk is of no use with %s %s and appendfsync everysec: its WAITAOF answers before the disk has what it waits for "+
			"(Redis 7.4, and Valkey from 8.0 on). Set appendfsync always, or take Redis 7.2, or 8.0 or newer", broker.ErrUnsupported, name, p.version)
	}
	return nil
}

// text says what an acknowledged call survives.
func (p *promise) text() string {
	return p.onDisk() + "; " + p.onReplicas()
}

func (p *promise) onDisk() string {
	switch {
	case !p.appendonly:
		return "an acknowledged call is lost when the server's process ends (appendonly no): it is kept in memory, and in snapshots at best"
	case p.disk && !p.early:
		return "an acknowledged call survives the end of the server's process and a power cut (its sync to the disk is waited for)"
	case p.fsync == "always":
		return "an acknowledged call survives the end of the server's process and a power cut (appendfsync always)"
	case p.fsync == "everysec":
		return "an acknowledged call survives the end of the server's process; a power cut loses up to the last 2 seconds (appendfsync everysec)"
	case p.fsync == "no":
		return "an acknowledged call survives the end of the server's process; a power cut loses what the system had not written by itself, as a rule half a minute (appendfsync no)"
	}
	return "an acknowledged call survives the end of the server's process; what a power cut loses is unknown, since the server does not tell its appendfsync"
}

func (p *promise) onReplicas() string {
	least := ""
	if p.minReplicas > 0 {
		least = fmt.Sprintf(", as long as min-replicas-to-write %d lets it write", p.minReplicas)
	}
	switch {
	case p.wait > 0:
		return fmt.Sprintf("%d replicas have it before it is acknowledged: a failover to one of them loses nothing", p.wait)
	case p.replicas == 0:
		return "there is no replica to fail over to"
	}
	return "a failover to a replica loses what that had not received yet, as a rule less than a second" + least
}

func (n *network) durability() string { return n.opened.text() }

// promiseAgain reads the promise after the server was away: a failover or a
// restart may have changed it.
func (n *network) promiseAgain() {
	ctx, cancel := context.WithTimeout(n.runs.ctx, n.cfg.CallTimeout)
	defer cancel()
	p, err := n.readPromise(ctx)
	if err != nil {
		return // the next call that succeeds after a failure asks again
	}
	before := n.promised.Swap(&p)
	if was, is := before.text(), p.text(); was != is {
		n.cfg.Logger.Warn("redis: the server promises something else than before", slog.String("before", was), slog.String("now", is))
	}
	if err := p.check(&n.cfg); err != nil {
		n.cfg.Logger.Error("redis: the server is not fit for a queue any more", slog.Any("error", err))
	}
}
