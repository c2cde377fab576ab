package jobstate

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// CallMemory is for how long after its frame a call is remembered, on the
// broker's clock.
const CallMemory = 2 * time.Minute

// calls are the remembered ones, in the order in which they were made, which is
// that of their times. They are found by their ids through chains of a hash
// table, and forgotten a chunk at a time.
type calls struct {
	chunks []*callChunk
	first  uint32 // number of the first chunk
	last   uint32 // number of the last call; 0 is nobody's
	bytes  int64  // about what they take in a checkpoint
	shards [callShards]callShard
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

	// callShards keep a call from paying for all chains that have to be longer.
	callShards = 256
	// maxForget is how many chunks one frame forgets beside its own business.
	maxForget = 8
	// callBytes is about what a call takes in a checkpoint beside its answer.
	callBytes = 22
)

// callChunk holds calls that were made one after the other.
type callChunk struct {
	calls [chunkCalls]call
	long  [][]byte
}

// callShard is the part of the table for ids whose hashes begin alike: the last
// call of each chain.
type callShard struct {
	heads []uint32
	n     int
}

func (k *call) over(at int64) bool { return k.kind == 0 || at-k.at >= int64(CallMemory) }

// chunk returns the place of a call's chunk in chunks.
func (c *calls) chunk(n uint32) int { return int((n>>callBits - c.first) & (1<<(32-callBits) - 1)) }

func (c *calls) at(n uint32) *call { return &c.chunks[c.chunk(n)].calls[n%chunkCalls] }

// answer returns the bytes of an answer, which stay the state's.
func (c *calls) answer(n uint32) []byte {
	k := c.at(n)
	if k.size == longAnswer {
		return c.chunks[c.chunk(n)].long[k.long]
	}
	return k.answer[:k.size]
}

// chain returns the place of the last call whose hash is like that of id.
func (c *calls) chain(id broker.ID) (sh *callShard, slot int) {
	h := hashOf(id)
	sh = &c.shards[h%callShards]
	if len(sh.heads) == 0 {
		return sh, -1
	}
	return sh, int(h/callShards) & (len(sh.heads) - 1)
}

// find returns the number of a call that is remembered at a time, 0 for none.
func (c *calls) find(id broker.ID, at int64) uint32 {
	if c == nil {
		return 0
	}
	sh, slot := c.chain(id)
	if slot < 0 {
		return 0
	}
	for n := sh.heads[slot]; n != 0; {
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

// add remembers a call, which is later than all others.
func (c *calls) add(id broker.ID, kind callKind, at int64, answer []byte) {
	if c.last++; c.last == 0 {
		c.last = 1
	}
	n := c.last
	if c.chunk(n) == len(c.chunks) {
		c.chunks = append(c.chunks, &callChunk{})
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
	c.bytes += callBytes + int64(len(answer))
	sh, _ := c.chain(id)
	if sh.n++; sh.n > len(sh.heads) {
		c.resize(sh, max(4, 2*len(sh.heads)))
	}
	_, slot := c.chain(id)
	k.next, sh.heads[slot] = sh.heads[slot], n
}

// resize gives a shard so many chains. In each the later calls stay first.
func (c *calls) resize(sh *callShard, size int) {
	old := sh.heads
	sh.heads = make([]uint32, size)
	last := make([]uint32, size)
	for _, n := range old {
		for n != 0 {
			k := c.at(n)
			next := k.next
			_, slot := c.chain(k.id)
			k.next = 0
			if last[slot] == 0 {
				sh.heads[slot] = n
			} else {
				c.at(last[slot]).next = n
			}
			last[slot], n = n, next
		}
	}
}

// dropFirst forgets the calls of the first chunk.
func (c *calls) dropFirst() {
	for i := range c.chunks[0].calls {
		if k := &c.chunks[0].calls[i]; k.kind != 0 {
			n := c.first<<callBits | uint32(i)
			c.bytes -= callBytes + int64(len(c.answer(n)))
			c.unlink(k.id, n)
		}
	}
	c.chunks[0] = nil
	c.chunks = c.chunks[1:]
	c.first = (c.first + 1) & (1<<(32-callBits) - 1)
}

// unlink takes a call, which is the last of its chain, out of it.
func (c *calls) unlink(id broker.ID, n uint32) {
	sh, slot := c.chain(id)
	link := &sh.heads[slot]
	for *link != n {
		link = &c.at(*link).next
	}
	*link = c.at(n).next
	sh.n--
	switch {
	case sh.n == 0:
		sh.heads = nil
	case 8*sh.n < len(sh.heads):
		c.resize(sh, len(sh.heads)/4)
	}
}

// each hands out the calls that are remembered at a time, the oldest first.
func (c *calls) each(at int64, fn func(k *call, answer []byte)) {
	if c == nil {
		return
	}
	for _, chunk := range c.chunks {
		for i := range chunk.calls {
			k := &chunk.calls[i]
			if k.over(at) {
				continue
			}
			if k.size == longAnswer {
				fn(k, chunk.long[k.long])
			} else {
				fn(k, k.answer[:k.size])
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

// forgetCalls forgets what is over at the time of the last frame, in whole
// chunks: all at once, or some of it.
func (s *State) forgetCalls() {
	c := s.calls
	if c == nil {
		return
	}
	if c.at(c.last).over(s.clock) {
		s.calls = nil
		return
	}
	for range maxForget {
		if last := &c.chunks[0].calls[chunkCalls-1]; last.kind == 0 || !last.over(s.clock) {
			return
		}
		c.dropFirst()
	}
}

// CallBytes is about what remembered calls take in a checkpoint.
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
