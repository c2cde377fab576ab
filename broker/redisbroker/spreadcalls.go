package redisbroker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// enqueueIn adds jobs to a queue, or to its parts. What goes to one part is one
// commit; batches, which may be refused, come first.
func (b *Broker) enqueueIn(ctx context.Context, c broker.Call, parts []string, queue string, jobs []broker.NewJob) ([]broker.Enqueued, error) {
	if parts == nil {
		return b.enqueue(ctx, c, queue, jobs)
	}
	if len(jobs) == 0 {
		return b.enqueue(ctx, c, parts[0], jobs)
	}
	p, err := placeJobs(c, queue, len(parts), jobs)
	if err != nil {
		return nil, err
	}
	answers := make([]broker.Enqueued, len(jobs))
	added := 0
	for _, part := range p.order() {
		var of []int
		var some []broker.NewJob
		for i := range p.jobs {
			if p.at[i] == part {
				of, some = append(of, i), append(some, p.jobs[i])
			}
		}
		got, err := b.enqueue(ctx, c, parts[part], some)
		if err != nil && added > 0 && !moved(err) {
			return nil, fmt.Errorf("%w: %d of the call's %d jobs are in other parts of queue %s and were added, then: %w", broker.ErrUnknown, added, len(jobs), queue, err)
		} else if err != nil {
			return nil, err
		}
		for k, i := range of {
			answers[i] = got[k]
		}
		added += len(of)
	}
	return answers, nil
}

// ofPart is a call to a part. Its id is another than that of the same call to the
// queue: part 0 remembers calls where the queue did before it was spread, and an
// answer says nothing of jobs whose ids were made to fit.
func (p packer) ofPart() packer {
	p = slices.Clone(p)
	if broker.ID(p[:16]) != (broker.ID{}) {
		p[15] ^= 1
	}
	return p
}

// A cursor of a queue that is spread names the number of its parts, the part, and
// the cursor there: n*i*cursor. One that is of another number begins anew: between
// the two the queue had no jobs.

func partCursor(n, i int, cursor string) string { return fmt.Sprintf("%d*%d*%s", n, i, cursor) }

// cutCursor reads a cursor for a queue of n parts.
func cutCursor(s string, n int) (i int, cursor string, err error) {
	f := strings.SplitN(s, "*", 3)
	if len(f) < 3 {
		return 0, "", nil
	}
	of, err1 := strconv.Atoi(f[0])
	i, err2 := strconv.Atoi(f[1])
	if err1 != nil || err2 != nil || i < 0 || of < leastParts || i >= of {
		return 0, "", fmt.Errorf("%w: cursor %.64q is from no queue that is spread", broker.ErrInvalid, s)
	}
	if of != n {
		return 0, "", nil
	}
	return i, f[2], nil
}

// listParts is List, one part after the other.
func (b *Broker) listParts(ctx context.Context, parts []string, f broker.Filter, cursor string, n int) (page broker.Page, err error) {
	if _, err := parsePlace(cursor); err != nil && !strings.Contains(cursor, "*") {
		return page, err
	}
	i, at, err := cutCursor(cursor, len(parts))
	if err != nil {
		return page, err
	}
	for ; i < len(parts); i++ {
		if len(page.Jobs) >= n {
			page.Cursor = partCursor(len(parts), i, "")
			return page, nil
		}
		f.Queue = parts[i]
		one, err := b.list(ctx, f, at, n-len(page.Jobs))
		if err != nil {
			return broker.Page{}, err
		}
		page.Jobs = append(page.Jobs, one.Jobs...)
		if at = one.Cursor; at != "" {
			page.Cursor = partCursor(len(parts), i, at)
			return page, nil
		}
	}
	return page, nil
}

