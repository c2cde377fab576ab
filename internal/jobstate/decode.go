package jobstate

import (
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
	r    io.Reader
	buf  []byte
	win  []byte // what of buf is still to be read
	strs []string
	err  error

	jobs  int // read so far
	limit int // more than so many cannot be read; 0 for any number
	cut   bool
}

// window makes at least n bytes ready, unless the input ends before.
func (d *decoder) window(n int) {
	if len(d.win) >= n || d.err != nil {
		return
	}
	k := copy(d.buf, d.win)
	m, err := io.ReadAtLeast(d.r, d.buf[k:], n-k)
	if err != nil && err != io.EOF && err != io.ErrUnexpectedEOF {
		d.err = fmt.Errorf("jobstate: read checkpoint: %w", err)
	}
	d.win = d.buf[:k+m]
}

func (d *decoder) fail(what string) {
	if d.err == nil {
		d.err = fmt.Errorf("%w: %s", errCheckpoint, what)
	}
	d.win = nil
}

var zeroWindow [16]byte

// next returns the next n bytes, at most 16, valid until the next call.
func (d *decoder) next(n int) []byte {
	if len(d.win) < n {
		if d.window(n); len(d.win) < n || d.err != nil {
			d.fail("it ends early")
			return zeroWindow[:n]
		}
	}
	b := d.win[:n]
	d.win = d.win[n:]
	return b
}

func (d *decoder) u8() byte          { return d.next(1)[0] }
func (d *decoder) u32() uint32       { return binary.LittleEndian.Uint32(d.next(4)) }
func (d *decoder) u64() uint64       { return binary.LittleEndian.Uint64(d.next(8)) }
func (d *decoder) i64() int64        { return int64(d.u64()) }
func (d *decoder) raw(b []byte)      { copy(b, d.next(len(b))) }
func (d *decoder) b16() (b [16]byte) { return [16]byte(d.next(16)) }

func (d *decoder) uint() uint64 {
	if len(d.win) < binary.MaxVarintLen64 {
		d.window(binary.MaxVarintLen64)
	}
	v, n := binary.Uvarint(d.win)
	if n <= 0 || d.err != nil {
		d.fail("number")
		return 0
	}
	d.win = d.win[n:]
	return v
}

func (d *decoder) int() int64 {
	v := d.uint()
	return int64(v>>1) ^ -int64(v&1)
}

func (d *decoder) str() string {
	k := d.uint()
	switch {
	case d.err != nil:
		return ""
	case k > uint64(len(d.strs)):
		d.fail("string number")
		return ""
	case k > 0:
		return d.strs[k-1]
	}
	t := d.text()
	d.strs = append(d.strs, t)
	return t
}

func (d *decoder) text() string {
	n := d.uint()
	if n > broker.MaxCallBytes {
		d.fail("string length")
	}
	if d.err != nil {
		return ""
	}
	b := make([]byte, 0, min(n, 1<<16))
	for k := int(n); k > 0 && d.err == nil; {
		d.window(1)
		part := d.win[:min(k, len(d.win))]
		if len(part) == 0 {
			d.fail("it ends early")
		}
		b, k, d.win = append(b, part...), k-len(part), d.win[len(part):]
	}
	return string(b)
}

func (d *decoder) strings() (list []string) {
	for n := d.uint(); n > 0 && d.err == nil; n-- {
		list = append(list, d.str())
	}
	return list
}

// Decode replaces the state, which has to be new, by what Encode wrote.
func (s *State) Decode(r io.Reader) error { return s.decode(newDecoder(r)) }

func newDecoder(r io.Reader) *decoder { return &decoder{r: r, buf: make([]byte, 1<<16)} }

// Readable counts the jobs of what Encode wrote, up to the first that is damaged.
func Readable(r io.Reader) int {
	d := newDecoder(r)
	_ = New(nil, nil).decode(d)
	return d.jobs
}

// DecodeFirst is Decode of the first n jobs, where n is what Readable says, for a
// repair: what comes behind them is lost, also who held which key. Jobs that wait hold
// theirs again.
func (s *State) DecodeFirst(r io.Reader, n int) error {
	d := newDecoder(r)
	d.limit = n
	if err := s.decode(d); err != nil {
		return err
	}
	for _, q := range s.queues {
		for _, j := range q.inOrder() {
			if x := s.extOf(j); x != nil && x.key != "" && x.hold == broker.HoldFor {
				q.setKey(keyName{s.taskOf(j).name, x.key}, &heldKey{id: j.id, digest: x.digest, until: satAdd(j.enqueuedAt, x.keyFor)})
			} else if !j.state().Final() {
				s.retakeKey(j, s.clock)
			}
		}
	}
	return nil
}

