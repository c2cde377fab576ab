package jobstate

import "github.com/spoolq/spool/broker"

// life is what became of a job since it was enqueued. One that was never
// claimed, moved or ended has none: it is due at its place, and changed last
// when it was enqueued.
type life struct {
	ver       uint32 // rises with each change of position; makes old items stale
	epoch     uint32 // of the last claim
	claims    uint32 // with epoch the token, see nextToken
	attempts  uint32
	failures  uint32
	max       uint32            // attempts
	ended     broker.SettleKind // how its last lease was settled; 0: not, it expired
	runAt     int64             // when it is due
	changedAt int64             // last change of state
	claimedAt int64             // last claim
	lease     lease             // while it is leased
	ext       *extra            // what few jobs have; nil for most
}

// lease is the current claim of a job.
type lease struct {
	expires    int64
	worker     string
	member     *member // nil: its deadline alone ends it
	locked     bool    // member is a lock of this lease's own: the deadline waits for it
	prev, next ref     // among the leases of member
}

// extra is what few jobs have.
type extra struct {
	key         string
	hold        broker.KeyHold
	keyFor      int64
	digest      [16]byte // of the payload, for the key
	batch       broker.ID
	ordinal     uint32
	size        uint32   // of the batch, for a completion job
	seen        []uint64 // which of its members were counted, a bit each
	left        uint32   // how many were not
	retain      int64    // as NewJob.Retain
	startWithin int64
	keepUntil   int64 // of a final job; 0: for ever
	result      Loc
	err         Loc
	worker      string // of the last claim, once the lease is over
	progress    broker.Progress
	log         []string
}

// empty reports whether x says nothing.
func (x *extra) empty() bool {
	return x == nil || x.key == "" && x.hold == 0 && x.keyFor == 0 && x.batch.IsZero() && x.size == 0 && x.retain == 0 && x.startWithin == 0 &&
		x.keepUntil == 0 && x.result.Zero() && x.err.Zero() && x.worker == "" && x.progress == broker.Progress{} && len(x.log) == 0
}

const (
	chunkLifeBits = 7
	chunkLives    = 1 << chunkLifeBits
)

// lives holds the lives of the jobs of a State. They never move.
type lives struct {
	chunks []*[chunkLives]life
	used   uint32
	free   []uint32
}

func (e *lives) at(n uint32) *life { return &e.chunks[n>>chunkLifeBits][n%chunkLives] }

func (e *lives) take() uint32 {
	if k := len(e.free) - 1; k >= 0 {
		n := e.free[k]
		e.free = e.free[:k]
		return n
	}
	e.used++ // 0 is nobody's
	if int(e.used>>chunkLifeBits) >= len(e.chunks) {
		e.chunks = append(e.chunks, new([chunkLives]life))
	}
	return e.used
}

func (e *lives) give(n uint32) {
	*e.at(n) = life{}
	e.free = append(e.free, n)
}

// lifeOf returns what became of j. It is only to be read: jobs without a life
// share one.
func (s *State) lifeOf(j *job) *life {
	if !j.lived() {
		return &noLife
	}
	return s.lives.at(j.life)
}

// noLifeBit marks a job that has no life.
const noLifeBit = 1 << 31

func (j *job) lived() bool { return j.life&noLifeBit == 0 }

// maxAttempts is how often j may be claimed.
func (s *State) maxAttempts(j *job) uint32 {
	if !j.lived() {
		return j.life &^ noLifeBit
	}
	return s.lives.at(j.life).max
}

var noLife life

// change returns the life of j to be changed, made when it has none.
func (s *State) change(j *job) *life {
	if !j.lived() {
		n := s.lives.take()
		s.room += lifeRoom
		l := s.lives.at(n)
		l.ver, l.max, l.runAt, l.changedAt = 1, s.maxAttempts(j), j.place, j.enqueuedAt
		j.life = n
	}
	return s.lives.at(j.life)
}

// extOf returns what few jobs have, nil for most.
func (s *State) extOf(j *job) *extra { return s.lifeOf(j).ext }

// more is extOf to be changed: made when there is none.
func (s *State) more(j *job) *extra {
	if l := s.change(j); l.ext == nil {
		s.extend(j, &extra{})
	}
	return s.extOf(j)
}

// runAt is when j is due.
func (s *State) runAt(j *job) int64 {
	if !j.lived() {
		return j.place
	}
	return s.lives.at(j.life).runAt
}

// changedAt is when j entered its state.
func (s *State) changedAt(j *job) int64 {
	if !j.lived() {
		return j.enqueuedAt
	}
	return s.lives.at(j.life).changedAt
}

func (l *life) token() broker.Token {
	return broker.Token(uint64(l.epoch)<<32 | uint64(l.claims))
}

// hold makes a lease one of m's, whose end is its end.
func (s *State) hold(j *job, m *member) {
	l := &s.change(j).lease
	l.member = m
	if m == nil {
		return
	}
	l.prev, l.next = 0, m.first
	if m.first != 0 {
		s.leaseOf(m.first).prev = j.self
	}
	m.first = j.self
}

// letGo undoes hold.
func (s *State) letGo(j *job) {
	l := &s.change(j).lease
	if l.member == nil {
		return
	}
	if l.prev == 0 {
		l.member.first = l.next
	} else {
		s.leaseOf(l.prev).next = l.next
	}
	if l.next != 0 {
		s.leaseOf(l.next).prev = l.prev
	}
	l.member, l.prev, l.next = nil, 0, 0
}

func (s *State) leaseOf(r ref) *lease { return &s.lives.at(s.jobs.at(r).life).lease }
