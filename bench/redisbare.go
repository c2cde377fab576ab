package main

import (
	"context"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// bareOn is no peer: it is about the least that a queue does on that server, with
// nothing kept that a crash, a retry or a second client would need.
func bareOn(s redisSetting) *peer {
	return &peer{
		name: redisName("bare", s), module: "github.com/redis/go-redis/v9", server: s.server, durability: s.promise,
		how: "the ceiling: a value and an entry of a list for each job; one goroutine that claims 100 with a script and acks them with another; nobody could use it",
		open: func(at place, m mode) (queue, error) {
			if err := emptyRedis(at.Addr[s.server], m); err != nil {
				return nil, err
			}
			return &bareQueue{client: redis.NewClient(&redis.Options{Network: "unix", Addr: at.Addr[s.server], PoolSize: 80})}, nil
		},
	}
}

const bareBatch = 100

var (
	bareAdd = redis.NewScript(`
for i = 1, #ARGV, 2 do
	redis.call('SET', 'j' .. ARGV[i], ARGV[i + 1])
	redis.call('RPUSH', KEYS[1], ARGV[i])
end`)
	bareLease = redis.NewScript(`
local ids = redis.call('LPOP', KEYS[1], ARGV[1])
if not ids then return {} end
local keys, leases = {}, {}
for i, id in ipairs(ids) do
	keys[i] = 'j' .. id
	leases[2 * i - 1], leases[2 * i] = ARGV[2], id
end
redis.call('ZADD', KEYS[2], unpack(leases))
return { ids, redis.call('MGET', unpack(keys)) }`)
	bareAck = redis.NewScript(`
local keys = {}
for i, id in ipairs(ARGV) do keys[i] = 'j' .. id end
redis.call('DEL', unpack(keys))
redis.call('ZREM', KEYS[1], unpack(ARGV))`)
)

type bareQueue struct {
	client *redis.Client
	last   atomic.Uint64
}

// id is one that grows, unlike those of others: a queue has one process that adds.
func (q *bareQueue) id() string {
	return string(binary.BigEndian.AppendUint64(make([]byte, 8, 16), q.last.Add(1)))
}

func (q *bareQueue) enqueue(b []byte) error {
	return notNil(bareAdd.Run(context.Background(), q.client, []string{"ready"}, q.id(), b).Err())
}

func (q *bareQueue) enqueueMany(n int, b []byte) error {
	ctx := context.Background()
	if err := bareAdd.Load(ctx, q.client).Err(); err != nil {
		return err
	}
	_, err := q.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n > 0 {
			var args []any
			for range min(n, bareBatch) {
				args = append(args, q.id(), b)
			}
			bareAdd.EvalSha(ctx, p, []string{"ready"}, args...)
			n -= len(args) / 2
		}
		return nil
	})
	return notNil(err)
}

func (q *bareQueue) run(ctx context.Context, _ int, started func()) error {
	for ctx.Err() == nil {
		got, err := bareLease.Run(context.Background(), q.client, []string{"ready", "leases"}, bareBatch, time.Now().Add(time.Minute).UnixMilli()).Slice()
		if err != nil {
			return err
		}
		if len(got) == 0 {
			if err := q.await(); err != nil {
				return err
			}
			continue
		}
		ids := got[0].([]any)
		for range ids {
			started()
		}
		if err := notNil(bareAck.Run(context.Background(), q.client, []string{"leases"}, ids...).Err()); err != nil {
			return err
		}
	}
	return nil
}

// await returns when there is a job, or after a while.
func (q *bareQueue) await() error {
	err := q.client.BLMove(context.Background(), "ready", "ready", "LEFT", "LEFT", time.Second).Err()
	return notNil(err)
}

// notNil is the error of a reply that may be nothing.
func notNil(err error) error {
	if err == redis.Nil {
		return nil
	}
	return err
}

func (q *bareQueue) close() error { return q.client.Close() }