func (s *State) decode(d *decoder) error {
	version := d.u32()
	switch {
	case d.err == nil && version > checkpointWithCalls:
		return fmt.Errorf("%w: a checkpoint of version %d; it reads %d to %d", ErrNewer, version, checkpointVersion, checkpointWithCalls)
	case version < checkpointVersion:
		d.fail(fmt.Sprintf("version %d", version))
	}
	s.epoch, s.boot, s.offset = d.u32(), d.b16(), d.i64()
	s.seq, s.lastPlace, s.clock, s.fresh = d.u64(), d.i64(), d.i64(), d.i64()
	s.decodeQueues(d)
	for _, name := range s.Queues() {
		s.decodeJobs(d, s.queues[name])
	}
	if !d.cut {
		s.decodeRest(d, version)
	}
	for _, q := range s.queues {
		s.governAll(q)
	}
	return d.err
}

// decodeRest reads what stands behind the jobs.
func (s *State) decodeRest(d *decoder, version uint32) {
	s.decodeKeys(d)
	s.decodeMembers(d)
	if version >= checkpointWithMoves {
		s.decodeMoves(d)
	}
	if version >= checkpointWithCalls {
		s.decodeCalls(d)
	}
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
			s.given += uint64(t.totals.Claimed)
		}
		s.decodeFlow(d, q)
		for name := range q.settings {
			if name.kind == broker.CapacitySetting {
				s.capacities++
			}
		}
	}
}

func (s *State) decodeKeys(d *decoder) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		q, name := s.queues[d.str()], keyName{d.str(), d.text()}
		h := &heldKey{id: d.b16(), digest: d.b16(), until: d.i64()}
		if d.err == nil && q == nil {
			d.fail("key of no queue")
		}
		if d.err == nil {
			q.setKey(name, h)
		}
	}
}

func (s *State) decodeMembers(d *decoder) {
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		m := s.makeMember(d.text())
		if d.u8() != 0 {
			s.holders[m] = true
		}
	}
	for n := d.u32(); n > 0 && d.err == nil; n-- {
		b := broker.Worker{ID: d.text(), Name: d.text(), Host: d.text(), PID: int(d.u32())}
		member := d.text()
		b.Queues, b.Tasks, b.Concurrency = d.strings(), d.strings(), int(d.u32())
		b.StartedAt = nanos(d.i64())
		s.applyWorker(b, member)
	}
}

// placeAll puts the n decoded jobs of a queue from first on where they belong:
// lists in the order of the last change, lanes, heaps.
func (s *State) placeAll(q *queue, first ref, n int, sorted bool) {
	for value, id := range q.holders {
		if j := q.job(id); j != nil {
			q.groupFor(value).holder = j
		}
	}
	q.holders = nil
	if sorted {
		for r := range ref(n) {
			s.follow(q, s.jobs.at(first+r))
		}
		return
	}
	jobs := make([]*job, n)
	for i := range jobs {
		jobs[i] = s.jobs.at(first + ref(i))
	}
	slices.SortFunc(jobs, func(a, b *job) int {
		return cmp.Or(cmp.Compare(s.changedAt(a), s.changedAt(b)), cmp.Compare(a.seq(), b.seq()))
	})
	for _, j := range jobs {
		s.follow(q, j)
	}
}

// follow settles the next job, behind those that had become due when it entered its
// state: who saw all that happened lists them so. (By which wall clock that was, a
// checkpoint does not know: jobs with a wall time come last.)
func (s *State) follow(q *queue, j *job) {
	s.promote(q, Now{Steady: s.changedAt(j)})
	s.settleIn(j)
}

// settleIn puts a decoded job where its state has it.
func (s *State) settleIn(j *job) {
	s.laneOf(j).refs++
	s.use(j)
	x := s.extOf(j)
	state := j.state()
	j.become(0)
	switch {
	case j.flags&waitsBatch != 0 && !state.Final():
		s.enter(j, broker.Scheduled)
	case state == broker.Scheduled || state == broker.Ready:
		s.wait(j, j.flags&scheduled != 0, j.flags&byWall != 0)
	case state == broker.Leased:
		s.enter(j, state)
		s.leased++
		s.expireAt(j, s.lifeOf(j).lease.expires)
	default:
		s.enter(j, state)
		if x != nil && x.keepUntil != 0 {
			s.keepUntil(j, x.keepUntil)
		}
	}
}

// use counts what j refers to.
func (s *State) use(j *job) {
	s.uses.add(j.body)
	if x := s.extOf(j); x != nil {
		s.uses.add(x.result)
		s.uses.add(x.err)
	}
}
