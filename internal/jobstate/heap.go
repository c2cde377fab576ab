package jobstate

// item places a job in an ordered structure. It is stale, and passed over,
// once the job has moved on: nothing is ever searched for and removed.
type item struct {
	at  int64
	seq uint64 // of the job
	ref ref
	ver uint32 // of its life
}

func (s *State) item(j *job, at int64) item { return item{at, j.seq(), j.self, s.lifeOf(j).ver} }

func (a *item) before(b *item) bool {
	return a.at < b.at || a.at == b.at && a.seq < b.seq
}

func (s *State) live(it *item) bool {
	j := s.jobs.at(it.ref)
	return j.seq() == it.seq && s.lifeOf(j).ver == it.ver
}

// heap is a binary heap of items, smallest first, with lazy removal.
type heap []item

func (h *heap) push(it item) {
	a := append(*h, it)
	i := len(a) - 1
	for i > 0 {
		p := (i - 1) / 2
		if !it.before(&a[p]) {
			break
		}
		a[i] = a[p]
		i = p
	}
	a[i] = it
	*h = a
}

func (h *heap) pop() {
	a := *h
	n := len(a) - 1
	last := a[n]
	a = a[:n]
	*h = a
	if n == 0 {
		return
	}
	a.sift(0, last)
}

// sift puts it at i or below.
func (h heap) sift(i int, it item) {
	for {
		c := 2*i + 1
		if c >= len(h) {
			break
		}
		if c+1 < len(h) && h[c+1].before(&h[c]) {
			c++
		}
		if !h[c].before(&it) {
			break
		}
		h[i] = h[c]
		i = c
	}
	h[i] = it
}

// top returns the smallest live item, or nil.
func (h *heap) top(s *State) *item {
	for len(*h) > 0 {
		if s.live(&(*h)[0]) {
			return &(*h)[0]
		}
		h.pop()
	}
	return nil
}

// trim drops the stale items when they outnumber the live ones, which are at
// most n, so that the heap's size follows what is live.
func (h *heap) trim(s *State, n int) {
	if len(*h) <= 2*n+64 {
		return
	}
	kept := (*h)[:0]
	for _, it := range *h {
		if s.live(&it) {
			kept = append(kept, it)
		}
	}
	*h = kept
	for i := len(kept)/2 - 1; i >= 0; i-- {
		kept.sift(i, kept[i])
	}
}
