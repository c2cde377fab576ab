package jobstate

import (
	"encoding/binary"
	"fmt"

	"github.com/spoolq/spool/broker"
)

// An entry of a checkpoint is a job (part of the format). What it has in common
// with the entry before is left out, so that a waiting job takes some 25 bytes:
//
//	lane   uvarint k: 0 introduces the next lane (queue is the section's): task, varint priority, tenant, group, uint8 ordered
//	parts  uint8, bits of what follows
//	id     with idOther 16 bytes, else varint (milliseconds of a version 7 id, less those before), 10 bytes
//	body   [uvarint file]; varint offset less the end of the body before, varint length less that before, uint32 checksum
//	seq    varint, less that before
//	place  varint, less that before
//	[enqueuedAt varint, less place] [maxAttempts uvarint] [state, reason, flags: uint8] [life]
//
// life:
//
//	parts uint8; epoch, claims, attempts, failures uvarint; ended uint8
//	runAt varint, less place; changedAt, claimedAt varint, less enqueuedAt
//	[lease: uint8 locked, varint expires less enqueuedAt, worker, member]
//	[extra: uvarint parts, then in the order of the struct what they say]
type entryParts uint8

const (
	entryEnqueued entryParts = 1 << iota // enqueuedAt is not place
	entryLife
	entryID    // the id is not of version 7
	entryFile  // the body is in another file than the one before
	entryMax   // another maxAttempts than before
	entryState // another state, reason or flags than before
)

type lifeParts uint8

const (
	lifeLease lifeParts = 1 << iota
	lifeExtra
)

type extraParts uint16

const (
	extraKey extraParts = 1 << iota
	extraDigest
	extraBatch
	extraWhole // a completion job's
	extraRetain
	extraStartWithin
	extraKeep
	extraResult
	extraError
	extraWorker
	extraProgress
	extraLog
)

// sequence is where the writing or reading of a queue's entries is.
type sequence struct {
	lanes map[uint32]uint64 // writing: numbers by those of the State
	known []*lane           // reading: the lane of each number
	ms    int64             // of the last version 7 id
	last  job
	most  uint32 // its maxAttempts
}

func (s *State) encodeJobs(e *encoder, q *queue) {
	jobs := q.inOrder()
	e.u32(uint32(len(jobs)))
	seq := &sequence{lanes: map[uint32]uint64{}}
	for _, j := range jobs {
		s.encodeEntry(e, seq, j)
		e.flush(1 << 16)
	}
}

// version7 splits an id into its milliseconds and the rest.
func version7(id *broker.ID) (ms int64, ok bool) {
	return int64(binary.BigEndian.Uint64(id[:]) >> 16), id[6]>>4 == 7
}

func (s *State) encodeEntry(e *encoder, seq *sequence, j *job) {
	state := j.state()
	if state == broker.Ready && j.flags&scheduled != 0 {
		state = broker.Scheduled // whether it is due is for the reader to find out
	}
	most := s.maxAttempts(j)
	ms, v7 := version7(&j.id)
	last := &seq.last
	parts := entryParts(0)
	set := func(on bool, part entryParts) {
		if on {
			parts |= part
		}
	}
	set(j.enqueuedAt != j.place, entryEnqueued)
	set(j.lived(), entryLife)
	set(!v7, entryID)
	set(j.body.File != last.body.File, entryFile)
	set(most != seq.most, entryMax)
	set(state != last.state() || j.reason() != last.reason() || j.flags != last.flags, entryState)
	s.encodeLane(e, seq, j.lane)
	e.u8(byte(parts))
	if v7 {
		e.int(ms - seq.ms)
		e.raw(j.id[6:])
		seq.ms = ms
	} else {
		e.raw(j.id[:])
	}
	if parts&entryFile != 0 {
		e.uint(uint64(j.body.File))
	}
	e.int(int64(j.body.Off) - int64(last.body.Off) - int64(last.body.Len))
	e.int(int64(j.body.Len) - int64(last.body.Len))
	e.u32(j.body.Sum)
	e.int(int64(j.seq() - last.seq()))
	e.int(j.place - last.place)
	if parts&entryEnqueued != 0 {
		e.int(j.enqueuedAt - j.place)
	}
	if parts&entryMax != 0 {
		e.uint(uint64(most))
	}
	if parts&entryState != 0 {
		e.u8(byte(state))
		e.u8(byte(j.reason()))
		e.u8(byte(j.flags))
	}
	if parts&entryLife != 0 {
		s.encodeLife(e, j, s.lifeOf(j))
	}
	*last, seq.most = *j, most
	last.become(state)
}

func (s *State) encodeLane(e *encoder, seq *sequence, n uint32) {
	if k, ok := seq.lanes[n]; ok {
		e.uint(k)
		return
	}
	seq.lanes[n] = uint64(len(seq.lanes) + 1)
	l := s.lanes[n]
	e.uint(0)
	e.str(l.task.name)
	e.int(int64(l.priority))
	e.str(l.tenant)
	e.str(l.group)
	e.u8(b2u(l.ordered))
}

