package redisbroker

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// Get implements broker.Inspector.
func (b *Broker) Get(ctx context.Context, refs []broker.Ref) ([]broker.Job, error) {
	for try := 0; ; try++ {
		jobs, err := b.get(ctx, b.s.get, b.spread.now().refs(refs), 0)
		if !moved(err) || try == mostMoves {
			return named(jobs), err
		}
	}
}

// get reads jobs; with watched above 0 their queues tell of their ends for so long.
func (b *Broker) get(ctx context.Context, s *script, refs []broker.Ref, watched time.Duration) ([]broker.Job, error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	jobs := make([]broker.Job, len(refs))
	by := map[string][]int{}
	for i, r := range refs {
		jobs[i] = broker.Job{Queue: r.Queue, ID: r.ID}
		by[r.Queue] = append(by[r.Queue], i)
	}
	for queue, list := range by {
		if !validPlace(queue) {
			continue
		}
		for len(list) > 0 {
			part := list[:min(len(list), maxBatch)]
			left, err := b.getSome(ctx, queue, refs, part, watched, jobs)
			if err != nil {
				return nil, err
			}
			list = append(left, list[len(part):]...)
		}
	}
	return jobs, nil
}

// getSome reads jobs of one queue. It returns those that are to be asked for again,
// since the answer was too large.
func (b *Broker) getSome(ctx context.Context, queue string, refs []broker.Ref, part []int, watched time.Duration, jobs []broker.Job) (left []int, err error) {
	p := newPacker(broker.ID{}).u64(watched.Microseconds()).u32(len(part))
	for _, i := range part {
		p = p.id(refs[i].ID)
	}
	u, err := b.call(ctx, b.s.get, queue, p)
	if errors.Is(err, errNoQueue) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	for _, i := range part {
		switch u.u8() {
		case 1:
			jobs[i] = u.job(queue)
		case 2:
			left = append(left, i)
		}
	}
	return left, u.err
}

// place is where a walk through the jobs of a state stands.
type place struct{ at, seq uint64 }

func (p place) String() string { return hex.EncodeToString(packer(nil).u64(int64(p.at)).u48(p.seq)) }

func parsePlace(s string) (p place, err error) {
	if s == "" {
		return p, nil
	}
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != 14 {
		return p, fmt.Errorf("%w: cursor %.64q is not from a list", broker.ErrInvalid, s)
	}
	u := unpacker{b: raw}
	return place{u.uint(8), u.uint(6)}, nil
}

func (p packer) filter(f *broker.Filter) packer {
	p = p.str(f.Task).str(f.Tenant).str(f.Group).str(f.Key).text([]byte(f.ErrorContains))
	p = p.u64(micros(f.OlderThan)).u64(micros(f.NewerThan)).u32(len(f.IDs))
	for _, id := range f.IDs {
		p = p.id(id)
	}
	return p
}

// checkFilter refuses what is too long to be in any job, or to travel.
func checkFilter(f *broker.Filter) error {
	if len(f.Task) > broker.MaxNameBytes || max(len(f.Tenant), len(f.Group), len(f.Key)) > broker.MaxTagBytes {
		return fmt.Errorf("%w: a filter's task, tenant, group or key is longer than any can be", broker.ErrInvalid)
	}
	return nil
}

// examineOnce is how many records one script looks at.
const examineOnce = 500

// List implements broker.Inspector.
func (b *Broker) List(ctx context.Context, f broker.Filter, cursor string, n int) (page broker.Page, err error) {
	if err := jobstate.CheckList(&f, n); err != nil {
		return page, err
	}
	if err := b.alive(ctx); err != nil {
		return page, err
	}
	if broker.ValidName(f.Queue) != nil || checkFilter(&f) != nil {
		return page, nil
	}
	for try := 0; ; try++ {
		if parts := b.spread.now()[f.Queue]; parts != nil {
			page, err = b.listParts(ctx, parts, f, cursor, n)
		} else {
			page, err = b.list(ctx, f, cursor, n)
		}
		if !moved(err) || try == mostMoves {
			return page, err
		}
	}
}

