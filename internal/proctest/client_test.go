//go:build linux

package proctest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// sentinel errors, and how they cross to the test.
var sentinelErrors = map[string]error{
	"lease lost":  spool.ErrLeaseLost,
	"not found":   spool.ErrNotFound,
	"invalid":     spool.ErrInvalid,
	"unsupported": spool.ErrUnsupported,
	"corrupt":     spool.ErrCorrupt,
	"shutdown":    spool.ErrShutdown,
	"permission":  fs.ErrPermission,
	"read-only":   syscall.EROFS,
	"link":        syscall.ELOOP,
	"deadline":    context.DeadlineExceeded,
}

func sentinels(err error) (names []string) {
	for name, sentinel := range sentinelErrors {
		if errors.Is(err, sentinel) {
			names = append(names, name)
		}
	}
	return names
}

// clientRole is a client that does as it is told, one order after the other.
type clientRole struct {
	*teller
	plan   plan
	client *spool.Client
}

func runClient(t *teller, p plan) error {
	r := &clientRole{teller: t, plan: p}
	if p.Mount != "" {
		if err := syscall.Mount("none", p.Mount, "tmpfs", 0, "mode=700"); err != nil {
			return fmt.Errorf("mount: %w", err)
		}
	}
	r.tell(event{What: "up"})
	for o := range orders() {
		answer, err := r.do(o)
		answer.What, answer.Text, answer.Is = "answer", errText(err), sentinels(err)
		r.tell(answer)
	}
	if r.client == nil {
		return nil
	}
	return r.client.Close()
}

func (r *clientRole) do(o order) (answer event, err error) {
	ctx := context.Background()
	switch o.Do {
	case "open":
		p := r.plan
		if o.Store != "" {
			p.Store = o.Store
		}
		r.client, err = openStore(p)
		return answer, err
	case "close":
		err := r.client.Close()
		r.client = nil
		return answer, err
	case "enqueue":
		return r.enqueue(ctx, o)
	case "count":
		for _, err := range r.client.List(ctx, spool.Filter{}) {
			if err != nil {
				return answer, err
			}
			answer.Number++
		}
		return answer, nil
	case "claim":
		leases, err := r.client.Claim(ctx, broker.ClaimRequest{Queues: []string{o.Queue}, Max: max(o.N, 1), TTL: o.For, Worker: r.plan.Name})
		for _, l := range leases {
			answer.IDs = append(answer.IDs, l.Job.ID)
			answer.Token, answer.Attempt = l.Token, l.Job.Attempt
		}
		return answer, err
	case "wall":
		answer.Number = time.Now().UnixNano()
		return answer, nil
	case "requeue": // in small steps
		n, err := r.client.Apply(ctx, broker.Command{Kind: broker.RequeueJobs, Limit: o.N})
		answer.Number = int64(n)
		return answer, err
	case "read-only":
		return answer, syscall.Mount("none", r.plan.Mount, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
	}
	return answer, r.settle(ctx, o)
}

func (r *clientRole) enqueue(ctx context.Context, o order) (answer event, err error) {
	if o.For > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, o.For)
		defer cancel()
	}
	for range max(o.N, 1) {
		got, err := note.Enqueue(ctx, r.client, args{})
		if err != nil {
			return answer, err
		}
		answer.IDs = append(answer.IDs, got.ID)
	}
	return answer, nil
}

// settlements are the ways to use a lease.
var settlements = map[string]func(context.Context, *spool.Lease) error{
	"extend":  func(ctx context.Context, l *spool.Lease) error { return l.Extend(ctx, time.Minute) },
	"ack":     func(ctx context.Context, l *spool.Lease) error { return l.Ack(ctx, nil) },
	"nack":    func(ctx context.Context, l *spool.Lease) error { return l.Nack(ctx, 0, errOnPurpose) },
	"snooze":  func(ctx context.Context, l *spool.Lease) error { return l.Snooze(ctx, 0) },
	"release": func(ctx context.Context, l *spool.Lease) error { return l.Release(ctx) },
	"bury":    func(ctx context.Context, l *spool.Lease) error { return l.Bury(ctx, errOnPurpose) },
	"cancel":  func(ctx context.Context, l *spool.Lease) error { return l.Cancel(ctx, errOnPurpose) },
}

func (r *clientRole) settle(ctx context.Context, o order) error {
	fn := settlements[o.Do]
	if fn == nil {
		return fmt.Errorf("no such order: %q", o.Do)
	}
	return fn(ctx, r.client.Lease(broker.Ref{Queue: o.Queue, ID: o.ID}, o.Token))
}