// applyParts is Apply for the first part, from the cursor on, in which there is
// something to do. Where jobs are named, those that have none of them are left out.
func (b *Broker) applyParts(ctx context.Context, c broker.Call, parts []string, cmd broker.Command) (step broker.Step, err error) {
	if cmd.Kind == broker.PauseQueue || cmd.Kind == broker.ResumeQueue {
		return b.stopParts(ctx, c, parts, cmd)
	}
	if _, _, err := parseCursor(cmd.Cursor); err != nil && !strings.Contains(cmd.Cursor, "*") {
		return step, err
	}
	n := len(parts)
	i, at, err := cutCursor(cmd.Cursor, n)
	if err != nil {
		return step, err
	}
	ids := cmd.Filter.IDs
	has := func(i int) bool {
		return len(ids) == 0 || slices.ContainsFunc(ids, func(id broker.ID) bool { return partOfID(id, n) == i })
	}
	for ; i < n; i, at = i+1, "" {
		if !has(i) {
			continue
		}
		if step.Changed > 0 {
			step.Cursor = partCursor(n, i, "")
			return step, nil
		}
		cmd.Filter.Queue, cmd.Cursor = parts[i], at
		if len(ids) > 0 {
			cmd.Filter.IDs = slices.DeleteFunc(slices.Clone(ids), func(id broker.ID) bool { return partOfID(id, n) != i })
		}
		if step, err = b.apply(ctx, c, cmd); err != nil {
			return broker.Step{}, err
		}
		if step.Cursor != "" {
			step.Cursor = partCursor(n, i, step.Cursor)
			return step, nil
		}
	}
	return step, nil
}

// stopParts pauses or resumes all parts.
func (b *Broker) stopParts(ctx context.Context, c broker.Call, parts []string, cmd broker.Command) (all broker.Step, err error) {
	for i, part := range parts {
		cmd.Filter.Queue = part
		step, err := b.apply(ctx, c, cmd)
		if err != nil && i > 0 && !moved(err) {
			return all, fmt.Errorf("%w: it took place in %d of %d parts of the queue, then: %w", broker.ErrUnknown, i, len(parts), err)
		} else if err != nil {
			return all, err
		}
		all.Changed = max(all.Changed, step.Changed)
	}
	return all, nil
}

// countAll counts a queue, or its parts together: what is of the whole queue is the
// sum of theirs, the most that it ever was, too.
func (b *Broker) countAll(ctx context.Context, queue string) ([]broker.Count, error) {
	for try := 0; ; try++ {
		rows, err := b.sum(ctx, b.spread.now().all(queue))
		if !moved(err) || try == mostMoves {
			return rows, err
		}
	}
}

func (b *Broker) sum(ctx context.Context, places []string) ([]broker.Count, error) {
	if len(places) == 1 {
		return b.count(ctx, places[0])
	}
	var of broker.Count // what is of the whole queue
	var all []broker.Count
	for _, p := range places {
		rows, err := b.count(ctx, p)
		if err != nil {
			return nil, err
		}
		if len(rows) > 0 {
			of.Paused = of.Paused || rows[0].Paused
			of.Depth, of.HighWater, of.Bytes = of.Depth+rows[0].Depth, of.HighWater+rows[0].HighWater, of.Bytes+rows[0].Bytes
		}
		for i := range rows {
			at := slices.IndexFunc(all, func(c broker.Count) bool { return c.Task == rows[i].Task })
			if at < 0 {
				all = append(all, rows[i])
				continue
			}
			addCount(&all[at], &rows[i])
		}
	}
	if len(all) > 1 { // a part without jobs says only that it is paused
		all = slices.DeleteFunc(all, func(c broker.Count) bool { return c.Task == "" })
	}
	for i := range all {
		c := &all[i]
		c.Paused, c.Depth, c.HighWater, c.Bytes = of.Paused, of.Depth, of.HighWater, of.Bytes
	}
	slices.SortFunc(all, func(a, b broker.Count) int { return cmp.Compare(a.Task, b.Task) })
	return all, nil
}

// addCount adds what another part has of a task.
func addCount(to, c *broker.Count) {
	for _, n := range [...]struct{ to, of *int64 }{
		{&to.Scheduled, &c.Scheduled}, {&to.Ready, &c.Ready}, {&to.Leased, &c.Leased},
		{&to.Done, &c.Done}, {&to.Dead, &c.Dead}, {&to.Cancelled, &c.Cancelled},
		{&to.Totals.Enqueued, &c.Totals.Enqueued}, {&to.Totals.Claimed, &c.Totals.Claimed}, {&to.Totals.Acked, &c.Totals.Acked},
		{&to.Totals.Failed, &c.Totals.Failed}, {&to.Totals.Expired, &c.Totals.Expired}, {&to.Totals.Died, &c.Totals.Died},
		{&to.Totals.Cancelled, &c.Totals.Cancelled}, {&to.Totals.Deleted, &c.Totals.Deleted},
	} {
		*n.to += *n.of
	}
}