// list is List for one queue, or part.
func (b *Broker) list(ctx context.Context, f broker.Filter, cursor string, n int) (page broker.Page, err error) {
	if strings.Contains(cursor, "*") && !isPart(f.Queue) {
		cursor = "" // from when the queue was spread: it has had no jobs since
	}
	at, err := parsePlace(cursor)
	if err != nil {
		return page, err
	}
	for seen := 0; ; {
		p := newPacker(broker.ID{}).u8(byte(f.States[0])).u64(int64(at.at)).u48(at.seq).u32(min(n-len(page.Jobs), maxBatch)).u32(examineOnce).filter(&f)
		u, err := b.call(ctx, b.s.list, f.Queue, p)
		if errors.Is(err, errNoQueue) {
			return page, nil
		} else if err != nil {
			return page, err
		}
		over := u.u8() == 1
		at = place{u.uint(8), u.uint(6)}
		seen += int(u.uint(4))
		for range u.count() {
			page.Jobs = append(page.Jobs, u.job(queueOf(f.Queue)))
		}
		if u.err != nil || over {
			return page, u.err
		}
		if len(page.Jobs) >= n || seen >= broker.MaxPageExamine {
			page.Cursor = at.String()
			return page, nil
		}
	}
}

// Counts implements broker.Inspector.
func (b *Broker) Counts(ctx context.Context, queue string) (all []broker.Count, err error) {
	if err := b.alive(ctx); err != nil {
		return nil, err
	}
	queues, err := b.only(ctx, queue)
	if err != nil || queue != "" && broker.ValidName(queue) != nil {
		return nil, err
	}
	for _, q := range queues {
		rows, err := b.countAll(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, rows...)
	}
	return all, nil
}

// count counts one queue, or part.
func (b *Broker) count(ctx context.Context, queue string) ([]broker.Count, error) {
	u, err := b.call(ctx, b.s.counts, queue, newPacker(broker.ID{}))
	if errors.Is(err, errNoQueue) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	return u.counts(queueOf(queue)), u.err
}

func (u *unpacker) counts(queue string) (rows []broker.Count) {
	of := broker.Count{Queue: queue, Paused: u.u8() == 1}
	of.Moving = said(broker.MoveState(u.u8()), string(u.text()))
	of.Depth, of.HighWater, of.Bytes = int64(u.uint(6)), int64(u.uint(6)), int64(u.uint(8))
	for range u.count() {
		c := of
		c.Task = u.str()
		for _, n := range []*int64{
			&c.Scheduled, &c.Ready, &c.Leased, &c.Done, &c.Dead, &c.Cancelled, &c.Totals.Enqueued, &c.Totals.Claimed,
			&c.Totals.Acked, &c.Totals.Failed, &c.Totals.Expired, &c.Totals.Died, &c.Totals.Cancelled, &c.Totals.Deleted,
		} {
			*n = int64(u.uint(6))
		}
		if c.Totals.Enqueued > 0 { // else somebody has only waited for it
			rows = append(rows, c)
		}
	}
	if len(rows) == 0 && (of.Paused || of.Moving != "") {
		return []broker.Count{of}
	}
	slices.SortFunc(rows, func(a, b broker.Count) int { return cmp.Compare(a.Task, b.Task) })
	return rows
}

// changeOnce is how many jobs one step of a command changes.
const changeOnce = 128

// Apply implements broker.Broker. One step changes at most 128 jobs.
func (b *Broker) Apply(ctx context.Context, c broker.Call, cmd broker.Command) (step broker.Step, err error) {
	if err := jobstate.CheckCommand(&cmd); err != nil {
		return step, err
	}
	if err := b.alive(ctx); err != nil {
		return step, err
	}
	if checkFilter(&cmd.Filter) != nil {
		return step, nil
	}
	for try := 0; ; try++ {
		if parts := b.spread.now()[cmd.Filter.Queue]; parts != nil {
			step, err = b.applyParts(ctx, c, parts, cmd)
		} else {
			step, err = b.apply(ctx, c, cmd)
		}
		if !moved(err) || try == mostMoves {
			return step, err
		}
	}
}

