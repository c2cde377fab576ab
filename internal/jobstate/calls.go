package jobstate

import (
	"cmp"
	"math/bits"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// CallRetry is for how long a call may be made again. It is remembered for
// callMemory after its frame, on the broker's clock: a repeat that was sent in time
// may be on its way.
const (
	CallRetry  = 2 * time.Minute
	callMemory = CallRetry + 10*time.Second
)

// calls are the remembered ones, in the order in which they were made, which is
// that of their times, and are forgotten a chunk at a time, whole. They are found
// by their ids through chains of a hash table, the last call of each first. A
// chain ends where it comes to a number that is forgotten: nothing has to be taken
// out of it.
type calls struct {
	chunks []*callChunk
	first  uint32 // number of the first chunk
	last   uint32 // number of the last call; 0 is nobody's
	bytes  int64  // about what they take in a checkpoint
	shards [callShards][]head
}

// call is a remembered call.
type call struct {
	id     broker.ID
	answer [16]byte // a short one
	at     int64    // when it was made
	next   uint32   // in its chain, an older one
	long   uint16   // the number of a longer one among those of its chunk
	kind   callKind // 0: the slot is empty
	size   uint8    // of a short answer; longAnswer for others
}

const (
	longAnswer = 255

	callBits   = 10
	chunkCalls = 1 << callBits
	chunkMask  = 1<<(32-callBits) - 1 // of the numbers of chunks

	// callShards keep a call from paying for all chains that have to be longer: the
	// parts of the table grow one after the other.
	callShards = 256
	// callBytes is what a call takes in a checkpoint at most, beside its answer: those
	// after the first are less than callMemory apart.
	callBytes = 16 + 1 + 7 + 3
)

// callChunk holds calls that were made one after the other.
type callChunk struct {
	calls *[chunkCalls]call // without a pointer, so that the garbage collector passes over them
	long  [][]byte
	bytes int64
}

// head is a chain of the table: the number of its last call, and a filter that has
// a bit for each of them, so that a call that is new hardly ever looks at others.
type head uint64

func headOf(filter uint32, n uint32) head { return head(filter)<<32 | head(n) }
func (h head) call() uint32               { return uint32(h) }
func (h head) filter() uint32             { return uint32(h >> 32) }

// filterOf is the bit of a hash.
func filterOf(hash uint64) uint32 { return 1 << (hash >> 59) }

func (k *call) over(at int64) bool { return k.kind == 0 || at-k.at >= int64(callMemory) }

// chunk returns the place of a call's chunk in chunks, or one behind them.
func (c *calls) chunk(n uint32) int { return int((n>>callBits - c.first) & chunkMask) }

// live reports whether a call is still there.
func (c *calls) live(n uint32) bool { return n != 0 && c.chunk(n) < len(c.chunks) }

func (c *calls) at(n uint32) *call { return &c.chunks[c.chunk(n)].calls[n%chunkCalls] }

// answer returns the bytes of an answer, which stay the state's.
func (c *calls) answer(n uint32) []byte { return c.chunks[c.chunk(n)].answer(c.at(n)) }

func (c *callChunk) answer(k *call) []byte {
	if k.size == longAnswer {
		return c.long[k.long]
	}
	return k.answer[:k.size]
}

// len is about how many calls are there.
func (c *calls) len() int { return len(c.chunks) << callBits }

// find returns the number of a call that is remembered at a time, 0 for none.
func (c *calls) find(id broker.ID, at int64) uint32 {
	if c == nil {
		return 0
	}
	hash := hashOf(id)
	sh := c.shards[hash%callShards]
	if len(sh) == 0 {
		return 0
	}
	h := sh[hash/callShards&uint64(len(sh)-1)]
	if h.filter()&filterOf(hash) == 0 {
		return 0
	}
	for n := h.call(); c.live(n); {
		k := c.at(n)
		if k.id == id { // an older one is over, too
			if k.over(at) {
				return 0
			}
			return n
		}
		n = k.next
	}
	return 0
}

// add remembers a call, which is not earlier than any other.
func (c *calls) add(id broker.ID, kind callKind, at int64, answer []byte) {
	if c.last++; c.last == 0 {
		c.last = 1
	}
	n := c.last
	if c.chunk(n) == len(c.chunks) {
		c.chunks = append(c.chunks, &callChunk{calls: new([chunkCalls]call)})
	}
	chunk := c.chunks[c.chunk(n)]
	k := &chunk.calls[n%chunkCalls]
	*k = call{id: id, at: at, kind: kind, size: longAnswer}
	if len(answer) <= len(k.answer) {
		k.size = uint8(copy(k.answer[:], answer))
	} else {
		k.long = uint16(len(chunk.long))
		chunk.long = append(chunk.long, append(make([]byte, 0, len(answer)), answer...))
	}
	size := callBytes + int64(len(answer))
	chunk.bytes += size
	c.bytes += size
	hash := hashOf(id)
	c.fit(int(hash % callShards))
	c.link(k, n, hash)
}

// link puts a call, which is later than all others there, at the head of its chain.
func (c *calls) link(k *call, n uint32, hash uint64) {
	sh := c.shards[hash%callShards]
	h := &sh[hash/callShards&uint64(len(sh)-1)]
	k.next = h.call()
	filter := filterOf(hash)
	if c.live(k.next) {
		filter |= h.filter()
	}
	*h = headOf(filter, n)
}

// fit sees to it that a shard has a chain for each call up to four, and not many
// more.
func (c *calls) fit(shard int) {
	sh, each := c.shards[shard], c.len()/callShards
	grows := each*callShards > 2*len(sh)*(callShards+shard) // one shard after the other
	if !grows && (len(sh) <= 8 || 8*each > len(sh)) {
		return
	}
	var all []uint32
	for _, h := range sh {
		for n := h.call(); c.live(n); n = c.at(n).next {
			all = append(all, n)
		}
	}
	oldest := c.first << callBits
	slices.SortFunc(all, func(a, b uint32) int { return cmp.Compare(a-oldest, b-oldest) })
	c.shards[shard] = make([]head, max(4, 1<<bits.Len(uint(each))))
	for _, n := range all {
		k := c.at(n)
		c.link(k, n, hashOf(k.id))
	}
}

// dropFirst forgets the calls of the first chunk.
func (c *calls) dropFirst() {
	c.bytes -= c.chunks[0].bytes
	c.chunks[0] = nil
	c.chunks = c.chunks[1:]
	c.first = (c.first + 1) & chunkMask
}

// each hands out the calls that are remembered at a time, the oldest first.
func (c *calls) each(at int64, fn func(k *call, answer []byte)) {
	if c == nil {
		return
	}
	for _, chunk := range c.chunks {
		for i := range chunk.calls {
			if k := &chunk.calls[i]; !k.over(at) {
				fn(k, chunk.answer(k))
			}
		}
	}
}

// keepCall remembers a call of a frame.
func (s *State) keepCall(id broker.ID, kind callKind, base int64, answer []byte) {
	if s.calls == nil {
		s.calls = &calls{}
	}
	s.calls.add(id, kind, max(base, s.clock), answer) // so that no later one is over before an earlier
}

// forgetCalls forgets what is over at the time of the last frame, in whole chunks,
// the last one only when nothing else is left.
func (s *State) forgetCalls() {
	c := s.calls
	if c == nil {
		return
	}
	if c.at(c.last).over(s.clock) {
		s.calls = nil
		return
	}
	for last := &c.chunks[0].calls[chunkCalls-1]; last.kind != 0 && last.over(s.clock); last = &c.chunks[0].calls[chunkCalls-1] {
		c.dropFirst()
	}
}

// CallAdds is by how much CallBytes grows at most with an enqueue of n jobs.
func CallAdds(n int) int64 { return callBytes + 17*int64(n) }

// CallBytes is what remembered calls take in a checkpoint at most, but for some
// bytes of the first.
func (s *State) CallBytes() int64 {
	if s.calls == nil {
		return 0
	}
	return s.calls.bytes
}

// KnowsCall reports whether a call is remembered.
func (s *State) KnowsCall(now Now, id broker.ID) bool { return s.calls.find(id, now.Steady) != 0 }

// remember writes what a call answered.
func (s *State) remember(w *Writer, id broker.ID, kind callKind, answer []byte) {
	w.begin(recCall)
	w.id(id)
	w.byte(byte(kind))
	w.raw(answer)
	w.end()
	s.keepCall(id, kind, w.base, answer)
}

func (s *State) readCall(r *reader) error {
	id, kind, answer := r.callRec()
	if r.err == nil {
		s.keepCall(id, kind, r.base, answer)
	}
	return r.err
}

// callRec reads the fields of a call record. The answer is valid as long as the
// body.
func (r *reader) callRec() (id broker.ID, kind callKind, answer []byte) {
	id, kind = r.id(), callKind(r.byte())
	answer, r.b = r.b, nil
	if r.err == nil && !validAnswer(kind, answer) {
		r.bad("answer of a call")
	}
	return id, kind, answer
}
