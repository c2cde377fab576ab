package crash

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// history is what all ledgers say of one job.
type history struct {
	kind     kind
	tried    bool // somebody called to enqueue it
	acked    bool // and was told that it is there
	claims   []claim
	trials   []settled // settlements that somebody called for
	settled  []settled // and those that were acknowledged
	commands []commanded
}

// claim is a lease as its worker saw it.
type claim struct {
	token   broker.Token
	attempt int
}

type settled struct {
	token broker.Token
	kind  string       // as broker.SettleKind writes it
	state broker.State // 0 when not acknowledged
}

type commanded struct {
	kind    broker.CommandKind
	acked   bool
	changed int
}

// batch is one call of a producer: all of its jobs are there, or none.
type batch struct {
	ids   []broker.ID
	key   string // queue/key of a keyed job, else "-"
	acked bool
}

// book is what all ledgers say.
type book struct {
	jobs    map[broker.ID]*history
	batches []*batch
	keys    map[string]map[broker.ID]bool // the ids that were answered for a key
	refused int
	claims  int
	settles int
	faults  []string
}

// readBook reads every ledger of a directory.
func readBook(dir string) (*book, error) {
	names, err := ledgers(dir)
	if err != nil {
		return nil, err
	}
	b := &book{jobs: map[broker.ID]*history{}, keys: map[string]map[broker.ID]bool{}}
	for _, name := range names {
		r := &reader{book: b, calls: map[string]*batch{}}
		if err := readLedger(name, r.line); err != nil {
			return nil, err
		}
	}
	return b, nil
}

func (b *book) job(id broker.ID) *history {
	h := b.jobs[id]
	if h == nil {
		h = &history{}
		b.jobs[id] = h
	}
	return h
}

// reader adds one ledger to a book.
type reader struct {
	book  *book
	calls map[string]*batch // by the ledger's number of the call
}

func (r *reader) line(l line) error {
	if l.verb == fault {
		r.book.faults = append(r.book.faults, strings.Join(l.fields, " "))
		return nil
	}
	if l.verb == ackEnqueue {
		return r.ackEnqueue(l.fields)
	}
	f, err := parseFields(l)
	if err != nil {
		return err
	}
	switch l.verb {
	case tryEnqueue:
		r.tryEnqueue(f)
	case claimed:
		r.book.claims++
		h := r.book.job(f.id)
		h.claims = append(h.claims, claim{f.token, f.attempt})
	case trySettle:
		h := r.book.job(f.id)
		h.trials = append(h.trials, settled{f.token, f.kind, 0})
	case ackSettle:
		r.book.settles++
		h := r.book.job(f.id)
		h.settled = append(h.settled, settled{f.token, f.kind, f.state})
	case refused:
		r.book.refused++
	case tryCommand:
		h := r.book.job(f.id)
		h.commands = append(h.commands, commanded{kind: f.command})
	case ackCommand:
		h := r.book.job(f.id)
		last := &h.commands[len(h.commands)-1]
		last.acked, last.changed = true, f.changed
	}
	return nil
}

func (r *reader) tryEnqueue(f fields) {
	h := r.book.job(f.id)
	h.tried, h.kind = true, kind(f.kind)
	c := r.calls[f.call]
	if c == nil {
		c = &batch{key: f.key}
		r.calls[f.call] = c
		r.book.batches = append(r.book.batches, c)
	}
	c.ids = append(c.ids, f.id)
}

// ackEnqueue notes the ids that a call was answered. Only a keyed job may be
// answered another id than its own.
func (r *reader) ackEnqueue(fields []string) error {
	c := r.calls[fields[0]]
	if c == nil || len(fields)-1 != len(c.ids) {
		return fmt.Errorf("call %s is answered with %d ids", fields[0], len(fields)-1)
	}
	c.acked = true
	for i, s := range fields[1:] {
		id, err := broker.ParseID(s)
		if err != nil {
			return err
		}
		switch {
		case c.key != "-":
			if r.book.keys[c.key] == nil {
				r.book.keys[c.key] = map[broker.ID]bool{}
			}
			r.book.keys[c.key][id] = true
		case id != c.ids[i]:
			r.book.faults = append(r.book.faults, fmt.Sprintf("the enqueue of %s was answered %s", c.ids[i], id))
		}
		r.book.job(id).acked = true
	}
	return nil
}

// fields are the fields of any line, those that its verb has.
type fields struct {
	id      broker.ID
	call    string
	kind    string // of a job, or of a settlement
	key     string
	token   broker.Token
	attempt int
	state   broker.State
	command broker.CommandKind
	changed int
}

// layouts name the fields of each verb, in their order.
var layouts = map[string][]string{
	tryEnqueue: {"call", "id", "kind", "key"},
	claimed:    {"id", "token", "attempt", "begun"},
	trySettle:  {"id", "token", "kind"},
	ackSettle:  {"id", "token", "kind", "state"},
	refused:    {"id", "token"},
	tryCommand: {"id", "command"},
	ackCommand: {"id", "command", "changed"},
}

func parseFields(l line) (f fields, err error) {
	layout, ok := layouts[l.verb]
	if !ok || len(layout) != len(l.fields) {
		return f, fmt.Errorf("a line %q with %d fields", l.verb, len(l.fields))
	}
	for i, name := range layout {
		if err := f.set(name, l.fields[i]); err != nil {
			return f, fmt.Errorf("a line %q with %s %q: %w", l.verb, name, l.fields[i], err)
		}
	}
	return f, nil
}

func (f *fields) set(name, v string) (err error) {
	var n int
	switch name {
	case "id":
		f.id, err = broker.ParseID(v)
	case "call":
		f.call = v
	case "kind":
		f.kind = v
	case "key":
		f.key = v
	case "token":
		f.token, err = broker.ParseToken(v)
	case "attempt":
		f.attempt, err = strconv.Atoi(v)
	case "state":
		f.state, err = broker.ParseState(v)
	case "command":
		n, err = strconv.Atoi(v)
		f.command = broker.CommandKind(n)
	case "changed":
		f.changed, err = strconv.Atoi(v)
	case "begun":
		_, err = time.ParseDuration(v + "ns")
	}
	return err
}

// command returns the job's command of a kind, if there was one.
func (h *history) command(k broker.CommandKind) (commanded, bool) {
	for _, c := range h.commands {
		if c.kind == k {
			return c, true
		}
	}
	return commanded{}, false
}

// final returns the acknowledged settlements that ended the job, the largest
// token last.
func (h *history) final() []settled {
	var ends []settled
	for _, s := range h.settled {
		if s.state.Final() {
			ends = append(ends, s)
		}
	}
	slices.SortFunc(ends, func(a, b settled) int {
		if a.token < b.token {
			return -1
		}
		return 1
	})
	return ends
}

// triedFor reports whether somebody called for a settlement of that kind with
// that token.
func (h *history) triedFor(kind broker.SettleKind, token broker.Token) bool {
	return slices.ContainsFunc(h.trials, func(s settled) bool { return s.kind == kind.String() && s.token == token })
}

// largest returns the largest token that a worker saw.
func (h *history) largest() (t broker.Token) {
	for _, c := range h.claims {
		t = max(t, c.token)
	}
	return t
}