// apply is Apply for one queue, or part.
func (b *Broker) apply(ctx context.Context, c broker.Call, cmd broker.Command) (step broker.Step, err error) {
	if strings.Contains(cmd.Cursor, "*") && !isPart(cmd.Filter.Queue) {
		cmd.Cursor = "" // from when the queue was spread: it has had no jobs since
	}
	state, at, err := parseCursor(cmd.Cursor)
	if err != nil {
		return step, err
	}
	bits := 0
	for _, s := range cmd.Filter.States {
		if s <= broker.Cancelled {
			bits |= 1 << s
		}
	}
	if len(cmd.Filter.States) > 0 && bits == 0 {
		return step, nil
	}
	limit := min(cmp.Or(cmd.Limit, changeOnce), changeOnce)
	p := newPacker(c.ID).u8(byte(cmd.Kind)).u8(byte(bits)).u32(limit).u32(examineOnce).u8(state).u64(int64(at.at)).u48(at.seq)
	run := b.call
	if cmd.Kind == broker.PauseQueue {
		run = b.change // it need not exist yet
	}
	u, err := run(ctx, b.s.apply, cmd.Filter.Queue, p.str(cmd.Reason).filter(&cmd.Filter))
	if errors.Is(err, errNoQueue) {
		return step, nil
	} else if err != nil {
		return step, err
	}
	step.Changed = int(u.uint(4))
	if state = u.u8(); state > 0 {
		step.Cursor = fmt.Sprintf("%d:%s", state, place{u.uint(8), u.uint(6)})
	}
	return step, u.err
}

func parseCursor(s string) (state byte, at place, err error) {
	if s == "" {
		return 0, at, nil
	}
	number, rest, ok := strings.Cut(s, ":")
	if !ok || len(number) != 1 || number[0] < '1' || number[0] > '6' {
		return 0, at, fmt.Errorf("%w: cursor %.64q is not from this command", broker.ErrInvalid, s)
	}
	at, err = parsePlace(rest)
	return number[0] - '0', at, err
}

// Maintain implements broker.Broker.
func (b *Broker) Maintain(ctx context.Context) (after time.Duration, err error) {
	if err := b.alive(ctx); err != nil {
		return 0, err
	}
	places, err := b.places(ctx)
	if err != nil {
		return 0, err
	}
	b.keepSettingsAlike(ctx)
	after = time.Minute
	b.mu.Lock()
	from, _ := slices.BinarySearch(places, b.stuck+"\x00") // its node may be away for long
	b.mu.Unlock()
	var failed error
	for _, q := range slices.Concat(places[from:], places[:from]) {
		u, err := b.call(ctx, b.s.maintain, q, newPacker(broker.ID{}).u32(maxBatch/2).u8(1))
		if nowhere(err) {
			continue
		} else if errors.Is(err, broker.ErrUnsupported) { // it is of a newer version, and the others are not
			failed = errors.Join(failed, err)
			continue
		} else if err != nil {
			b.mu.Lock()
			b.stuck = q
			b.mu.Unlock()
			return 0, errors.Join(failed, err)
		}
		more, next := u.u8() == 1, time.Duration(u.uint(8))*time.Microsecond
		if next > 0 {
			after = min(after, next)
		}
		if more {
			after = 0
		}
		var box []entry
		for range u.count() {
			no := u.take(6)
			e := unpacker{b: u.text()}
			box = append(box, entry{no: no, call: e.id(), queue: e.str(), packed: e.b})
		}
		if u.err != nil {
			return 0, u.err
		}
		b.deliverAll(ctx, q, box)
	}
	return after, failed
}
