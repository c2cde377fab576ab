package crash

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

// TestDrainWaitsForARequeuedJobBetweenItsRuns: a job that was to wait for longer
// than the run was requeued, ran and failed. Its retry is work that is left.
func TestDrainWaitsForARequeuedJobBetweenItsRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &script{t: t, broker: membroker.New(membroker.Config{})}
		t.Cleanup(func() { s.must(s.broker.Close()) })
		s.enqueue(later, nil) // waits on, and holds nobody up
		ref := broker.Ref{Queue: "q", ID: s.enqueue(later, nil)}
		for _, kind := range []broker.CommandKind{broker.CancelJobs, broker.RequeueJobs} {
			_, err := apply(t.Context(), s.broker, broker.Command{Kind: kind, Filter: broker.Filter{Queue: "q", IDs: []broker.ID{ref.ID}}})
			s.must(err)
		}
		l := s.claim()
		_, err := s.broker.Settle(t.Context(), broker.NewCall(), []broker.Settlement{{Ref: ref, Token: l.Token, Kind: broker.Nack, Delay: 400 * time.Millisecond}})
		s.must(err)
		var worker sync.WaitGroup
		defer worker.Wait()
		worker.Go(func() {
			time.Sleep(500 * time.Millisecond) // of the bubble's time
			l := s.claim()
			s.settle(l, broker.Ack, result(l.Job.ID, l.Token))
		})
		s.must(Drain(t.Context(), s.broker, time.Minute))
		jobs, err := s.broker.Get(t.Context(), []broker.Ref{ref})
		s.must(err)
		if job := jobs[0]; job.State != broker.Done {
			t.Errorf("Drain returned while job %s was %v, attempt %d", job.ID, job.State, job.Attempt)
		}
	})
}