func (s *State) encodeLife(e *encoder, j *job, v *life) {
	parts := lifeParts(0)
	if j.state() == broker.Leased {
		parts |= lifeLease
	}
	if !v.ext.empty() {
		parts |= lifeExtra
	}
	e.u8(byte(parts))
	for _, n := range [...]uint32{v.epoch, v.claims, v.attempts, v.failures} {
		e.uint(uint64(n))
	}
	e.u8(byte(v.ended))
	e.int(v.runAt - j.place)
	e.int(v.changedAt - j.enqueuedAt)
	e.int(v.claimedAt - j.enqueuedAt)
	if parts&lifeLease != 0 {
		e.u8(b2u(v.lease.locked))
		e.int(v.lease.expires - j.enqueuedAt)
		e.str(v.lease.worker)
		member := ""
		if v.lease.member != nil {
			member = v.lease.member.name
		}
		e.str(member)
	}
	if parts&lifeExtra != 0 {
		e.extra(v.ext)
	}
}

// parts says what of an extra is written.
func (x *extra) parts() (parts extraParts) {
	set := func(on bool, part extraParts) {
		if on {
			parts |= part
		}
	}
	set(x.key != "" || x.hold != 0 || x.keyFor != 0, extraKey)
	set(x.digest != [16]byte{}, extraDigest)
	set(!x.batch.IsZero(), extraBatch)
	set(x.size != 0, extraWhole)
	set(x.retain != 0, extraRetain)
	set(x.startWithin != 0, extraStartWithin)
	set(x.keepUntil != 0, extraKeep)
	set(!x.result.Zero(), extraResult)
	set(!x.err.Zero(), extraError)
	set(x.worker != "", extraWorker)
	set(x.progress != broker.Progress{}, extraProgress)
	set(len(x.log) > 0, extraLog)
	return parts
}

func (e *encoder) loc(l Loc) {
	e.uint(uint64(l.File))
	e.uint(uint64(l.Off))
	e.uint(uint64(l.Len))
	e.u32(l.Sum)
}

func (e *encoder) extra(x *extra) {
	parts := x.parts()
	e.uint(uint64(parts))
	if parts&extraKey != 0 {
		e.text(x.key)
		e.u8(byte(x.hold))
		e.int(x.keyFor)
	}
	if parts&extraDigest != 0 {
		e.raw(x.digest[:])
	}
	if parts&extraBatch != 0 {
		e.raw(x.batch[:])
		e.uint(uint64(x.ordinal))
	}
	if parts&extraWhole != 0 {
		e.uint(uint64(x.size))
		e.uint(uint64(x.left))
		for _, word := range x.seen {
			e.u64(word)
		}
	}
	for i, t := range [...]int64{x.retain, x.startWithin, x.keepUntil} {
		if parts&(extraRetain<<i) != 0 {
			e.int(t)
		}
	}
	if parts&extraResult != 0 {
		e.loc(x.result)
	}
	if parts&extraError != 0 {
		e.loc(x.err)
	}
	if parts&extraWorker != 0 {
		e.str(x.worker)
	}
	if parts&extraProgress != 0 {
		e.u8(byte(x.progress.Percent))
		e.text(x.progress.Note)
	}
	if parts&extraLog != 0 {
		e.uint(uint64(len(x.log)))
		for _, line := range x.log {
			e.text(line)
		}
	}
}

// decodeJobs reads the jobs of a queue, and puts them where they belong.
func (s *State) decodeJobs(d *decoder, q *queue) {
	if d.cut {
		return
	}
	n := int(d.u32())
	if d.err != nil {
		return
	}
	if d.limit > 0 && n >= d.limit-d.jobs {
		n, d.cut = d.limit-d.jobs, true
	}
	file, filed := q.jobs.fileIn(n)
	seq := &sequence{}
	first, sorted, last := s.jobs.used+1, true, int64(-1<<63)
	for i := range n {
		d.window(entryWindow)
		j := s.decodeEntry(d, q, seq)
		if d.err != nil {
			break
		}
		d.jobs++
		at := s.changedAt(j)
		sorted, last = sorted && at >= last, at
		if (i+1)%fileJobs == 0 || i+1 == n {
			file <- filing{s.jobs, first + ref(i-i%fileJobs), j.self}
		}
	}
	close(file)
	if d.err == nil && len(q.holders) == 0 {
		s.placeAll(q, first, n, sorted)
	}
	<-filed
	if d.err == nil && len(q.holders) > 0 { // they are looked for by their ids
		s.placeAll(q, first, n, sorted)
	}
}

// entryWindow is more than an entry takes but for its texts.
const entryWindow = 256

