package main

import (
	"bytes"
	"context"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/migrate"
	"github.com/spoolq/spool/internal/text"
)

// moveScreen shows how moves go on, and sums up.
type moveScreen struct {
	*app
	from    string
	live    bool // the standard error is a terminal
	shown   time.Time
	waiting string // the queue of which it was said that jobs still run
	all     []migrate.Progress
	headed  bool // the head of the table is printed
}

func newMoveScreen(a *app, from string) *moveScreen {
	s := &moveScreen{app: a, from: from}
	if f, ok := a.errw.(*os.File); ok {
		info, err := f.Stat()
		s.live = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return s
}

// show shows how far a queue is: in a line that is written over where somebody
// looks on, else only when it has to wait.
func (s *moveScreen) show(p migrate.Progress) {
	waits := p.Leased > 0 && p.Leased == p.Left
	switch {
	case s.live && time.Since(s.shown) > 100*time.Millisecond:
		s.shown = time.Now()
		_, _ = s.errw.Write([]byte("\r\x1b[K" + moveGist(&p))) // what becomes of it does not matter
	case !s.live && waits && s.waiting != p.Queue:
		s.waiting = p.Queue
		s.note("%s of queue %s at %s: waiting for that", text.Plural(p.Leased, "job still runs", "jobs still run"), p.Queue, s.from)
	}
}

func moveGist(p *migrate.Progress) string {
	line := "queue " + p.Queue + ": " + text.Count(p.Moved) + " moved, " + text.Count(p.Left-p.Leased) + " to go"
	if p.Leased > 0 {
		line += ", " + text.Count(p.Leased) + " still run"
	}
	return line
}

// done takes in how a queue's move ended, or how far it came.
func (s *moveScreen) done(p migrate.Progress, err error) error {
	if s.live {
		_, _ = s.errw.Write([]byte("\r\x1b[K"))
	}
	if s.json {
		if err != nil {
			return nil
		}
		return s.object(p)
	}
	for i := range s.all {
		if was := &s.all[i]; was.Queue == p.Queue {
			was.Moved, was.Settings = was.Moved+p.Moved, was.Settings+p.Settings
			was.Duplicates, was.Known = was.Duplicates+p.Duplicates, was.Known+p.Known
			return nil
		}
	}
	s.all = append(s.all, p)
	return nil
}

// end prints the summary so far, and begins the next: with --follow all are one
// table.
func (s *moveScreen) end() error {
	if s.json || len(s.all) == 0 {
		return nil
	}
	var part bytes.Buffer
	w := tabwriter.NewWriter(&part, 0, 0, 2, ' ', 0)
	row(w, "QUEUE", "JOBS MOVED", "SETTINGS", "DUPLICATES", "KNOWN THERE")
	for i := range s.all {
		p := &s.all[i]
		row(w, text.Safe(p.Queue), text.Count(p.Moved), text.Count(p.Settings), text.Count(p.Duplicates), text.Count(p.Known))
	}
	s.all = nil
	if err := w.Flush(); err != nil {
		return err
	}
	lines := part.Bytes()
	if s.headed { // the head has made the columns as wide as they were
		_, lines, _ = bytes.Cut(lines, []byte("\n"))
	}
	s.headed = true
	if _, err := s.out.Write(lines); err != nil {
		return err
	}
	return s.out.Flush()
}

// recordView is the record of a move as --status prints it.
type recordView struct {
	Store string `json:"store"`
	broker.Move
}

// status prints the records of both stores.
func (s *moveSides) status(ctx context.Context, queues []string) error {
	var all []recordView
	for _, side := range []migrate.Side{s.from, s.to} {
		for _, q := range queues {
			moves, err := side.Broker.Moves(ctx, q)
			if err != nil {
				return err
			}
			for _, m := range moves {
				all = append(all, recordView{side.Name, m})
			}
		}
	}
	if s.json {
		for i := range all {
			if err := s.object(all[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if len(all) == 0 {
		return s.printf("no queue moves")
	}
	w := s.table("STORE", "QUEUE", "IS", "OTHER STORE", "BATCH", "JOBS")
	for i := range all {
		m := &all[i]
		batch := text.Count(int64(m.Batch))
		if m.OnWay {
			batch += " (on its way)"
		}
		row(w, text.Safe(m.Store), text.Safe(m.Queue), m.State.String(), text.Safe(m.Peer), batch, text.Count(m.Jobs))
	}
	return w.Flush()
}
