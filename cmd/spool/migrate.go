package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/migrate"
)

type migrateCmd struct {
	From   exact  `arg:"" help:"Store that the queues leave: a directory, or the URL of a broker."`
	To     exact  `arg:"" help:"Store that they go to, as well; a directory is made when it is not there."`
	Queue  []name `short:"q" placeholder:"NAME" help:"Move these queues; every one when none is given. May be repeated."`
	Follow bool   `xor:"do" help:"Go on, and move what is still enqueued at the old store, until stopped."`
	Status bool   `xor:"do" help:"Say how far each move is, and change nothing."`
	Abort  bool   `xor:"do" help:"Take back moves that have not ended."`
	Forget bool   `xor:"do" help:"Let queues that have moved be used at the old store again."`
	TTL    span   `hidden:"" name:"runner-ttl" default:"3s" help:"How long a run is waited for that may have been killed."`
}

// Help is shown by spool migrate --help.
func (*migrateCmd) Help() string {
	return "Start with a file, grow later: spool migrate ./jobs redis://HOST. A store is a directory or a broker's URL, as --broker takes it; " +
		"passwords stand in the URL, in SPOOL_FROM_PASSWORD and SPOOL_TO_PASSWORD, or in SPOOL_BROKER_PASSWORD for both. " +
		"The store may be in use. A queue rests while it moves, at both stores: nothing of it is claimed and no schedule ticks, enqueues go on. " +
		"Jobs go with ids, states, tokens, attempts, keys, batches and results; limits, schedules and other settings, and a pause, go too. " +
		"What runs ends at the old store, and the move waits for it. At the end the queue works at the new store and rests at the old one. " +
		"If it is stopped, the same command goes on where it was; nothing is lost or doubled, wherever it was killed. " +
		"What is enqueued at the old store later waits there: run the command again, or with --follow."
}

// moveSides are the two stores of a move, open.
type moveSides struct {
	*app
	from, to migrate.Side
	mover    migrate.Mover
	screen   *moveScreen
	leftOut  map[string]bool // queues of which that was said
}

// Run moves queues.
func (c *migrateCmd) Run(a *app) (err error) {
	ctx, stop := interruptible()
	defer stop()
	s, err := c.open(ctx, a)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.from.Broker.Close(), s.to.Broker.Close()) }()
	queues, err := c.queues(ctx, s)
	if err != nil {
		return causeOf(ctx, err)
	}
	switch {
	case c.Status:
		return causeOf(ctx, s.status(ctx, queues))
	case c.Forget:
		return causeOf(ctx, s.forget(ctx, queues))
	case c.Abort:
		return s.said(ctx, c.abort(ctx, s, queues))
	}
	if queues, err = c.here(ctx, s, queues); err != nil {
		return causeOf(ctx, err)
	}
	return s.said(ctx, c.move(ctx, s, queues))
}

// here leaves out queues that nobody named and that have moved to a third store.
func (c *migrateCmd) here(ctx context.Context, s *moveSides, queues []string) (stay []string, err error) {
	for _, q := range queues {
		m, went, err := s.moved(ctx, q)
		if err != nil {
			return nil, err
		}
		if len(c.Queue) == 0 && m.State == broker.Left && m.Batch > 0 && !went {
			if !s.leftOut[q] {
				s.note("queue %s is left out: it has moved to %s", q, m.Peer)
				s.leftOut[q] = true
			}
			continue
		}
		stay = append(stay, q)
	}
	return stay, nil
}

