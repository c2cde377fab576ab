package main

import (
	"bufio"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/alecthomas/kong"
)

// cli is the command line: a field is a flag or a command.
type cli struct {
	Broker   exact `env:"SPOOL_BROKER" placeholder:"URL" help:"Use a broker instead of a directory: redis://HOST (rediss:// encrypts), unix:///SOCKET, redis+sentinel://HOST?master=NAME, redis+cluster://HOST, http://HOST of spool serve."`
	Dir      exact `short:"d" env:"SPOOL_DIR" default:"${dir}" placeholder:"DIR" help:"Directory of the store."`
	UnsafeFS bool  `name:"allow-unsafe-fs" env:"SPOOL_ALLOW_UNSAFE_FS" help:"Use a file system whose locks or syncs may not be what they claim: network, FUSE, overlay."`
	JSON     bool  `name:"json" help:"Print JSON: exact, for scripts."`

	Enqueue enqueueCmd `cmd:"" group:"jobs" help:"Add a job, or one for each line of the input."`
	Work    workCmd    `cmd:"" group:"jobs" help:"Run a shell command for each job."`
	List    listCmd    `cmd:"" group:"jobs" help:"List jobs."`
	Show    showCmd    `cmd:"" group:"jobs" help:"Show all of a job, and why it does not run now."`
	Explain explainCmd `cmd:"" group:"jobs" help:"Say why a job does not run now, and what would change that."`
	Stats   statsCmd   `cmd:"" group:"jobs" help:"Show how many jobs are in which state, who works, and the store's health."`
	Top     topCmd     `cmd:"" group:"jobs" help:"Watch queues, what fails, and workers."`

	Claim  claimCmd  `cmd:"" group:"hand" help:"Take ready jobs, to run them yourself."`
	Extend extendCmd `cmd:"" group:"hand" help:"Keep a claimed job for longer."`
	Ack    ackCmd    `cmd:"" group:"hand" help:"Finish a claimed job: done."`
	Nack   nackCmd   `cmd:"" group:"hand" help:"Give up on this run of a claimed job: a failed attempt."`
	Bury   buryCmd   `cmd:"" group:"hand" help:"Give up on a claimed job: a dead letter at once."`

	Cancel cancelCmd `cmd:"" group:"operate" help:"Cancel jobs that wait or run."`
	Pause  pauseCmd  `cmd:"" group:"operate" help:"Stop the claiming of jobs of a queue."`
	Resume resumeCmd `cmd:"" group:"operate" help:"End a pause."`
	Purge  purgeCmd  `cmd:"" group:"operate" help:"Delete the jobs of a queue, those that run excepted."`
	Dead   deadCmd   `cmd:"" group:"operate" help:"List, requeue or delete dead letters."`

	Schedule  scheduleCmd  `cmd:"" group:"flow" help:"Enqueue jobs at the instants of a cron expression or an interval."`
	Limit     limitCmd     `cmd:"" group:"flow" help:"Bound the rate, or the number of running jobs, of tasks."`
	Weight    weightCmd    `cmd:"" group:"flow" help:"Share a queue between tenants."`
	Capacity  capacityCmd  `cmd:"" group:"flow" help:"Bound what waits in a queue."`
	Retention retentionCmd `cmd:"" group:"flow" help:"Say how long finished jobs are kept."`
	Ageing    ageingCmd    `cmd:"" group:"flow" help:"Let waiting jobs rise."`
	Spread    spreadCmd    `cmd:"" group:"flow" help:"Spread a busy queue over the servers of a Redis cluster."`

	Serve      serveCmd      `cmd:"" group:"serve" help:"Serve the store over HTTP."`
	Credential credentialCmd `cmd:"" group:"serve" help:"Make a credential for callers of spool serve."`

	Inspect inspectCmd `cmd:"" group:"store" help:"Print the log, record by record."`
	Verify  verifyCmd  `cmd:"" group:"store" help:"Check every byte of a store; change nothing."`
	Repair  repairCmd  `cmd:"" group:"store" help:"Mend a damaged store, keeping all that can be read."`
	Compact compactCmd `cmd:"" group:"store" help:"Drop from the disk what is finished."`
	Backup  backupCmd  `cmd:"" group:"store" help:"Copy a store that may be in use, as it is at one moment."`
	Restore restoreCmd `cmd:"" group:"store" help:"Make a store of a backup, in an empty or new directory."`
	Migrate migrateCmd `cmd:"" group:"store" help:"Move queues, as they are, to another store."`

	Demo    demoCmd    `cmd:"" group:"try" help:"Watch jobs survive kill -9."`
	Torture tortureCmd `cmd:"" group:"try" help:"Test this disk: kill processes at random, compare all that was acknowledged."`
	Bench   benchCmd   `cmd:"" group:"try" help:"Measure this machine, with the raw disk beside it."`
	Version versionCmd `cmd:"" group:"try" help:"Print the version."`

	CrashRole crashRoleCmd `cmd:"" hidden:"" help:"A process of demo and torture."`
	BenchRole benchRoleCmd `cmd:"" hidden:"" help:"A process of bench."`
}

