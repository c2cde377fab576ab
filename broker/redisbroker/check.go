package redisbroker

import (
	"fmt"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// checkJobs refuses a call that can never be right.
func checkJobs(queue string, jobs []broker.NewJob) error {
	if err := broker.ValidName(queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	if len(jobs) > maxBatch {
		return fmt.Errorf("%w: %d jobs in one call, the limit is %d", broker.ErrTooLarge, len(jobs), maxBatch)
	}
	size := 0
	for i := range jobs {
		if err := jobs[i].Validate(0); err != nil {
			if len(jobs) > 1 {
				err = fmt.Errorf("job %d of %d: %w", i+1, len(jobs), err)
			}
			return err
		}
		size += jobs[i].Size()
	}
	if size > broker.MaxCallBytes {
		return fmt.Errorf("%w: %d bytes in one call, the limit is %d", broker.ErrTooLarge, size, broker.MaxCallBytes)
	}
	_, err := jobstate.CheckBatches(jobs, maxBatch-1)
	return err
}
