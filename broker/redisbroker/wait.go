package redisbroker

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/broker"
)

// waits says whether calls that change something wait for replicas or disks.
func (n *network) waits() bool { return n.cfg.WaitReplicas > 0 || n.cfg.WaitDisk }

// sendAndWait sends a command and, behind it on the same connection, the one
// that waits until it is as durable as the configuration asks. The waiting one
// counts what that connection saw last, so that a repeat which only reads the
// remembered answer waits for the first one's writes, too.
func (n *network) sendAndWait(ctx context.Context, cmd *redis.Cmd) error {
	wait := n.waitCommand(ctx)
	node, err := n.master(ctx, cmd)
	if err != nil {
		return err
	}
	pipe := node.Pipeline()
	_ = pipe.Process(ctx, cmd)
	_ = pipe.Process(ctx, wait)
	_, err = pipe.Exec(ctx)
	for range maxRedirects {
		var addr string
		var asked bool
		if addr, asked = redirected(err); addr == "" {
			break
		}
		node = n.node(ctx, addr)
		if node == nil {
			return err
		}
		pipe = node.Pipeline()
		if asked {
			_ = pipe.Process(ctx, redis.NewCmd(ctx, "asking"))
		}
		_ = pipe.Process(ctx, cmd)
		_ = pipe.Process(ctx, wait)
		_, err = pipe.Exec(ctx)
	}
	if o, ok := errors.AsType[*opaque](err); ok {
		err = o.err
	}
	switch {
	case cmd.Err() != nil:
		return err
	case err != nil:
		// The script ran, and the wait failed.
		return &failure{weak, fmt.Errorf("%w: it took place, and how durable it is could not be learned: %v", broker.ErrUnknown, err)}
	}
	return n.confirmed(wait)
}

const maxRedirects = 3

// redirected reads where a node sends a command to, and whether for this once.
func redirected(err error) (addr string, asked bool) {
	if err == nil {
		return "", false
	}
	if addr, ok := redis.IsMovedError(err); ok {
		return addr, false
	}
	return redis.IsAskError(err)
}

func (n *network) waitCommand(ctx context.Context) *redis.Cmd {
	ms := n.cfg.WaitTimeout.Milliseconds()
	if n.cfg.WaitDisk {
		return redis.NewCmd(ctx, "waitaof", 1, n.cfg.WaitReplicas, ms)
	}
	return redis.NewCmd(ctx, "wait", n.cfg.WaitReplicas, ms)
}

// confirmed compares who confirmed with whom the configuration asks for.
func (n *network) confirmed(wait *redis.Cmd) error {
	local, replicas := int64(1), int64(0)
	switch v := wait.Val().(type) {
	case int64:
		replicas = v
	case []any:
		if len(v) == 2 {
			local, _ = v[0].(int64)
			replicas, _ = v[1].(int64)
		}
	}
	var short []string
	if n.cfg.WaitDisk && local < 1 {
		short = append(short, "the server's disk has not confirmed it")
	}
	if replicas < int64(n.cfg.WaitReplicas) {
		short = append(short, fmt.Sprintf("%d of %d replicas have confirmed it", replicas, n.cfg.WaitReplicas))
	}
	if short == nil {
		return nil
	}
	return &failure{weak, fmt.Errorf("%w: it took place, but after %s %s", broker.ErrUnknown, n.cfg.WaitTimeout, strings.Join(short, " and "))}
}