var groups = kong.Groups{
	"jobs":    "Jobs",
	"hand":    "By hand (or from another language)",
	"operate": "Operating",
	"flow":    "Time and flow",
	"serve":   "Serving",
	"store":   "The store",
	"try":     "Trying it out",
	"job":     "The job",
}

// defaultDir is the store when neither --dir nor SPOOL_DIR names one.
const defaultDir = "./jobs"

const description = "A durable job queue: it starts as a directory. See docs/cli.md for exit codes and for what --json prints."

// exitNow unwinds to run when help was printed.
type exitNow int

// run parses the command line, does what it says, and returns the exit code.
func run(args []string, a *app) (code int) {
	a.out = bufio.NewWriter(a.stdout)
	defer func() {
		if p := recover(); p != nil {
			now, ok := p.(exitNow)
			if !ok {
				panic(p)
			}
			code = int(now)
		}
	}()
	var c cli
	ctx, err := c.parse(args, a)
	if errors.Is(err, syscall.EPIPE) {
		return a.exitCode(err)
	}
	if err != nil {
		for name, is := range elsewhere {
			if strings.HasPrefix(err.Error(), "unexpected argument "+name) {
				return a.exitCode(usagef("there is no command %s: see spool %s --help", name, is))
			}
		}
		return a.exitCode(withUsage(err))
	}
	a.dir, a.json, a.unsafeFS = string(c.Dir), c.JSON, c.UnsafeFS
	if err = a.choose(string(c.Broker), ctx); err == nil {
		err = ctx.Run(a)
	}
	if ferr := a.out.Flush(); err == nil {
		err = ferr
	}
	return a.exitCode(err)
}

// parse takes the command line apart. Where that prints help, it panics with an
// exitNow.
func (c *cli) parse(args []string, a *app) (*kong.Context, error) {
	parser, err := kong.New(c, kong.Name("spool"), kong.Description(description), groups, kong.Vars{"dir": defaultDir},
		kong.Writers(a.stdout, a.errw), kong.Exit(func(code int) { panic(exitNow(code)) }),
		kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}), kong.ShortUsageOnError())
	if err != nil {
		panic(err) // the grammar above is wrong
	}
	return parser.Parse(spelled(args))
}

// spelled turns what people try first into what it is called here.
func spelled(args []string) []string {
	switch {
	case len(args) == 0:
		return []string{"--help"}
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version":
		return []string{"version"}
	}
	return args
}

// elsewhere names the command for what is no command of its own.
var elsewhere = map[string]string{"requeue": "dead requeue", "retry": "dead requeue", "delete": "dead delete"}

// withUsage makes an error of the parser say where to find what would do.
func withUsage(err error) error {
	command := "spool"
	var parse *kong.ParseError
	if errors.As(err, &parse) && parse.Context != nil {
		if node := parse.Context.Selected(); node != nil {
			command = node.FullPath()
		}
	}
	said := parserWords.Replace(err.Error())
	if strings.HasPrefix(said, "unexpected argument") && (command == "spool schedule next" || command == "spool schedule add") {
		said += ": an expression goes in quotes, as '30 2 * * *'"
	}
	return usagef("%s (%s --help shows what can be given)", said, command)
}

// parserWords puts what the parser says in words for people.
var parserWords = strings.NewReplacer("expected value value but", "expected a value but", " (short flag)", "", " (long flag)", "")
