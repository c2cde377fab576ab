package redisbroker

import (
	"encoding/json"
	"math/bits"
	"slices"
	"strconv"
	"time"

	"github.com/spoolq/spool/broker"
)

// Bits of a record's flags that only a move reads; see lua/job.lua.
const (
	flagWall      = 1
	flagWaits     = 16
	flagSignalled = 32
	flagDue       = 2048
	flagsEnded    = 12 // the kind of the last settlement stands above so many
)

// Which way a time is rounded to microseconds: what is due, never earlier.
const (
	down = iota
	up
)

// micros puts a time of the other side on this side's clock; 0 is none.
func (m *moveRec) micros(t time.Time, way int) int64 {
	if t.IsZero() {
		return 0
	}
	return max(wallMicros(t, way)+m.delta, 1)
}

func wallMicros(t time.Time, way int) int64 {
	us := t.UnixMicro()
	if way == up && t.Nanosecond()%1000 > 0 {
		us++
	}
	return us
}

// moved reads the answer of lua/take.lua. It is done when nothing is left: no job, and
// no follow-up to another queue, which upkeep delivers. settings says that settings
// are left to take.
func (u *unpacker) moved(queue string) (b broker.MoveBatch, settings bool) {
	b.Number, b.Now = u.uint(8), u.time()
	b.Left, b.Leased = int64(u.uint(8)), int64(u.uint(8))
	b.Done = u.uint(8) == 0 && b.Left == 0
	settings = u.u8() == 1
	body := unpacker{b: u.text()}
	if len(body.b) == 0 {
		return b, settings
	}
	for range body.count() {
		b.Jobs = append(b.Jobs, body.movedJob(queue))
	}
	for range body.count() {
		b.Keys = append(b.Keys, broker.MovedKey{Task: body.str(), Key: body.str(), ID: body.id(), Digest: [16]byte(body.id()), Until: body.time()})
	}
	for range body.count() {
		b.Signals = append(b.Signals, broker.MovedSignal{Batch: body.id(), Ordinal: uint32(body.uint(4))})
	}
	text := body.text()
	b.Paused = body.u8() == 1
	if body.err != nil {
		u.err = body.err
	} else if len(text) > 0 {
		var s movedSettings
		if err := json.Unmarshal(text, &s); err != nil {
			u.err = err
		}
		b.Settings, b.Starts = s.Settings, s.Starts
	}
	return b, settings
}

// movedJob reads a job on its way: as Job.show packs it, and what it holds.
func (u *unpacker) movedJob(queue string) (j broker.MovedJob) {
	peek := *u
	peek.id()
	head := unpacker{b: peek.text()}
	j.Job = u.job(queue)
	head.u8()
	flags := head.uint(2)
	head.take(3 + 4 + 7)
	j.Seq = head.uint(6)
	head.take(6 + 7)
	j.ChangedAt = instant(head.uint(7))
	head.take(7 + 7 + 7 + 4 + 4 + 4)
	tlen, glen, xlen := int(head.u8()), int(head.u8()), int(head.uint(2))
	if flags&flagT256 != 0 {
		tlen = 256
	}
	if flags&flagG256 != 0 {
		glen = 256
	}
	head.take(4 + tlen + glen)
	if xlen > 0 {
		x := unpacker{b: head.take(xlen)}
		x.movedExt(&j)
	}
	j.Place, j.ByWall = j.RunAt, flags&flagWall != 0
	j.Waits, j.Signalled = flags&flagWaits != 0, flags&flagSignalled != 0
	j.Ended = broker.SettleKind(flags >> flagsEnded)
	if j.Later = j.State == broker.Scheduled && !j.Waits || j.State == broker.Ready && flags&flagDue != 0; j.Later {
		j.State = broker.Scheduled
	}
	peek.text() // task
	peek.text() // worker
	if j.BatchSize > broker.MaxBatchJobs {
		u.err = errPacked // no enqueue made it
		return j
	}
	j.Seen = make([]uint64, (j.BatchSize+63)/64)
	for range peek.uint(2) {
		if field, value := peek.u8(), peek.text(); field == 'b' {
			for i, bits := range value {
				if i/8 < len(j.Seen) {
					j.Seen[i/8] |= uint64(bits) << (8 * (i % 8))
				}
			}
		}
	}
	j.KeyHeld, j.KeyUntil = u.u8() == 1, u.time()
	j.HoldsGroup, j.KeepUntil = u.u8() == 1, u.time()
	return j
}