// open opens both stores. Only a move makes the new one.
func (c *migrateCmd) open(ctx context.Context, a *app) (*moveSides, error) {
	from, to := string(c.From), string(c.To)
	if a.sideName(from) == a.sideName(to) {
		return nil, usagef("%s and %s are one store: two would do", a.said(from), a.said(to))
	}
	s := &moveSides{app: a, from: migrate.Side{Name: a.sideName(from)}, to: migrate.Side{Name: a.sideName(to)}, leftOut: map[string]bool{}}
	var err error
	if s.from.Broker, err = a.openSide(ctx, from, "SPOOL_FROM_PASSWORD", changing); err != nil {
		return nil, err
	}
	unknown, err := c.unknown(ctx, s.from)
	if err != nil {
		return nil, errors.Join(err, s.from.Broker.Close())
	}
	how := changing
	if !c.Status && !c.Abort && !c.Forget && unknown == "" {
		how = creating
	}
	if s.to.Broker, err = a.openSide(ctx, to, "SPOOL_TO_PASSWORD", how); err != nil {
		if none := new(noStore); errors.As(err, &none) && unknown != "" {
			err = s.noQueue(unknown)
		}
		return nil, errors.Join(err, s.from.Broker.Close())
	}
	if unknown, err = c.unknown(ctx, s.from, s.to); err == nil && unknown != "" {
		err = s.noQueue(unknown)
	}
	if err != nil {
		return nil, errors.Join(err, s.from.Broker.Close(), s.to.Broker.Close())
	}
	s.screen = newMoveScreen(a, s.from.Name)
	s.mover = migrate.Mover{From: s.from, To: s.to, Report: s.screen.show, TTL: time.Duration(c.TTL)}
	return s, nil
}

// unknown names a queue of the command line that none of some stores has or
// knows to have had; "" means that there is none. A move of such a one would
// move nothing, and leave records that keep the name from use at the old store.
func (c *migrateCmd) unknown(ctx context.Context, stores ...migrate.Side) (string, error) {
	for _, q := range c.Queue {
		known := false
		for _, s := range stores {
			counts, err := s.Broker.Counts(ctx, string(q))
			settings, err2 := s.Broker.Settings(ctx, string(q))
			moves, err3 := s.Broker.Moves(ctx, string(q))
			if err := errors.Join(err, err2, err3); err != nil {
				return "", err
			}
			known = known || len(counts)+len(settings)+len(moves) > 0
		}
		if !known {
			return string(q), nil
		}
	}
	return "", nil
}

// noQueue says that neither store knows a queue.
func (s *moveSides) noQueue(queue string) error {
	s.note("neither %s nor %s has a queue %s: spool stats lists those of a store", s.from.Name, s.to.Name, queue)
	return errNothing
}

// queues lists what is to be moved: what is named, else all that the old store
// has, or knows to have had.
func (c *migrateCmd) queues(ctx context.Context, s *moveSides) (names []string, err error) {
	for _, q := range c.Queue {
		names = append(names, string(q))
	}
	if len(names) > 0 {
		return names, nil
	}
	b := s.from.Broker
	counts, err := b.Counts(ctx, "")
	settings, err2 := b.Settings(ctx, "")
	moves, err3 := b.Moves(ctx, "")
	for i := range counts {
		names = append(names, counts[i].Queue)
	}
	for i := range settings {
		names = append(names, settings[i].Queue)
	}
	for i := range moves {
		names = append(names, moves[i].Queue)
	}
	slices.Sort(names)
	return slices.Compact(names), errors.Join(err, err2, err3)
}

// abort takes back the moves of some queues, all of them when none was named.
func (c *migrateCmd) abort(ctx context.Context, s *moveSides, queues []string) error {
	var under []string
	for _, q := range queues {
		moves, err := s.from.Broker.Moves(ctx, q)
		if err != nil {
			return err
		}
		if len(c.Queue) > 0 || len(moves) > 0 && (moves[0].State == broker.Leaving || !moves[0].Turned.IsZero()) {
			under = append(under, q)
		}
	}
	if len(under) == 0 {
		return fmt.Errorf("%w: no move from %s to %s is under way", spool.ErrNotFound, s.from.Name, s.to.Name)
	}
	return s.each(ctx, under, s.mover.Back)
}

// passes is how often queues are moved again into which jobs came meanwhile,
// without --follow: from other queues that were still working.
const passes = 3

// followEvery is how often --follow looks for more.
const followEvery = time.Second

