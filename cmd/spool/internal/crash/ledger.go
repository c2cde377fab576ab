package crash

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/vfs"
)

// The verbs of a ledger. A line is the verb, the machine's monotonic clock in
// nanoseconds, and the fields named here. What is tried is written before the
// call, what is acknowledged after it.
const (
	tryEnqueue = "e" // call id kind key: one line for each job of the call
	ackEnqueue = "E" // call id...: the ids answered, in order
	claimed    = "c" // id token attempt begun: a worker holds the job; begun is the clock before its claim
	trySettle  = "s" // id token settlement
	ackSettle  = "S" // id token settlement state
	refused    = "R" // id token: the lease was lost
	tryCommand = "o" // id command
	ackCommand = "O" // id command changed
	fault      = "!" // text: an error that nobody should get
)

// ledger is one process's notes. Safe for concurrent use.
type ledger struct {
	mu    sync.Mutex
	file  *os.File
	clock vfs.Clock
	call  int
}

// newLedger makes the ledger of one start of a process; its name is never used
// twice.
func newLedger(dir, role string) (*ledger, error) {
	f, err := os.OpenFile(filepath.Join(dir, role+"-"+broker.NewID().String()+".ledger"), os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make a ledger: %w", err)
	}
	return &ledger{file: f, clock: vfs.OS()}, nil
}

// entry is one line to write.
type entry struct {
	verb   string
	fields []any
}

func note(verb string, fields ...any) entry { return entry{verb, fields} }

// write appends entries in one write. A ledger that cannot be written makes the
// whole run worthless, so that its error ends the process.
func (l *ledger) write(entries ...entry) error {
	now := int64(l.clock.Monotonic())
	var b bytes.Buffer
	for _, e := range entries {
		b.WriteString(e.verb)
		b.WriteByte(' ')
		b.WriteString(strconv.FormatInt(now, 10))
		for _, f := range e.fields {
			b.WriteByte(' ')
			fmt.Fprint(&b, f)
		}
		b.WriteByte('\n')
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(b.Bytes()); err != nil {
		return fmt.Errorf("write the ledger: %w", err)
	}
	return nil
}

// nextCall numbers the calls of this ledger.
func (l *ledger) nextCall() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.call++
	return l.call
}

func (l *ledger) fault(err error) error {
	return l.write(note(fault, strings.ReplaceAll(err.Error(), "\n", " ")))
}

// line is one line read back.
type line struct {
	verb   string
	at     time.Duration // the machine's monotonic clock
	fields []string
}

// parseLine reads what write wrote.
func parseLine(s string) (line, error) {
	parts := strings.Split(s, " ")
	if len(parts) < 3 {
		return line{}, fmt.Errorf("ledger: %.80q is no line", s)
	}
	at, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return line{}, fmt.Errorf("ledger: %.80q has no time: %w", s, err)
	}
	return line{verb: parts[0], at: time.Duration(at), fields: parts[2:]}, nil
}

// readLedger calls each for every whole line of one ledger.
func readLedger(name string, each func(line) error) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	if _, err := eachLine(f, each); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// eachLine calls each for every whole line and returns how many bytes they
// have. A last line without its end is not whole yet, or was cut by the death
// of its writer: before the call that it announces, or after one that nobody
// was told of.
func eachLine(r io.Reader, each func(line) error) (n int64, err error) {
	for b := bufio.NewReaderSize(r, 64<<10); ; {
		s, err := b.ReadString('\n')
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
		l, err := parseLine(s[:len(s)-1])
		if err != nil {
			return n, err
		}
		if err := each(l); err != nil {
			return n, err
		}
		n += int64(len(s))
	}
}

// ledgers names the ledgers of a directory.
func ledgers(dir string) ([]string, error) { return filepath.Glob(filepath.Join(dir, "*.ledger")) }
