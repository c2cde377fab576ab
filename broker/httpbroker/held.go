package httpbroker

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/wire"
)

// held is what a client gives back when it is closed: the leases that it holds
// and that are not Remote, and the workers that it registered. Its zero value
// holds nothing.
type held struct {
	mu      sync.Mutex
	leases  map[broker.Ref]broker.Token
	workers map[string]bool
}

func (h *held) claimed(r *broker.ClaimRequest, leases []broker.Lease) {
	if r.Remote {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.leases == nil {
		h.leases = map[broker.Ref]broker.Token{}
	}
	for i := range leases {
		h.leases[leases[i].Job.Ref()] = leases[i].Token
	}
}

func (h *held) settled(list []broker.Settlement) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range list {
		h.drop(list[i].Ref, list[i].Token)
	}
}

// drop forgets a lease; mu is held.
func (h *held) drop(r broker.Ref, token broker.Token) {
	if h.leases[r] == token {
		delete(h.leases, r)
	}
}

func (h *held) extended(r *broker.ExtendRequest, beats []broker.Beat) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for i := range beats {
		if beats[i].Status == broker.Lost {
			h.drop(r.Leases[i].Ref, r.Leases[i].Token)
		}
	}
	switch {
	case r.Worker.ID == "":
	case r.Leaving:
		delete(h.workers, r.Worker.ID)
	default:
		if h.workers == nil {
			h.workers = map[string]bool{}
		}
		h.workers[r.Worker.ID] = true
	}
}

// giveBack lets the leases expire, and the workers leave. What does not get
// through ends by its deadline.
func (c *client) giveBack() {
	ctx, cancel := context.WithTimeout(context.Background(), c.cfg.Timeout)
	defer cancel()
	c.held.mu.Lock()
	defer c.held.mu.Unlock()
	var list []wire.Extension
	for r, token := range c.held.leases {
		list = append(list, wire.Extension{Queue: r.Queue, ID: r.ID, Token: token})
	}
	for some := range slices.Chunk(list, broker.MaxClaimJobs) {
		c.tell(ctx, wire.ExtendRequest{Leases: some, TTL: wire.Duration(time.Nanosecond)})
	}
	for _, id := range slices.Sorted(maps.Keys(c.held.workers)) {
		c.tell(ctx, wire.ExtendRequest{Worker: &wire.Worker{ID: id}, Leaving: true})
	}
}

// tell sends a last word of this client.
func (c *client) tell(ctx context.Context, r wire.ExtendRequest) {
	body, err := wire.Append(nil, r)
	if err != nil {
		return
	}
	resp, err := c.send(ctx, &request{method: "POST", path: "/v1/extend", body: r}, body)
	if err != nil {
		c.log.Warn("the server was not told that this client closes; what it held ends by its deadline", "error", err)
		return
	}
	resp.Body.Close()
}
