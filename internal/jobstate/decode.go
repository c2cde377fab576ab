package jobstate

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"github.com/spoolq/spool/broker"
)

var errCheckpoint = fmt.Errorf("%w: checkpoint", ErrRecord)

// decoder reads a checkpoint. What it hands out after an error is zero.
type decoder struct {
	r    *bufio.Reader
	buf  [8]byte
	strs []string
	err  error
}

func (d *decoder) raw(b []byte) {
	if d.err == nil {
		switch _, err := io.ReadFull(d.r, b); err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			d.fail("it ends early")
		default:
			d.err = fmt.Errorf("jobstate: read checkpoint: %w", err)
		}
	}
	if d.err != nil {
		clear(b)
	}
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errCheckpoint, what)
	}
}

func (d *decoder) u8() byte    { d.raw(d.buf[:1]); return d.buf[0] }
func (d *decoder) u32() uint32 { d.raw(d.buf[:4]); return binary.LittleEndian.Uint32(d.buf[:]) }
func (d *decoder) u64() uint64 { d.raw(d.buf[:8]); return binary.LittleEndian.Uint64(d.buf[:]) }
func (d *decoder) i64() int64  { return int64(d.u64()) }
func (d *decoder) loc() Loc    { return Loc{d.u32(), d.u32(), d.u32(), d.u32()} }
func (d *decoder) b16() (b [16]byte) {
	d.raw(b[:])
	return b
}

func (d *decoder) str() string {
	n := d.u32()
	if d.err != nil {
		return ""
	}
	if int(n) >= len(d.strs) {
		d.fail("string number")
		return ""
	}
	return d.strs[n]
}

func (d *decoder) strings() (list []string) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		list = append(list, d.str())
	}
	return list
}

// Decode replaces the state, which has to be new, by what Encode wrote.
func (s *State) Decode(r io.Reader) error {
	d := &decoder{r: bufio.NewReaderSize(r, 1<<16)}
	if v := d.u32(); d.err == nil && v != checkpointVersion {
		d.fail(fmt.Sprintf("version %d, this program reads %d", v, checkpointVersion))
	}
	s.epoch, s.boot, s.offset = d.u32(), d.b16(), d.i64()
	s.seq, s.lastPlace, s.clock, s.fresh = d.u64(), d.i64(), d.i64(), d.i64()
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		d.strs = append(d.strs, d.text())
	}
	s.decodeQueues(d)
	jobs, exts := s.decodeEntries(d)
	extras := make([]*extra, 0, 16)
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		extras = append(extras, s.decodeExtra(d))
	}
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		s.decodeKey(d)
	}
	s.decodeMembers(d)
	if d.err != nil {
		return d.err
	}
	return s.place(jobs, exts, extras)
}

func (d *decoder) text() string {
	n := d.u32()
	if d.err != nil || n > 64<<20 {
		d.fail("string length")
		return ""
	}
	b := make([]byte, n)
	d.raw(b)
	return string(b)
}

func (s *State) decodeQueues(d *decoder) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		q := s.makeQueue(d.str())
		q.paused = d.u8() != 0
		for k := d.u32(); k > 0 && d.err == nil; k-- {
			t := q.makeTask(d.str())
			for _, total := range totals(t) {
				*total = d.i64()
			}
		}
		s.decodeFlow(d, q)
		for name := range q.settings {
			if name.kind == broker.CapacitySetting {
				s.capacities++
			}
		}
	}
}

func (s *State) decodeEntries(d *decoder) (jobs []*job, exts []uint32) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		j := s.newJob()
		j.id, j.body = d.b16(), d.loc()
		q := s.queues[d.str()]
		task := d.str()
		priority, ext := int32(d.u32()), d.u32()
		tenant, group := d.str(), d.str()
		d.u64()
		j.place, j.runAt, j.enqueuedAt, j.changedAt, j.claimedAt = d.i64(), d.i64(), d.i64(), d.i64(), d.i64()
		j.seq = d.u64()
		j.epoch, j.claims, j.attempts, j.maxAttempts, j.failures = d.u32(), d.u32(), d.u32(), d.u32(), d.u32()
		j.state, j.reason, j.flags = broker.State(d.u8()), reason(d.u8()), jobFlags(d.u8())
		j.ended = broker.SettleKind(d.u8())
		d.u32()
		d.u64()
		if d.err != nil {
			break
		}
		if q == nil || q.tasks[task] == nil || j.state < broker.Scheduled || j.state > broker.Cancelled || j.reason >= reasonEnd {
			d.fail("job " + j.id.String() + " names what is not there")
			break
		}
		j.lane = q.tasks[task].laneOf(laneKey{priority, tenant, group, j.flags&ordered != 0})
		jobs, exts = append(jobs, j), append(exts, ext)
	}
	return jobs, exts
}

