package filebroker

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

// look reads all that can be read of a store: one line for each job, with every
// field and its place in the list of its state, for each setting, worker and
// count.
func look(t testing.TB, b broker.Broker) []string {
	t.Helper()
	return lookAs(t, b, func(*broker.Job) {}, func(*broker.Worker) {}, func(*broker.Count) {})
}

// lookLoosely is look without what the model does not know: the epoch in a
// token, the lines that a handler logged, the batch of a lone member, when a
// worker came, how many bytes a job takes.
func lookLoosely(t testing.TB, b broker.Broker) []string {
	t.Helper()
	return lookAs(t, b, func(j *broker.Job) {
		j.Token &= 1<<32 - 1
		j.Log, j.Batch, j.BatchOrdinal = nil, broker.ID{}, 0
	}, func(w *broker.Worker) {
		w.StartedAt = time.Time{}
	}, func(c *broker.Count) {
		c.Depth, c.HighWater, c.Bytes = 0, 0, 0
	})
}

func lookAs(t testing.TB, b broker.Broker, job func(*broker.Job), worker func(*broker.Worker), count func(*broker.Count)) (lines []string) {
	t.Helper()
	ctx := context.Background()
	say := func(what string, v any) {
		text, err := json.Marshal(v)
		must(t, err)
		lines = append(lines, what+" "+string(text))
	}
	counts, err := b.Counts(ctx, "")
	must(t, err)
	var queues []string
	for _, c := range counts {
		count(&c)
		say("count", c)
		if !slices.Contains(queues, c.Queue) {
			queues = append(queues, c.Queue)
		}
	}
	for _, q := range queues {
		for _, s := range broker.States {
			page, err := b.List(ctx, broker.Filter{Queue: q, States: []broker.State{s}}, "", broker.MaxPageJobs)
			must(t, err)
			if page.Cursor != "" {
				t.Fatalf("the list of %s goes on", q)
			}
			for i := range page.Jobs {
				j := page.Jobs[i]
				plain(&j)
				job(&j)
				say(fmt.Sprintf("%s %v %d", q, s, i), j)
			}
		}
	}
	settings, err := b.Settings(ctx, "")
	must(t, err)
	for _, s := range settings {
		say("setting", s)
	}
	workers, err := b.Workers(ctx, "")
	must(t, err)
	slices.SortFunc(workers, func(a, b broker.Worker) int { return strings.Compare(a.ID, b.ID) })
	for _, w := range workers {
		worker(&w)
		say("worker", w)
	}
	return lines
}

// plain makes equal what means the same.
func plain(j *broker.Job) {
	if j.Payload == nil {
		j.Payload = []byte{}
	}
	if len(j.Headers) == 0 {
		j.Headers = nil
	}
	j.EnqueuedAt, j.RunAt, j.ClaimedAt = j.EnqueuedAt.UTC(), j.RunAt.UTC(), j.ClaimedAt.UTC()
	j.FinishedAt, j.LeaseExpiresAt = j.FinishedAt.UTC(), j.LeaseExpiresAt.UTC()
}

// difference shows the lines that only one of two looks has.
func difference(want, got []string) string {
	var b strings.Builder
	for _, l := range want {
		if !slices.Contains(got, l) {
			fmt.Fprintf(&b, "  want %s\n", l)
		}
	}
	for _, l := range got {
		if !slices.Contains(want, l) {
			fmt.Fprintf(&b, "  got  %s\n", l)
		}
	}
	if b.Len() == 0 {
		fmt.Fprintf(&b, "  %d lines in another order than these %d:\n  %s\n", len(got), len(want), strings.Join(want, "\n  "))
	}
	return b.String()
}

// encoded is the whole state of a handle.
func encoded(t testing.TB, c *Broker) []byte {
	t.Helper()
	b := c.cur.Load()
	b.mu.Lock()
	defer b.mu.Unlock()
	var out bytes.Buffer
	must(t, b.s.Encode(&out))
	return out.Bytes()
}

// decoded is the state that encoded wrote; nil is the empty one.
func decoded(t testing.TB, state []byte) *jobstate.State {
	t.Helper()
	s := jobstate.New(nil, nil)
	if state != nil {
		must(t, s.Decode(bytes.NewReader(state)))
	}
	return s
}

// canonical is the whole state but for where bytes lie, which a compaction
// changes.
func canonical(t testing.TB, s *jobstate.State) []byte {
	t.Helper()
	s.Relocate(func(l jobstate.Loc) jobstate.Loc { return jobstate.Loc{File: 1, Len: l.Len, Sum: l.Sum} })
	var out bytes.Buffer
	must(t, s.Encode(&out))
	return out.Bytes()
}

// sameMoment wants that a handle that has just been opened after a restart
// holds exactly what the store held at a moment, and has opened an epoch.
func (s *scene) sameMoment(b *Broker, mo *moment) {
	s.Helper()
	t := s.TB
	got, want := decoded(t, encoded(t, b)), decoded(t, mo.state)
	e := got.Epoch()
	if e.Number != want.Epoch().Number+1 || got.Clock() < want.Clock() {
		t.Fatalf("epoch %d at %d, before the crash %d at %d", e.Number, got.Clock(), want.Epoch().Number, want.Clock())
	}
	var w jobstate.Writer
	w.Reset(nil, 0, 0, jobstate.Now{Steady: got.Clock(), Wall: got.Clock()})
	want.OpenEpoch(&w, e.Number, "", e.Boot, e.Offset, want.Epoch().Number > 0)
	for _, name := range want.Members() { // the machine was restarted
		want.Gone(&w, name)
	}
	want.Wrote(&w)
	if diff := butForLeases(mo, look(t, b)); diff != "" {
		t.Fatal(diff)
	}
	if !bytes.Equal(canonical(t, got), canonical(t, want)) {
		t.Fatalf("the state after frame %d is not what it was", mo.frame)
	}
}
