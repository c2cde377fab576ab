package server

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

// A call id is for one call alone. A client that uses one again for other jobs
// would be answered with the ids of the first, and never learn that these are
// nowhere. So the id that the server makes for a job ends with a mark of the job:
// an answer that is remembered is seen to be for others, whatever the broker
// remembers of a call, and at no cost to it.

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// markOf is a digest of a job, for mistakes, not against malice.
func markOf(queue string, j *broker.NewJob) uint32 {
	b := make([]byte, 0, 256)
	text := func(s string) { b = append(binary.AppendUvarint(b, uint64(len(s))), s...) }
	number := func(n int64) { b = binary.AppendVarint(b, n) }
	for _, s := range [...]string{queue, j.Task, j.Tenant, j.Group, j.Key} {
		text(s)
	}
	at := int64(0)
	if !j.At.IsZero() {
		at = j.At.UnixNano()
	}
	ordered := int64(0)
	if j.Ordered {
		ordered = 1
	}
	for _, n := range [...]int64{
		int64(j.Priority), int64(j.Delay), at, ordered, int64(j.KeyHold), int64(j.KeyFor), int64(j.KeyRepeat), int64(j.MaxAttempts),
		int64(j.Timeout), int64(j.StartWithin), int64(j.Retain), int64(j.BatchSize), int64(j.BatchOrdinal), int64(len(j.Payload)),
	} {
		number(n)
	}
	b = append(b, j.Batch[:]...)
	for _, name := range slices.Sorted(maps.Keys(j.Headers)) {
		text(name)
		text(j.Headers[name])
	}
	return crc32.Update(crc32.Checksum(b, castagnoli), castagnoli, j.Payload)
}

// checkAnswers refuses an answer that is that of a call for other jobs.
func checkAnswers(c broker.Call, queue string, jobs []broker.NewJob, made []bool, answers []broker.Enqueued) error {
	for i := range min(len(answers), len(jobs)) {
		j, got := &jobs[i], &answers[i]
		switch {
		case got.ID == j.ID, got.Existing && j.Key != "":
		case made[i] && !got.Existing && got.ID.Mark() == markOf(queue, j)&broker.MarkMask:
		default:
			return fmt.Errorf("%w: call id %s was that of another call, for another job %d of %d", broker.ErrInvalid, c.ID, i+1, len(jobs))
		}
	}
	return sameNumber(c, len(answers), len(jobs))
}

func sameNumber(c broker.Call, answered, asked int) error {
	if answered == asked {
		return nil
	}
	return fmt.Errorf("%w: call id %s was that of another call, of %d in place of %d", broker.ErrInvalid, c.ID, answered, asked)
}
