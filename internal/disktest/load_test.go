//go:build linux && (amd64 || arm64)

package disktest

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// runLoad enqueues jobs into its queue and works them off, beside a compaction now
// and then, until the store refuses: a process of a machine whose power goes.
func runLoad(p plan) error {
	b, err := open(p)
	if err != nil {
		return err
	}
	tell(event{Call: "open"})
	producer, worker := &actor{name: "producer", b: b}, &actor{name: "worker", b: b}
	var wg sync.WaitGroup
	over := make(chan struct{})
	wg.Go(func() {
		for i := 0; producer.enqueue(p.Queue, 100, 1+i%5); i++ {
		}
	})
	wg.Go(func() {
		defer close(over)
		for {
			leases := worker.claim(p.Queue, time.Hour)
			if leases == nil && !producer.enqueue(p.Queue, 100, 1) || !worker.ack(leases) {
				return
			}
		}
	})
	wg.Go(func() {
		again := time.NewTicker(20 * time.Millisecond)
		defer again.Stop()
		for {
			select {
			case <-again.C:
				// A machine without power refuses; the other two will tell.
				_, _ = b.Compact(context.Background())
			case <-over:
				return
			}
		}
	})
	wg.Wait()
	tell(event{Call: "over"})
	_, err = io.Copy(io.Discard, os.Stdin) // until it is killed
	return err
}

// runClient does one call for each line of its input.
func runClient(p plan) error {
	b, err := open(p)
	if err != nil {
		return err
	}
	a := &actor{name: p.Queue, b: b}
	tell(event{Call: "open"})
	held := []broker.Lease{}
	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		switch lines.Text() {
		case "enqueue":
			a.enqueue(p.Queue, 20_000, 1)
		case "claim":
			held = append(held, a.claim(p.Queue, time.Hour)...)
		case "ack":
			if len(held) > 0 {
				a.ack(held[:1])
				held = held[1:]
			}
		case "health":
			a.did(event{Call: "health"}, func(e *event) error {
				h, err := a.b.Health(context.Background())
				e.Status = string(h.Status)
				return errors.Join(err, errors.New(h.Text))
			})
		case "count":
			a.did(event{Call: "count"}, func(e *event) error {
				counts, err := a.b.Counts(context.Background(), p.Queue)
				for _, c := range counts {
					e.Number += int(c.Ready + c.Leased + c.Scheduled + c.Done)
				}
				return err
			})
		}
	}
	return b.Close()
}
