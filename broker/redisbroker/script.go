package redisbroker

import (
	"embed"
	"encoding/binary"
	"strings"
	"sync"
)

//go:embed lua/*.lua
var lua embed.FS

// The parts of which scripts are made, each a file of one noun. A script has
// those that it needs, in this order.
const (
	partsAll   = "base time queue count job calls wake plain turn stand lane gate key life moved main alive"
	partsAdd   = partsAll + " add"
	partsClaim = partsAll + " pick"
	partsWalk  = partsAll + " walk"
)

// scripts are the transitions, as a broker runs them.
type scripts struct {
	enqueue, claim, settle, extend, get, list, apply, counts, tick, settings, configure,
	maintain, outbox, deliver, worker, registry, held, explain, idle, ended,
	moves, move, take, put, adopt, spread *script
}

// usualScripts are those that a broker runs: they are made once.
var usualScripts = sync.OnceValue(func() *scripts { return newScripts("") })

// newScripts makes the scripts. clock is the source of the part that reads the
// time: tests have another.
func newScripts(clock string) *scripts {
	make := func(name, parts string, flags string, most int, weigh func([]byte) int) *script {
		source := join(append(strings.Fields(parts), name), func(part string) string {
			if part == "time" && clock != "" {
				return clock
			}
			text, err := lua.ReadFile("lua/" + part + ".lua")
			if err != nil {
				panic("redisbroker: " + err.Error()) // it is embedded
			}
			return string(text)
		})
		return &script{name: name, source: "#!lua" + flags + "\n" + source, most: most, weigh: weigh}
	}
	// What ends, keeps or reads what is there passes at the memory limit, too.
	const passes = " flags=allow-oom"
	all := &scripts{
		enqueue:   make("enqueue", partsAdd+" room", "", 256, weighAt(17)),
		claim:     make("claim", partsClaim, passes, 256, weighAt(17)),
		settle:    make("settle", partsAdd, passes, 256, weighAt(16)),
		extend:    make("extend", partsAll, passes, 512, weighAt(24)),
		get:       make("get", partsAll, passes, 256, weighAt(24)),
		list:      make("list", partsWalk, passes, 1, nil),
		apply:     make("apply", partsWalk, passes, 1, nil),
		counts:    make("counts", partsAll, passes, 16, nil),
		tick:      make("tick", partsAdd, "", 4, nil),
		settings:  make("settings", partsAll, passes, 4, nil),
		configure: make("configure", partsAll+" govern", "", 1, nil),
		maintain:  make("maintain", partsAll+" repair", passes, 1, nil),
		outbox:    make("outbox", partsAll, passes, 16, nil),
		deliver:   make("deliver", partsAdd, "", 64, nil),
		worker:    make("worker", partsAll, passes, 16, nil),
		registry:  make("registry", "base alive", passes, 16, nil),
		held:      make("held", partsAll, passes, 1, nil),
		explain:   make("explain", partsWalk+" pick", passes, 1, nil),
		idle:      make("idle", partsAll, passes, 64, nil),
		ended:     make("get", partsAll, passes, 256, weighAt(24)),
		moves:     make("moves", partsAll, passes, 16, nil),
		move:      make("move", partsAll, passes, 1, nil),
		take:      make("take", partsAll, passes, 1, nil),
		put:       make("put", partsAll, "", 1, nil),
		adopt:     make("adopt", partsAll+" govern", passes, 1, nil),
		spread:    make("spread", partsAll, passes, 1, nil),
	}
	all.enqueue.flights = 2
	// What these answer is acknowledged; a claim may be forgotten, and a reader
	// only looks.
	for _, s := range []*script{all.enqueue, all.settle, all.apply, all.tick, all.configure, all.deliver, all.ended, all.move, all.take, all.put, all.adopt, all.spread} {
		s.durable = true
	}
	return all
}

// weighAt weighs a call by the number that it has at a place.
func weighAt(at int) func(call []byte) int {
	return func(call []byte) int {
		if len(call) < at+4 {
			return 1
		}
		return int(min(binary.BigEndian.Uint32(call[at:]), 1<<20)) + 1
	}
}