func (s *State) decodeEntry(d *decoder, q *queue, seq *sequence) *job {
	l := s.decodeLane(d, q, seq)
	parts := entryParts(d.u8())
	j, last := s.takeJob(), &seq.last
	if parts&entryID != 0 {
		d.raw(j.id[:])
	} else {
		seq.ms += d.int()
		binary.BigEndian.PutUint64(j.id[:], uint64(seq.ms)<<16)
		d.raw(j.id[6:])
	}
	j.body.File = last.body.File
	if parts&entryFile != 0 {
		j.body.File = uint32(d.uint())
	}
	j.body.Off = uint32(d.int() + int64(last.body.Off) + int64(last.body.Len))
	j.body.Len = uint32(d.int() + int64(last.body.Len))
	j.body.Sum = d.u32()
	j.setSeq(last.seq() + uint64(d.int()))
	j.place = last.place + d.int()
	j.enqueuedAt = j.place
	if parts&entryEnqueued != 0 {
		j.enqueuedAt += d.int()
	}
	if parts&entryMax != 0 {
		seq.most = uint32(min(d.uint(), broker.MaxAttempts))
	}
	j.life = noLifeBit | seq.most
	flags := last.flags
	j.status = last.status
	if parts&entryState != 0 {
		state, why := broker.State(d.u8()), reason(d.u8())
		j.status, flags = 0, jobFlags(d.u8())
		if state < broker.Scheduled || state > broker.Cancelled || why >= reasonEnd {
			d.fail("job " + j.id.String() + " is in no state")
		}
		j.become(state)
		j.because(why)
	}
	j.flags = flags &^ scheduled
	s.setLater(j, flags&scheduled != 0)
	if parts&entryLife != 0 {
		s.decodeLife(d, j)
	}
	if d.err == nil && j.status == 0 {
		d.fail("job " + j.id.String() + " is in no state")
	}
	if d.err != nil {
		return nil
	}
	j.lane = l.self
	*last = *j
	return j
}

func (s *State) decodeLane(d *decoder, q *queue, seq *sequence) *lane {
	k := d.uint()
	switch {
	case d.err != nil:
		return nil
	case k > uint64(len(seq.known)):
		d.fail("lane number")
		return nil
	case k > 0:
		return seq.known[k-1]
	}
	name := d.str()
	key := laneKey{int32(d.int()), d.str(), d.str(), d.u8() != 0}
	t := q.tasks[name]
	if d.err == nil && t == nil {
		d.fail(fmt.Sprintf("task %q is not there", name))
	}
	if d.err != nil {
		return nil
	}
	l := t.laneOf(key)
	seq.known = append(seq.known, l)
	return l
}

func (s *State) decodeLife(d *decoder, j *job) {
	v := s.change(j)
	parts := lifeParts(d.u8())
	for _, n := range [...]*uint32{&v.epoch, &v.claims, &v.attempts, &v.failures} {
		*n = uint32(d.uint())
	}
	v.ended = broker.SettleKind(d.u8())
	v.runAt, v.changedAt, v.claimedAt = j.place+d.int(), j.enqueuedAt+d.int(), j.enqueuedAt+d.int()
	if parts&lifeLease != 0 {
		v.lease.locked, v.lease.expires, v.lease.worker = d.u8() != 0, j.enqueuedAt+d.int(), d.str()
		s.hold(j, s.memberOf(d.str()))
	}
	if d.err == nil && (parts&lifeLease != 0) != (j.state() == broker.Leased) {
		d.fail(fmt.Sprintf("job %s is %v and its lease says otherwise", j.id, j.state()))
	}
	if parts&lifeExtra != 0 {
		s.extend(j, d.extra())
	}
}

func (d *decoder) loc() Loc {
	return Loc{uint32(d.uint()), uint32(d.uint()), uint32(d.uint()), d.u32()}
}

func (d *decoder) extra() *extra {
	x, parts := &extra{}, extraParts(d.uint())
	if parts&extraKey != 0 {
		x.key, x.hold, x.keyFor = d.text(), broker.KeyHold(d.u8()), d.int()
	}
	if parts&extraDigest != 0 {
		x.digest = d.b16()
	}
	if parts&extraBatch != 0 {
		x.batch, x.ordinal = d.b16(), uint32(d.uint())
	}
	if parts&extraWhole != 0 {
		x.size, x.left = uint32(min(d.uint(), broker.MaxBatchJobs)), uint32(d.uint())
		for n := (x.size + 63) / 64; n > 0 && d.err == nil; n-- {
			x.seen = append(x.seen, d.u64())
		}
	}
	for i, t := range [...]*int64{&x.retain, &x.startWithin, &x.keepUntil} {
		if parts&(extraRetain<<i) != 0 {
			*t = d.int()
		}
	}
	if parts&extraResult != 0 {
		x.result = d.loc()
	}
	if parts&extraError != 0 {
		x.err = d.loc()
	}
	if parts&extraWorker != 0 {
		x.worker = d.str()
	}
	if parts&extraProgress != 0 {
		x.progress = broker.Progress{Percent: int(d.u8()), Note: d.text()}
	}
	if parts&extraLog != 0 {
		for n := d.uint(); n > 0 && d.err == nil; n-- {
			x.log = append(x.log, d.text())
		}
	}
	return x
}