func (s *State) decodeExtra(d *decoder) *extra {
	x := &extra{key: d.str(), hold: broker.KeyHold(d.u8()), keyFor: d.i64(), digest: d.b16(), batch: d.b16(), ordinal: d.u32(), size: min(d.u32(), broker.MaxBatchJobs), left: d.u32()}
	for n := (x.size + 63) / 64; n > 0; n-- {
		x.seen = append(x.seen, d.u64())
	}
	x.retain, x.startWithin, x.keepUntil = d.i64(), d.i64(), d.i64()
	x.result, x.err, x.worker = d.loc(), d.loc(), d.str()
	x.progress = broker.Progress{Percent: int(d.u8()), Note: d.str()}
	x.log = d.strings()
	if d.u8() != 0 {
		x.lease = &lease{locked: d.u8() != 0, expires: d.i64(), worker: d.str()}
		if name := d.str(); name != "" {
			x.lease.member = s.makeMember(name)
		}
	}
	return x
}

func (s *State) decodeKey(d *decoder) {
	q, name := s.queues[d.str()], keyName{d.str(), d.str()}
	h := &heldKey{id: d.b16(), digest: d.b16(), until: d.i64()}
	if d.err == nil && q == nil {
		d.fail("key of no queue")
	}
	if d.err == nil {
		q.keys[name] = h
	}
}

func (s *State) decodeMembers(d *decoder) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		m := s.makeMember(d.str())
		if d.u8() != 0 {
			s.holders[m] = true
		}
	}
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		b := broker.Worker{ID: d.str(), Name: d.str(), Host: d.str(), PID: int(d.u32())}
		member := d.str()
		b.Queues, b.Tasks, b.Concurrency = d.strings(), d.strings(), int(d.u32())
		b.StartedAt = nanos(d.i64())
		s.applyWorker(b, member)
	}
}

// place puts decoded jobs where they belong: lists in the order of the last
// change, lanes, heaps.
func (s *State) place(jobs []*job, exts []uint32, extras []*extra) error {
	for i, j := range jobs {
		if k := exts[i]; k > 0 {
			if int(k) > len(extras) {
				return fmt.Errorf("%w: number of an extra", errCheckpoint)
			}
			j.ext = extras[k-1]
			j.lease, j.ext.lease = j.ext.lease, nil
			if j.ext.empty() {
				j.ext = nil
			}
		}
		if (j.state == broker.Leased) != (j.lease != nil) {
			return fmt.Errorf("%w: job %s is %v and its lease says otherwise", errCheckpoint, j.id, j.state)
		}
		j.queue().jobs[j.id] = j
	}
	for _, q := range s.queues {
		for value, id := range q.holders {
			if j := q.jobs[id]; j != nil {
				q.groupFor(value).holder = j
			}
		}
		q.holders = nil
	}
	slices.SortStableFunc(jobs, func(a, b *job) int {
		return cmp.Or(cmp.Compare(a.changedAt, b.changedAt), cmp.Compare(a.seq, b.seq))
	})
	for _, j := range jobs {
		j.lane.refs++
		s.uses.add(j.body)
		if j.ext != nil {
			s.uses.add(j.ext.result)
			s.uses.add(j.ext.err)
		}
		state := j.state
		j.state = 0
		s.settleIn(j, state)
	}
	for _, q := range s.queues {
		s.governAll(q)
	}
	return nil
}

func (s *State) settleIn(j *job, state broker.State) {
	switch {
	case j.flags&waitsBatch != 0 && !state.Final():
		s.enter(j, broker.Scheduled)
	case state == broker.Scheduled || state == broker.Ready:
		s.wait(j, j.flags&scheduled != 0, j.flags&byWall != 0)
	case state == broker.Leased:
		s.enter(j, state)
		s.leased++
		if m := j.lease.member; m != nil {
			m.jobs[j] = struct{}{}
		}
		s.expireAt(j, j.lease.expires)
	default:
		s.enter(j, state)
		if j.ext != nil && j.ext.keepUntil != 0 {
			s.keepUntil(j, j.ext.keepUntil)
		}
	}
}
