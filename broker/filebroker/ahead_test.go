package filebroker

import (
	"bytes"
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/spoolq/spool/broker"
)

// TestPayloadsThatAreReadAheadAreTheirJobs: whoever claims one job at a time
// gets its payload, whatever was read ahead for others: sizes at each bound,
// several at the same time, one that enqueues behind what was read ahead.
func TestPayloadsThatAreReadAheadAreTheirJobs(t *testing.T) {
	b, ctx := open(t, t.TempDir()), context.Background()
	sizes := []int{0, 1, 100, aheadGap - 1, aheadGap, aheadGap + 1, aheadBytes + 1, 7, 7, 7}
	const jobs = 600
	enqueue := func(i int) {
		payload := bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)])
		_, err := b.Enqueue(ctx, broker.NewCall(), "q", []broker.NewJob{{Task: "t", Payload: payload, Headers: map[string]string{"i": strconv.Itoa(i)}}})
		must(t, err)
	}
	for i := range jobs / 2 {
		enqueue(i)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range jobs / 4 {
				got, err := b.Claim(ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: "w", Wait: 1 << 40})
				if err != nil || len(got.Leases) != 1 {
					t.Errorf("claimed %d, error %v", len(got.Leases), err)
					return
				}
				job := &got.Leases[0].Job
				i, _ := strconv.Atoi(job.Headers["i"])
				if want := bytes.Repeat([]byte{byte(i)}, sizes[i%len(sizes)]); !bytes.Equal(job.Payload, want) {
					t.Errorf("job %d has %d bytes of payload that are not its own %d", i, len(job.Payload), len(want))
				}
				clear(job.Payload) // it is the caller's
			}
		})
	}
	for i := jobs / 2; i < jobs; i++ {
		enqueue(i)
	}
	wg.Wait()
}
