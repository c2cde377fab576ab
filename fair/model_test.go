package fair

import (
	"math/big"
	"slices"
)

// scheduler is what both schedulers are to their user.
type scheduler interface {
	SetWeight(key, weight int) error
	Add(key int, value int)
	AddCost(key int, value int, cost int64) error
	Next() (int, bool)
	Len() int
}

// roundRobin is deficit round robin as the paper has it, round by round, on
// slices.
type roundRobin struct {
	quantum int64
	weights map[int]int64
	lines   map[int][]item[int]
	credit  map[int]int64
	ring    []int
	begun   bool // the first of the ring had its quantum
}

func newRoundRobin(quantum int) *roundRobin {
	return &roundRobin{quantum: int64(quantum), weights: map[int]int64{}, lines: map[int][]item[int]{}, credit: map[int]int64{}}
}

func (m *roundRobin) SetWeight(key, weight int) error {
	m.weights[key] = int64(weight)
	return checkWeight(weight)
}

func (m *roundRobin) Add(key, value int) {
	if err := m.AddCost(key, value, 1); err != nil {
		panic(err)
	}
}

func (m *roundRobin) AddCost(key, value int, cost int64) error {
	if len(m.lines[key]) == 0 {
		m.ring = append(m.ring, key)
	}
	m.lines[key] = append(m.lines[key], item[int]{value, cost})
	return checkCost(cost)
}

func (m *roundRobin) Next() (int, bool) {
	if len(m.ring) == 0 {
		return 0, false
	}
	for {
		key := m.ring[0]
		if !m.begun {
			m.begun = true
			m.credit[key] += m.quantum * max(1, m.weights[key])
		}
		if it := m.lines[key][0]; it.cost <= m.credit[key] {
			m.credit[key] -= it.cost
			if m.lines[key] = m.lines[key][1:]; len(m.lines[key]) == 0 {
				m.credit[key], m.begun, m.ring = 0, false, m.ring[1:]
			}
			return it.value, true
		}
		m.begun, m.ring = false, append(m.ring[1:], key)
	}
}

func (m *roundRobin) Len() (n int) {
	for _, line := range m.lines {
		n += len(line)
	}
	return n
}

// startTime is start-time fair queueing on exact fractions. It forgets nothing
// but at the end of a busy period.
type startTime struct {
	now     *big.Rat
	weights map[int]int64
	lines   map[int][]item[int]
	start   map[int]*big.Rat // of the key's next service
	order   []int            // the busy keys, by how long they wait for their turn
}

func newStartTime() *startTime {
	return &startTime{now: new(big.Rat), weights: map[int]int64{}, lines: map[int][]item[int]{}, start: map[int]*big.Rat{}}
}

func (m *startTime) SetWeight(key, weight int) error {
	m.weights[key] = int64(weight)
	return checkWeight(weight)
}

func (m *startTime) Add(key, value int) {
	if err := m.AddCost(key, value, 1); err != nil {
		panic(err)
	}
}

func (m *startTime) AddCost(key, value int, cost int64) error {
	if len(m.lines[key]) == 0 {
		m.order = append(m.order, key)
		if m.start[key] == nil || m.start[key].Cmp(m.now) < 0 {
			m.start[key] = m.now
		}
	}
	m.lines[key] = append(m.lines[key], item[int]{value, cost})
	return checkCost(cost)
}

func (m *startTime) Next() (int, bool) {
	if len(m.order) == 0 {
		return 0, false
	}
	first := slices.MinFunc(m.order, func(a, b int) int { return m.start[a].Cmp(m.start[b]) })
	m.now = m.start[first]
	it := m.lines[first][0]
	m.start[first] = new(big.Rat).Add(m.now, big.NewRat(it.cost, max(1, m.weights[first])))
	m.order = slices.DeleteFunc(m.order, func(k int) bool { return k == first })
	if m.lines[first] = m.lines[first][1:]; len(m.lines[first]) > 0 {
		m.order = append(m.order, first)
	}
	if len(m.order) == 0 {
		for _, s := range m.start {
			if s.Cmp(m.now) > 0 {
				m.now = s
			}
		}
	}
	return it.value, true
}

func (m *startTime) Len() (n int) {
	for _, line := range m.lines {
		n += len(line)
	}
	return n
}
