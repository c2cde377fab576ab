package main

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/internal/text"
)

type inspectCmd struct {
	ID     *jobID   `name:"id" placeholder:"UUID" help:"Only records of this job."`
	Queue  name     `short:"q" placeholder:"NAME" help:"Only records of this queue."`
	Record []string `short:"r" placeholder:"TYPE" help:"Only records of this type, as the output names them; may be repeated."`
	Last   int      `short:"n" placeholder:"N" help:"Only the last N of them; all when not given."`
}

// Help is shown by spool inspect --help.
func (*inspectCmd) Help() string {
	return "Each line is a record: segment and offset of its frame, the frame's sequence number and epoch, the writer's wall clock, what it is, and what it says. " +
		"Takes no lock and changes nothing; the store may be in use, or damaged: what is before the damage is printed, and the exit code is 3."
}

// Run prints the log.
func (c *inspectCmd) Run(a *app) error {
	if c.Last < 0 {
		return usagef("--last is negative: a number would do")
	}
	if err := isStore(a.dir); err != nil {
		return err
	}
	var last []filebroker.Entry
	err := filebroker.Inspect(a.dir, func(e filebroker.Entry) error {
		switch {
		case !c.wants(&e):
			return nil
		case c.Last == 0:
			return a.entry(&e)
		}
		e.IDs = slices.Clone(e.IDs)
		if last = append(last, e); len(last) > c.Last {
			last = slices.Delete(last, 0, len(last)-c.Last)
		}
		return nil
	})
	for i := range last {
		if err := a.entry(&last[i]); err != nil {
			return err
		}
	}
	return err
}

func (c *inspectCmd) wants(e *filebroker.Entry) bool {
	return (c.ID == nil || slices.Contains(e.IDs, broker.ID(*c.ID))) &&
		(c.Queue == "" || e.Queue == string(c.Queue)) &&
		(len(c.Record) == 0 || slices.Contains(c.Record, e.Record))
}

// entry prints one record.
func (a *app) entry(e *filebroker.Entry) error {
	if a.json {
		return a.object(e)
	}
	const mostIDs = 3
	ids := ""
	for i, id := range e.IDs {
		if i == mostIDs {
			ids += " and " + strconv.Itoa(len(e.IDs)-mostIDs) + " more"
			break
		}
		ids += " " + id.String()
	}
	return a.printf("%d:%-9d #%-7d e%-3d %s  %-8s %s%s %s", e.Segment, e.Offset, e.Sequence, e.Epoch,
		e.At.In(a.now().Location()).Format("2006-01-02 15:04:05.000"), e.Record, text.Safe(e.Queue), ids, text.Head([]byte(e.Text), 400))
}

type verifyCmd struct{}

// Help is shown by spool verify --help.
func (*verifyCmd) Help() string {
	return "Reads every file, frame and link, the state that they give, and the checksum of every payload. Exits with 3 when something that was durable is damaged."
}

// Run checks the store.
func (c *verifyCmd) Run(a *app) error {
	if err := isStore(a.dir); err != nil {
		return err
	}
	v, err := filebroker.Verify(a.dir)
	if err != nil {
		return err
	}
	if a.json {
		if err := a.object(v); err != nil {
			return err
		}
	} else if err := a.verified(&v); err != nil {
		return err
	}
	if !v.OK {
		return errUnhealthy
	}
	return nil
}

func (a *app) verified(v *filebroker.Verified) error {
	if err := a.findings(v.Findings); err != nil {
		return err
	}
	if !v.OK {
		return a.printf("%s is damaged: spool repair makes a new store of what can be read, and keeps this one", a.dir)
	}
	return a.printf("%s is sound: %s, %s, %s of records, %s, %s of payloads and texts read", a.dir,
		text.Plural(int64(v.Segments), "segment", "segments"), text.Plural(v.Frames, "frame", "frames"), text.Bytes(v.Bytes),
		text.Plural(int64(v.Jobs), "job", "jobs"), text.Count(int64(v.Payloads)))
}

