package main

import (
	"errors"
	"log/slog"

	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/internal/text"
)

type backupCmd struct {
	Target string `arg:"" help:"The directory of the backup: new, or empty."`
}

// Help is shown by spool backup --help.
func (*backupCmd) Help() string {
	return "The store may be in use, and nobody waits for the backup but compactions. All that was acknowledged before it began is in it. " +
		"It is read and verified before it gets its name; what was interrupted is left as TARGET.partial-... and may be removed. " +
		"Use spool restore to make a store of it, not a copy: leases and tokens of the copied store would be given out again."
}

// Run copies the store.
func (c *backupCmd) Run(a *app) (err error) {
	ctx, stop := interruptible()
	defer stop()
	b, err := a.openStore(a.dir, changing)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	copied, err := b.Backup(ctx, c.Target)
	if err != nil {
		return causeOf(ctx, err)
	}
	return a.copied(&copied, "backed up to")
}

type restoreCmd struct {
	Backup string `arg:"" help:"The directory of the backup, which stays as it is."`
}

// Help is shown by spool restore --help.
func (*restoreCmd) Help() string {
	return "Makes the store that --dir names, which must be empty or not there: nothing is replaced. Stop every program that used the store of before. " +
		"Time has gone back for the restored one: jobs enqueued since the backup are gone, jobs that ended since run again, and schedules run what was missed since by their policies."
}

// Run makes the store.
func (c *restoreCmd) Run(a *app) error {
	if err := isStore(c.Backup); err != nil {
		return err
	}
	ctx, stop := interruptible()
	defer stop()
	copied, err := filebroker.Restore(ctx, c.Backup, a.dir, filebroker.Config{Logger: newLogger(a.errw, slog.LevelWarn), AllowUnsafeFS: a.unsafeFS})
	if err != nil {
		return causeOf(ctx, err)
	}
	return a.copied(&copied, "restored in")
}

func (a *app) copied(c *filebroker.Copied, what string) error {
	if a.json {
		return a.object(c)
	}
	return a.printf("%s %s %s: %s of files, read and verified", text.Plural(int64(c.Jobs), "job", "jobs"), what, text.Safe(c.Store), text.Bytes(c.Bytes))
}
