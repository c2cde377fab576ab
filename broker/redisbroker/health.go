package redisbroker

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/broker"
)

// health asks each primary how it is. A server that does not answer is no
// error: it is what there is to tell.
func (n *network) health(ctx context.Context) (broker.Health, error) {
	if n.runs.ctx.Err() != nil {
		return broker.Health{}, broker.ErrClosed
	}
	ask, cancel := context.WithTimeout(ctx, n.cfg.CallTimeout)
	defer cancel()
	h := broker.Health{Status: broker.Healthy}
	var details []string
	err := n.eachPrimary(ask, func(node *redis.Client) error {
		began := time.Now()
		text, err := node.Info(ask, "server", "clients", "memory", "persistence", "replication").Result()
		if err != nil {
			return err
		}
		s := condition{fields(text), time.Since(began), node.Options().Addr}
		if n.target.kind == sentinel {
			s.addr = fmt.Sprintf("port %s (%s)", s.info["tcp_port"], n.target)
		}
		details = append(details, s.String())
		h = worse(h, s.health())
		return nil
	})
	h.Detail = strings.Join(details, "; ")
	switch {
	case ctx.Err() != nil:
		return broker.Health{}, ctx.Err()
	case err != nil:
		return broker.Health{Status: broker.Unreachable, Text: n.awayText(err), Detail: h.Detail}, nil
	}
	return worse(h, n.changed(ctx)), nil
}

// awayText says since when the server does not answer.
func (n *network) awayText(err error) string {
	n.mu.Lock()
	defer n.mu.Unlock()
	since := ""
	if !n.away.IsZero() {
		since = fmt.Sprintf(" for %s", time.Since(n.away).Round(time.Second))
	}
	return fmt.Sprintf("the server does not answer as it should%s: %v; calls are repeated until it does, for %s each", since, err, retryFor)
}

// changed compares what the server promises now with what Caps says.
func (n *network) changed(ctx context.Context) broker.Health {
	p, err := n.readPromise(ctx)
	if err != nil {
		return broker.Health{Status: broker.Unreachable, Text: n.awayText(err)}
	}
	n.promised.Store(&p)
	if err := p.check(&n.cfg); err != nil {
		return broker.Health{Status: broker.Degraded, Text: err.Error()}
	}
	if was, is := n.opened.text(), p.text(); was != is {
		return broker.Health{Status: broker.Degraded, Text: "the server's promise has changed since it was opened: it was that " + was + "; now " + is}
	}
	return broker.Health{Status: broker.Healthy}
}

// worse joins the health of two.
func worse(a, b broker.Health) broker.Health {
	rank := map[broker.HealthStatus]int{broker.Healthy: 0, broker.Degraded: 1, broker.DiskFull: 2, broker.Poisoned: 3, broker.Unreachable: 4}
	if rank[b.Status] > rank[a.Status] {
		a.Status = b.Status
	}
	switch {
	case a.Text == "":
		a.Text = b.Text
	case b.Text != "":
		a.Text += "; " + b.Text
	}
	if a.Detail == "" {
		a.Detail = b.Detail
	}
	return a
}

// condition is how one server says that it is.
type condition struct {
	info map[string]string
	took time.Duration
	addr string
}

func (s *condition) number(field string) int64 {
	n, _ := strconv.ParseInt(s.info[field], 10, 64)
	return n
}

// String is the condition in words for people.
func (s *condition) String() string {
	name, version := "redis", s.info["redis_version"]
	if v := s.info["valkey_version"]; v != "" {
		name, version = "valkey", v
	}
	limit := "no limit"
	if most := s.number("maxmemory"); most > 0 {
		limit = mebibytes(most)
	}
	return fmt.Sprintf("%s %s at %s, %s with %d replicas, answers in %s, holds %s of %s", name, version, s.addr,
		s.info["role"], s.number("connected_slaves"), s.took.Round(10*time.Microsecond), mebibytes(s.number("used_memory")), limit)
}

func mebibytes(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

// health says what is wrong with the server.
func (s *condition) health() broker.Health {
	at := "the server at " + s.addr
	most, used := s.number("maxmemory"), s.number("used_memory")
	switch {
	case s.info["loading"] == "1":
		return broker.Health{Status: broker.Unreachable, Text: fmt.Sprintf("%s loads its data, %s%% so far: calls wait", at, s.info["loading_loaded_perc"])}
	case s.info["role"] != "" && s.info["role"] != "master":
		return broker.Health{Status: broker.Unreachable, Text: at + " is a replica: calls wait for a primary"}
	case most > 0 && used >= most && !evicts(s.info["maxmemory_policy"]):
		return broker.Health{Status: broker.DiskFull, Text: fmt.Sprintf("the memory of %s is full: it holds %s of %s; enqueue is refused, claims and settlements go on; raise maxmemory", at, mebibytes(used), mebibytes(most))}
	case s.info["aof_enabled"] == "1" && s.info["aof_last_write_status"] == "err":
		return broker.Health{Status: broker.Poisoned, Text: at + " cannot write its log (aof_last_write_status err): it refuses all that would change something; look at its disk"}
	case s.info["aof_enabled"] == "1" && s.info["aof_last_bgrewrite_status"] == "err":
		return broker.Health{Status: broker.Degraded, Text: at + " could not rewrite its log (aof_last_bgrewrite_status err): the log grows; look at its disk"}
	case s.info["rdb_last_bgsave_status"] == "err":
		return broker.Health{Status: broker.Degraded, Text: at + " could not write its snapshot (rdb_last_bgsave_status err); look at its disk"}
	}
	return broker.Health{Status: broker.Healthy}
}
