package redisbroker

import (
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// Bits of a record's flags; see lua/job.lua.
const (
	flagAsked   = 2
	flagOrdered = 4
	flagResult  = 8
	flagT256    = 256
	flagG256    = 512
)

// reasons are the names of a record's reasons, by their numbers.
var reasons = [...]string{
	"", broker.ReasonAcked, broker.ReasonRetry, broker.ReasonSnoozed, broker.ReasonReleased, broker.ReasonExpired,
	broker.ReasonAttempts, broker.ReasonCrashed, broker.ReasonBuried, broker.ReasonDamaged, broker.ReasonCancelled,
	broker.ReasonDropped, broker.ReasonNotStarted, broker.ReasonRequeued, broker.ReasonReplaced,
	broker.ReasonWorkerDied, broker.ReasonCancelAsked, broker.ReasonBatch, broker.ReasonDuplicate, 31: "",
}

// job reads a job as Job.show packs it.
func (u *unpacker) job(queue string) (j broker.Job) {
	id := u.id()
	r := unpacker{b: u.text()}
	j = r.record()
	j.Queue, j.ID = queue, id
	j.Task, j.Worker = string(u.text()), string(u.text())
	for range u.uint(2) {
		field, value := u.u8(), u.text()
		switch field {
		case 'e':
			j.Error = string(value)
		case 'r':
			j.Result = slices.Clone(value)
		case 'p':
			if len(value) > 0 {
				j.Progress = broker.Progress{Percent: int(value[0]), Note: string(value[1:])}
			}
		case 'l':
			for l := (unpacker{b: value}); len(l.b) > 0 && l.err == nil; {
				j.Log = append(j.Log, l.str())
			}
		}
	}
	if r.err != nil && u.err == nil {
		u.err = r.err
	}
	return j
}

// record reads a job's record.
func (u *unpacker) record() (j broker.Job) {
	sr, flags := u.u8(), u.uint(2)
	u.take(3) // task
	j.State, j.Reason = broker.State(sr>>5), reasons[sr&31]
	j.Priority = int32(int64(u.uint(4)) - 1<<31)
	j.RunAt = instant(u.uint(7))
	u.take(12) // places
	j.EnqueuedAt = instant(u.uint(7))
	changed := instant(u.uint(7))
	j.ClaimedAt, j.LeaseExpiresAt = instant(u.uint(7)), instant(u.uint(7))
	j.Token = broker.Token(u.uint(7))
	j.Attempt, j.MaxAttempts, j.Failures = int(u.uint(4)), int(u.uint(4)), int(u.uint(4))
	tlen, glen, xlen := int(u.u8()), int(u.u8()), int(u.uint(2))
	u.take(4) // bytes
	if flags&flagT256 != 0 {
		tlen = 256
	}
	if flags&flagG256 != 0 {
		glen = 256
	}
	j.Tenant, j.Group = string(u.take(tlen)), string(u.take(glen))
	if xlen > 0 {
		x := unpacker{b: u.take(xlen)}
		x.ext(&j)
		if u.err == nil {
			u.err = x.err
		}
	}
	u.body(&j)
	j.Ordered, j.HasResult, j.CancelRequested = flags&flagOrdered != 0, flags&flagResult != 0, flags&flagAsked != 0
	if j.State.Final() {
		j.FinishedAt = changed
	}
	return j
}

func (u *unpacker) ext(j *broker.Job) {
	mask := u.u8()
	if mask&extKey != 0 {
		u.take(1 + 8 + 16)
		j.Key = u.str()
	}
	if mask&extBatch != 0 {
		j.Batch, j.BatchOrdinal = u.id(), uint32(u.uint(4))
	}
	if mask&extSize != 0 {
		u.take(4)
	}
	if mask&extRetain != 0 {
		j.Retain = time.Duration(u.uint(8))
	}
	if mask&extStart != 0 {
		j.StartWithin = time.Duration(u.uint(8))
	}
}

func (u *unpacker) body(j *broker.Job) {
	if u.u8() == 1 {
		j.Timeout = time.Duration(u.uint(8))
		n := u.count()
		h := unpacker{b: u.text()}
		if n > 0 {
			j.Headers = make(map[string]string, min(n, 16)) // it grows by what is there
		}
		for range n {
			name := h.str()
			j.Headers[name] = h.str()
		}
		if u.err == nil {
			u.err = h.err
		}
	}
	j.Payload = slices.Clone(u.b)
	u.b = nil
}