// move moves queues, and once more those into which jobs came meanwhile.
func (c *migrateCmd) move(ctx context.Context, s *moveSides, queues []string) error {
	err := s.each(ctx, queues, s.mover.Queue)
	for pass := 1; err == nil; pass++ {
		var more []string
		if more, err = s.stragglers(ctx, queues); err != nil || len(more) == 0 && !c.Follow {
			return err
		}
		if pass > passes && !c.Follow {
			s.note("jobs are still enqueued at %s (queue %s): run the same command again when nobody does so any more, or with --follow", s.from.Name, strings.Join(more, ", "))
			return nil
		}
		if c.Follow && !pause(ctx, followEvery) {
			return nil // that is how it ends
		}
		if len(c.Queue) == 0 {
			if queues, err = c.queues(ctx, s); err != nil {
				return err
			}
			if queues, err = c.here(ctx, s, queues); err != nil {
				return err
			}
		}
		err = s.each(ctx, more, s.mover.Queue)
	}
	return err
}

// pause waits, unless ctx ends before.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// stragglers are those of some queues that have jobs at the old store.
func (s *moveSides) stragglers(ctx context.Context, queues []string) (more []string, err error) {
	counts, err := s.from.Broker.Counts(ctx, "")
	for i := range counts {
		n := &counts[i]
		if n.Depth+n.Done+n.Dead+n.Cancelled > 0 && slices.Contains(queues, n.Queue) {
			more = append(more, n.Queue)
		}
	}
	return slices.Compact(more), err
}

// each moves queue after queue.
func (s *moveSides) each(ctx context.Context, queues []string, move func(context.Context, string) (migrate.Progress, error)) error {
	for _, q := range queues {
		p, err := move(ctx, q)
		if err := s.screen.done(p, err); err != nil {
			return err
		}
		if err != nil {
			return err
		}
	}
	return s.screen.end()
}

// said says of a move that did not end what to do about it.
func (s *moveSides) said(ctx context.Context, err error) error {
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		s.note("the queue rests at both stores: the same command goes on, with --abort it takes the move back")
		return context.Cause(ctx)
	case errors.Is(err, spool.ErrNotFound):
		s.note("%s", strings.Replace(plain(err), "job not found: ", "", 1))
		return errNothing
	case errors.Is(err, broker.ErrConflict):
		s.note("%s", plain(err))
		s.note("--status shows how far each move is; --abort takes one back that has not ended")
		return errSaid
	}
	s.note("as far as it came, all is kept: the same command goes on")
	return err
}

// forget drops the records of moves to the new store that have ended.
func (s *moveSides) forget(ctx context.Context, queues []string) error {
	forgot := false
	for _, q := range queues {
		m, went, err := s.moved(ctx, q)
		switch {
		case err != nil:
			return err
		case m.State != broker.Left:
			continue
		case !went:
			s.note("queue %s is left as it is: it has moved to %s, and %s knows nothing of that", q, m.Peer, s.to.Name)
			continue
		}
		forgot = true
		if err := s.from.Broker.EndMove(ctx, broker.NewCall(), broker.MoveEnd{ID: m.ID, Queue: q, Batch: m.Batch, Forget: true}); err != nil {
			return err
		}
		if err := s.printf("queue %s can be used at %s again", q, s.from.Name); err != nil {
			return err
		}
	}
	if !forgot {
		s.note("no queue has moved from %s to %s", s.from.Name, s.to.Name)
		return errNothing
	}
	return nil
}

// moved returns what the old store knows of a queue's move, the zero value for none,
// and whether that went to the new store.
func (s *moveSides) moved(ctx context.Context, queue string) (m broker.Move, went bool, err error) {
	here, err := s.from.Broker.Moves(ctx, queue)
	there, err2 := s.to.Broker.Moves(ctx, queue)
	if err := errors.Join(err, err2); err != nil || len(here) == 0 {
		return m, false, err
	}
	m = here[0]
	return m, m.Peer == s.to.Name || slices.ContainsFunc(there, func(t broker.Move) bool { return t.ID == m.ID }), nil
}
