package filebroker

import (
	"encoding/hex"
	"sync/atomic"

	"github.com/spoolq/spool/internal/rare"
)

// Words of a slot. Slots fill the second half of CONTROL.
const (
	slotMember = iota // the handle's name as a number; 0: free
	slotIdle          // idleBits: claims that wait
	slotAwait         // awaitBits: what is waited for beside claims
	slotTaking        // filter of what registered workers take
	slotWords
)

const (
	idleWorkers uint64 = 1 << iota // claims of registered workers wait
	idleOthers                     // claims of callers that are not registered wait
)

const (
	awaitJobs     uint64 = 1 << iota // jobs are awaited, or their events watched
	awaitSettings                    // changes of settings are watched
)

func slotName(member string) uint64 {
	b, err := hex.DecodeString(member)
	if err != nil || len(b) != 8 {
		return 0
	}
	var v uint64
	for _, c := range b {
		v = v<<8 | uint64(c)
	}
	return v
}

// slot returns the words of a handle's slot, nil when it has none. With take,
// a free one or that of a dead handle is taken; LOCK is held then.
func (b *handle) slot(member string, take bool) []uint64 {
	words, name := b.log.Shared(), slotName(member)
	for i := 0; i+slotWords <= len(words); i += slotWords {
		if atomic.LoadUint64(&words[i]) == name {
			return words[i : i+slotWords]
		}
	}
	if !take {
		return nil
	}
	for i := 0; i+slotWords <= len(words); i += slotWords {
		owner := atomic.LoadUint64(&words[i+slotMember])
		var raw [8]byte
		for k := range raw {
			raw[k] = byte(owner >> (56 - 8*k))
		}
		if owner == 0 || !b.mayLive(hex.EncodeToString(raw[:])) {
			if owner != 0 {
				rare.Reached(rare.SlotTaken)
			}
			atomic.StoreUint64(&words[i+slotIdle], 0)
			atomic.StoreUint64(&words[i+slotAwait], 0)
			atomic.StoreUint64(&words[i+slotTaking], 0)
			atomic.StoreUint64(&words[i+slotMember], name)
			return words[i : i+slotWords]
		}
	}
	return nil
}

// setIdle says in the shared page that claims of this handle wait. LOCK is
// held, and the state shows that there is nothing for them: whoever changes
// that comes later, and sees it.
func (b *handle) setIdle(bits uint64) {
	if s := b.slot(b.member.name, true); s != nil {
		atomic.OrUint64(&s[slotIdle], bits)
	}
}

// setAwait says what this handle waits for beside claims.
func (b *handle) setAwait() {
	if s := b.slot(b.member.name, false); s != nil {
		var v uint64
		if b.hub.Awaiting() {
			v |= awaitJobs
		}
		if b.hub.Governed() {
			v |= awaitSettings
		}
		atomic.StoreUint64(&s[slotAwait], v)
	}
}

func nameOf(slot uint64) string {
	var raw [8]byte
	for k := range raw {
		raw[k] = byte(slot >> (56 - 8*k))
	}
	return hex.EncodeToString(raw[:])
}
