package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/redisbroker"
)

// redisSetting is how safe a Redis server keeps what it acknowledges. The rows of
// -redis are measured on one server for each, all peers on the same one.
type redisSetting struct {
	name    string
	server  string
	promise string
	args    []string
}

var redisSettings = []redisSetting{
	{"none", "redis-none", "memory alone", []string{"--appendonly", "no"}},
	{"everysec", "redis-everysec", "appendfsync everysec: the last second or two may be lost with the power", []string{"--appendonly", "yes", "--appendfsync", "everysec"}},
	{"always", "redis-always", "appendfsync always: synced before every answer", []string{"--appendonly", "yes", "--appendfsync", "always"}},
}

// redisServerWith is a server whose file is made anew with each trial, and never
// by itself: a fork in one trial would be paid for by another.
func redisServerWith(s redisSetting) func(dir string) (*server, error) {
	return func(dir string) (*server, error) {
		made, err := redisServer(dir)
		made.name = s.server
		made.args = func(of *server) []string {
			return append([]string{"--port", "0", "--unixsocket", of.addr, "--dir", of.dir, "--save", "", "--daemonize", "no",
				"--auto-aof-rewrite-percentage", "0"}, s.args...)
		}
		return made, err
	}
}

// redisPeers are spool on Redis and what it is compared with, on each setting.
func redisPeers() (all []*peer) {
	for _, s := range redisSettings {
		all = append(all, spoolOn(s), asynqOn(s), bareOn(s))
	}
	return all
}

// redisName is what a peer is called on a setting; ofRedisName takes it apart.
func redisName(peer string, s redisSetting) string { return peer + "@" + s.name }

func ofRedisName(name string) (peer, setting string) {
	peer, setting, _ = strings.Cut(name, "@")
	return peer, setting
}

func spoolOn(s redisSetting) *peer {
	return &peer{
		name: redisName("spool", s), module: "github.com/redis/go-redis/v9", server: s.server, durability: s.promise,
		how: "`redisbroker.Open` with an empty Config, a task of []byte; its own worker",
		open: func(at place, m mode) (queue, error) {
			if err := emptyRedis(at.Addr[s.server], m); err != nil {
				return nil, err
			}
			b, err := redisbroker.Open(context.Background(), "unix://"+at.Addr[s.server], redisbroker.Config{})
			if err != nil {
				return nil, err
			}
			return &spoolQueue{spool.New(b, spool.Config{})}, nil
		},
	}
}

// asynqOn is asynq on a server of a setting.
func asynqOn(s redisSetting) *peer {
	p := *asynqPeer
	p.name, p.server, p.durability = redisName("asynq", s), s.server, s.promise
	p.open = func(at place, m mode) (queue, error) { return openAsynq(at.Addr[s.server], m) }
	return &p
}

// emptyRedis empties a server when it is asked to, its file, too.
func emptyRedis(addr string, m mode) error {
	if !m.fresh {
		return nil
	}
	r := redis.NewClient(&redis.Options{Network: "unix", Addr: addr})
	defer r.Close()
	ctx := context.Background()
	if err := r.FlushAll(ctx).Err(); err != nil {
		return err
	}
	kept, err := r.ConfigGet(ctx, "appendonly").Result()
	if err != nil || kept["appendonly"] != "yes" {
		return err
	}
	if err := r.BgRewriteAOF(ctx).Err(); err != nil {
		return err
	}
	for begun := time.Now(); time.Since(begun) < serverPatience; pause(ctx, 5*time.Millisecond) {
		text, err := r.Info(ctx, "persistence").Result()
		if err != nil {
			return err
		}
		if infoField(text, "aof_rewrite_in_progress") == "0" && infoField(text, "aof_rewrite_scheduled") == "0" {
			return nil
		}
	}
	return fmt.Errorf("the server's file was not made anew within %v", serverPatience)
}

// counts is what a Redis server says of its work so far.
type counts struct {
	commands int64 // those in scripts, too
	scripts  int64
	cpu      time.Duration
	memory   int64
}

// readCounts asks a server.
func readCounts(s *server) (c counts) {
	r := redis.NewClient(&redis.Options{Network: "unix", Addr: s.addr})
	defer r.Close()
	text, err := r.InfoMap(context.Background(), "commandstats", "cpu", "memory").Result()
	if err != nil {
		return c
	}
	for name, value := range text["Commandstats"] {
		n := callsOf(value)
		c.commands += n
		if strings.HasPrefix(name, "cmdstat_eval") || name == "cmdstat_fcall" {
			c.scripts += n
		}
	}
	for _, name := range []string{"used_cpu_user", "used_cpu_sys"} {
		seconds, _ := strconv.ParseFloat(text["CPU"][name], 64)
		c.cpu += time.Duration(seconds * float64(time.Second))
	}
	c.memory, _ = strconv.ParseInt(text["Memory"]["used_memory"], 10, 64)
	return c
}

// callsOf reads the number of calls out of a line of commandstats.
func callsOf(stat string) int64 {
	_, rest, _ := strings.Cut(stat, "calls=")
	digits, _, _ := strings.Cut(rest, ",")
	n, _ := strconv.ParseInt(digits, 10, 64)
	return n
}

// infoField is a field of the text of INFO, or "".
func infoField(text, name string) string {
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// redisOperations are the rows of -redis.
func redisOperations() []operation {
	return []operation{enqueueBy(1), enqueueBy(64), enqueueBatches(), drainMemory(), latencyIdle()}
}

// drainMemory is drain, and reads what the jobs take of the server's memory
// while they wait.
func drainMemory() operation {
	op := drain()
	op.rows = append(op.rows, row{name: "memory_waiting", what: "used_memory for each job that waits", unit: "B"})
	run := op.run
	op.run = func(t *trial) ([]sample, error) {
		var empty, full counts
		var jobs int
		t.opened = func() { empty = readCounts(t.server()) }
		t.filled = func(n int) { full, jobs = readCounts(t.server()), n }
		list, err := run(t)
		if err == nil && jobs > 0 {
			list = append(list, sample{Row: "memory_waiting", Value: float64(full.memory-empty.memory) / float64(jobs)})
		}
		return list, err
	}
	return op
}
