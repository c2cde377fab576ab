package redisbroker

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spoolq/spool/broker"
)

// A part of a queue that is spread has a name that no queue can have: that of the
// queue, how many parts there are, its number, and what makes its slot be where it
// should, with a * before each. It is a queue for scripts and the transport, and
// nobody else hears of it.
//
//	jobs*3*0     has the keys of the queue jobs: those that are there when it is not spread
//	jobs*3*1*17  has keys of its own, with that name for a tag

const (
	leastParts = 2
	// MaxSpread is how many parts a queue can have.
	MaxSpread = 16
)

// partNames names the parts of a queue.
func partNames(queue string, n int) []string {
	names := make([]string, n)
	first := slotOf(queue)
	for i := range names {
		names[i] = fmt.Sprintf("%s*%d*%d", queue, n, i)
		if i > 0 {
			names[i] += "*" + salt(names[i]+"*", (first+i*slots/n)%slots)
		}
	}
	return names
}

// salt is what makes a name fall near a slot. The slots of the parts are as far from
// one another as can be, so that nodes that share them evenly share the parts, too.
func salt(name string, near int) string {
	best, away := "", slots
	for k := range 256 {
		s := strconv.Itoa(k)
		d := slotOf(name+s) - near
		d = min((d+slots)%slots, (slots-d)%slots)
		if d < away {
			best, away = s, d
		}
	}
	return best
}

// slots is how many slots a cluster has.
const slots = 1 << 14

// slotOf is the slot of the keys with a tag: its CRC-16/XMODEM.
func slotOf(tag string) int {
	crc := uint16(0)
	for i := range len(tag) {
		crc ^= uint16(tag[i]) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slots
}

// partOf reads the name of a part; n is 0 for that of a queue.
func partOf(name string) (queue string, n, i int) {
	if !isPart(name) {
		return name, 0, 0
	}
	f := strings.Split(name, "*")
	if len(f) < 3 {
		return f[0], 0, 0
	}
	n, err := strconv.Atoi(f[1])
	if err != nil || n < leastParts || n > MaxSpread {
		return f[0], 0, 0 // of another version
	}
	i, _ = strconv.Atoi(f[2])
	return f[0], n, i
}

func isPart(name string) bool { return strings.IndexByte(name, '*') > 0 }

// queueOf is the name of a queue, or that of the queue of a part.
func queueOf(name string) string {
	if at := strings.IndexByte(name, '*'); at > 0 {
		return name[:at]
	}
	return name
}

// tagOf is the tag of the keys of a queue or part, and the letter of its
// configuration: see lua/spread.lua.
func tagOf(name string) (tag, letter string) {
	queue, n, i := partOf(name)
	switch {
	case n == 0:
		return name, "c"
	case i == 0:
		return queue, string(rune('0' + n))
	}
	return name, string(rune('0' + n))
}

// validPlace says whether something is the name of a queue, or of a part.
func validPlace(name string) bool { return broker.ValidName(queueOf(name)) == nil }

// hashed decides where a job is. It is the same for every process, and for ever; but
// tests that put all in one part.
var hashed = func(text []byte) uint64 {
	x := uint64(14695981039346656037) // FNV-1a, and then every bit counts in remainders
	for _, b := range text {
		x = (x ^ uint64(b)) * 1099511628211
	}
	x ^= x >> 33
	x *= 0xff51afd7ed558ccd
	return x ^ x>>33
}

// partOfID is the number of the part in which a job is.
func partOfID(id broker.ID, n int) int { return int(hashed(id[:]) % uint64(n)) }

// partOfName is the number of the part that keeps a key of a task, or an ordered
// group.
func partOfName(n int, kind string, names ...string) int {
	text := []byte(kind)
	for _, s := range names {
		text = append(append(text, 0), s...)
	}
	return int(hashed(text) % uint64(n))
}

// fitID changes an id so that its job is in a part: the same id always in the same
// way, so that a repeated call means the same jobs. Its mark stays (broker.ID.Mark).
func fitID(id broker.ID, n, part int) broker.ID {
	for range 1 << 16 {
		if partOfID(id, n) == part {
			return id
		}
		if id[12]++; id[12] == 0 {
			id[11]++
		}
	}
	panic("redisbroker: no id is in part " + strconv.Itoa(part)) // each is with a chance of 1 in n
}