func (a *app) findings(list []filebroker.Finding) error {
	if len(list) == 0 {
		return nil
	}
	w := a.table("FINDING", "DAMAGE", "FILE", "OFFSET", "WHAT")
	for _, f := range list {
		damage := "no"
		if f.Damage {
			damage = "YES"
		}
		row(w, f.Kind, damage, text.Safe(f.File), strconv.FormatInt(f.Offset, 10), text.Safe(f.What))
	}
	return w.Flush()
}

type repairCmd struct{}

// Help is shown by spool repair --help.
func (*repairCmd) Help() string {
	return "Stop every program that uses the store first. The damaged store is kept, untouched, beside the new one. " +
		"A job whose payload is lost becomes a dead letter with the reason damaged. Where nothing is damaged nothing is done. " +
		"The exit code is 3 when something that was durable could not be saved."
}

// Run repairs the store.
func (c *repairCmd) Run(a *app) error {
	if err := isStore(a.dir); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	r, err := filebroker.Repair(ctx, a.dir)
	if err != nil {
		return causeOf(ctx, err)
	}
	if a.json {
		err = a.object(r)
	} else {
		err = a.repaired(&r)
	}
	if err == nil && !r.Complete {
		return errUnhealthy
	}
	return err
}

func (a *app) repaired(r *filebroker.Repaired) error {
	if err := a.findings(r.Findings); err != nil {
		return err
	}
	if r.Original == "" {
		return a.printf("%s is sound: nothing was done", a.dir)
	}
	for _, l := range r.Lost {
		if err := a.printf("lost: the %s of job %s of queue %s", text.Safe(l.What), l.ID, text.Safe(l.Queue)); err != nil {
			return err
		}
	}
	if r.Checkpoint > 0 {
		if err := a.printf("lost: the jobs of checkpoint %d that stand behind its damage, unless the log has them; which these were, nobody can say", r.Checkpoint); err != nil {
			return err
		}
	}
	if !r.Complete && len(r.Lost) == 0 && r.Skipped == 0 && r.Checkpoint == 0 {
		if err := a.printf("nothing is known to be lost; what the damaged places held, nobody can say"); err != nil {
			return err
		}
	}
	return a.printf("%s saved, %s of records that rest on lost ones passed over; the damaged store is kept as %s",
		text.Plural(int64(r.Jobs), "job", "jobs"), text.Count(int64(r.Skipped)), text.Safe(r.Original))
}

type compactCmd struct{}

// Help is shown by spool compact --help.
func (*compactCmd) Help() string {
	return "Writes a checkpoint and removes the files of the log that nothing needs any more. The store may be in use. Programs that use it do this by themselves; there is no need to."
}

// Run compacts the store.
func (c *compactCmd) Run(a *app) (err error) {
	ctx, stop := interruptible()
	defer stop()
	b, err := a.openStore(a.dir, changing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	r, err := b.Compact(ctx)
	switch {
	case err != nil:
		return causeOf(ctx, err)
	case r.Checkpoint == 0 && !a.json:
		return a.printf("another process is compacting %s already%s", a.dir, ofPID(r.By))
	}
	if a.json {
		return a.object(r)
	}
	return a.printf("%s holds %s in %s, before it were %s: checkpoint %d written, %s removed, %s of payloads moved; beside that %s are kept ready for the log to come", a.dir,
		text.Plural(int64(r.Jobs), "job", "jobs"), text.Bytes(r.UsedAfter), text.Bytes(r.UsedBefore), r.Checkpoint,
		text.Plural(int64(r.Removed), "file", "files"), text.Bytes(r.Moved), text.Bytes(max(0, r.BytesAfter-r.UsedAfter)))
}

// ofPID names a process, where it is known.
func ofPID(pid int) string {
	if pid == 0 {
		return ""
	}
	return ": pid " + strconv.Itoa(pid)
}

// causeOf is the signal that ended ctx, when that is what err says.
func causeOf(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return context.Cause(ctx)
	}
	return err
}