// movedExt reads of ext what a Job does not have.
func (u *unpacker) movedExt(j *broker.MovedJob) {
	mask := u.u8()
	if mask&extKey != 0 {
		j.KeyHold, j.KeyFor, j.KeyDigest = broker.KeyHold(u.u8()), time.Duration(u.uint(8))*time.Microsecond, [16]byte(u.id())
		u.str()
	}
	if mask&extBatch != 0 {
		u.take(16 + 4)
	}
	if mask&extSize != 0 {
		j.BatchSize = uint32(u.uint(4))
	}
}

// moved packs a job that arrives as lua/put.lua reads it.
func (p packer) moved(j *broker.MovedJob, m *moveRec) packer {
	rec := packer(nil).movedHead(j, m)
	n := broker.NewJob{
		Payload: j.Payload, Headers: j.Headers, Timeout: j.Timeout, Key: j.Key, KeyHold: j.KeyHold, KeyFor: j.KeyFor,
		Batch: j.Batch, BatchOrdinal: j.BatchOrdinal, BatchSize: j.BatchSize, Retain: j.Retain, StartWithin: j.StartWithin,
	}
	ext := packer(nil).ext(&n, j.KeyDigest[:])
	body := packer(nil).body(&n)
	rec = rec.u8(byte(len(j.Tenant))).u8(byte(len(j.Group))).u16(len(ext) - 2).u32(storedBytes(&n))
	rec = append(append(append(append(rec, j.Tenant...), j.Group...), ext[2:]...), body[4:]...)
	p = p.id(j.ID).str(j.Task).flag(j.KeyHeld).u64(m.micros(j.KeyUntil, up)).flag(j.HoldsGroup).u64(m.micros(j.KeepUntil, up)).text(rec)
	fields := moveFields(j)
	p = p.u16(len(fields))
	for _, f := range fields {
		p = p.u8(f.name).text(f.value)
	}
	return p
}

// movedHead packs the head of a record, as Job.format has it, down to its failures.
func (p packer) movedHead(j *broker.MovedJob, m *moveRec) packer {
	flags := int(j.Ended) << flagsEnded
	for _, f := range [...]struct {
		on   bool
		flag int
	}{
		{j.ByWall, flagWall}, {j.Ordered, flagOrdered}, {j.HasResult, flagResult}, {j.Waits, flagWaits}, {j.Signalled, flagSignalled},
		{len(j.Tenant) == 256, flagT256}, {len(j.Group) == 256, flagG256},
	} {
		if f.on {
			flags |= f.flag
		}
	}
	way := down
	if j.Later {
		way = up
	}
	runAt := m.micros(j.RunAt, way)
	if j.ByWall && !j.RunAt.IsZero() {
		runAt = wallMicros(j.RunAt, way)
	}
	p = p.u8(byte(j.State)<<5 | byte(max(slices.Index(reasons[:31], j.Reason), 0))).u16(flags).u8(0).u16(0).u32(int(int64(j.Priority) + 1<<31))
	p = p.u56(runAt).u48(m.seqOf(j.Seq)).u48(0).u56(m.micros(j.EnqueuedAt, down)).u56(m.micros(j.ChangedAt, down)).u56(m.micros(j.ClaimedAt, down))
	return p.u56(0).u56(int64(j.Token)).u32(j.Attempt).u32(j.MaxAttempts).u32(j.Failures)
}

// seqOf is the number here of an enqueue at the other side: what was enqueued there
// when the move began has the number that this side was at.
func (m *moveRec) seqOf(n uint64) uint64 {
	return uint64(min(max(int64(n)+m.shift, 1), 1<<47))
}

func (p packer) u56(n int64) packer { return append(p, packer(nil).u64(n)[1:]...) }

// field is one of the hash beside a record.
type field struct {
	name  byte
	value []byte
}

// moveFields are those of a job that arrives.
func moveFields(j *broker.MovedJob) (all []field) {
	add := func(on bool, name byte, value []byte) {
		if on {
			all = append(all, field{name, value})
		}
	}
	add(j.Error != "", 'e', []byte(j.Error))
	add(j.HasResult, 'r', j.Result)
	add(j.Worker != "", 'w', []byte(j.Worker))
	add(j.Progress != broker.Progress{}, 'p', append([]byte{byte(j.Progress.Percent)}, j.Progress.Note...))
	var log packer
	for _, line := range j.Log {
		log = log.str(line)
	}
	add(len(log) > 0, 'l', log)
	if j.Waits {
		seen, left := make([]byte, (j.BatchSize+7)/8), int(j.BatchSize)
		for i := range seen {
			seen[i] = byte(j.Seen[i/8] >> (8 * (i % 8)))
			left -= bits.OnesCount8(seen[i])
		}
		add(true, 'b', seen)
		add(true, 'n', strconv.AppendInt(nil, int64(max(left, 0)), 10))
	}
	return all
}