// readFirst reads the settings of a queue where they are decided.
func (b *Broker) readFirst(ctx context.Context, queue string) (*settings, error) {
	for try := 0; ; try++ {
		s, err := b.readSettings(ctx, b.spread.now().all(queue)[0])
		if !moved(err) || try == mostMoves {
			return s, err
		}
	}
}

// configureParts changes the settings of part 0, and then those of the others.
func (b *Broker) configureParts(ctx context.Context, c broker.Call, parts []string, asked time.Time, change *broker.Change) error {
	queue := queueOf(parts[0])
	for i := range change.Set {
		if err := spreadSetting(queue, &change.Set[i]); err != nil {
			return err
		}
	}
	if err := b.configure(ctx, c, parts[0], asked, change); err != nil {
		return err
	}
	if err := b.copySettings(ctx, queue); err != nil && !moved(err) {
		return fmt.Errorf("%w: it is set, and upkeep will put it in force in every part of queue %s, which now met: %w", broker.ErrUnknown, queue, err)
	}
	return nil
}

// tickFirst is Tick in part 0, where schedules are, and their jobs.
func (b *Broker) tickFirst(ctx context.Context, c broker.Call, parts []string, t broker.Tick) (bool, time.Time, error) {
	t.Jobs = slices.Clone(t.Jobs)
	for i := range t.Jobs {
		part, err := fitFollowUp(t.Queue, &t.Jobs[i], len(parts), 0)
		if err == nil && part != 0 {
			err = fmt.Errorf("%w: queue %s is spread: a schedule's jobs have no key, order or id that binds them to another part than the schedule's", broker.ErrInvalid, t.Queue)
		}
		if err != nil {
			return false, time.Time{}, err
		}
	}
	return b.tick(ctx, c, parts[0], &t)
}

// places are where a claim looks: of a queue that is spread one part after the
// other, from one on that its call id chooses. So a claim that is repeated looks in
// the same order, and claims begin everywhere equally often.
func (l *claimLook) places(queues []string) []string {
	known := l.b.spread.now()
	if len(known) == 0 && !slices.ContainsFunc(queues, isPart) {
		return queues
	}
	places := make([]string, 0, len(queues)+MaxSpread)
	for _, q := range queues {
		parts := known.all(q)
		if isPart(q) {
			continue // no queue has that name
		}
		from := 0
		if len(parts) > 1 {
			from = l.turn(len(parts))
		}
		places = append(append(places, parts[from:]...), parts[:from]...)
	}
	return places
}

// turn chooses the part that a claim looks at first.
func (l *claimLook) turn(n int) int {
	if l.call.ID.IsZero() {
		return int(l.b.turns.Add(1) % uint64(n))
	}
	return partOfID(l.call.ID, n)
}

// alike is how often upkeep looks whether all parts of a queue have the settings of
// the first: who changed them may have died before they were everywhere.
const alike = time.Minute

// keepSettingsAlike does that. What it meets is no matter: it comes again.
func (b *Broker) keepSettingsAlike(ctx context.Context) {
	known := b.spread.now()
	if len(known) == 0 {
		return
	}
	b.mu.Lock()
	due := time.Since(b.alikeAt) >= alike
	if due {
		b.alikeAt = time.Now()
	}
	b.mu.Unlock()
	if !due {
		return
	}
	for queue, parts := range known {
		if is, err := b.mark(ctx, queue); err != nil || is.n != len(parts) {
			continue
		}
		_ = b.copySettings(ctx, queue)
	}
}

// nowhere reports whether a call met a name that stands for nothing now.
func nowhere(err error) bool { return errors.Is(err, errNoQueue) || moved(err) }
