package main

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/internal/fuzztest"
)

// FuzzCommandLine takes an arbitrary command line apart, its words separated by zero
// bytes, and does not do what it says: a command, help, or an error that says
// something. Filters are made of what it holds.
func FuzzCommandLine(f *testing.F) {
	for _, line := range []string{
		"list\x00--state\x00ready\x00--task\x00t\x00--older\x001d12h", "show\x0000000000-0000-7000-8000-000000000000", "stats\x00--json", "dead\x00list\x00--error\x00x\xff",
		"list\x00--newer\x00-1s", "explain\x00x", "limit\x00list", "schedule\x00list", "", "help\x00enqueue", "requeue", "--dir", "list\x00--=", "list\x00\xff",
		"enqueue\x00t\x00{}\x00--delay\x005m\x00--header\x00a=b", "work\x00--exec\x00--help", "list\x00--limit\x0099999999999999999999", "serve\x00--addr\x00:1",
		"dead\x00requeue\x00--all\x00--queue\x00q", "cancel\x00--older\x00-1h", "torture\x00--seconds\x00-1",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		words := strings.Split(line, "\x00")
		fuzztest.Bound(t, func() {
			var out, errout bytes.Buffer
			a := system()
			a.in, a.stdout, a.errw = strings.NewReader(""), &out, &errout
			var c cli
			defer func() {
				if p := recover(); p != nil {
					if _, help := p.(exitNow); !help {
						panic(p)
					}
				}
			}()
			if _, err := c.parse(words, a); err != nil {
				if withUsage(err).Error() == "" {
					t.Fatalf("spool %q is refused without a word", words)
				}
				return
			}
			for _, choose := range []choice{c.Cancel.choice, c.Dead.Requeue.choice} {
				got, err := choose.filter()
				if err == nil && (got.OlderThan < 0 || got.NewerThan < 0) {
					t.Fatalf("spool %q chooses %+v", words, got)
				}
			}
		})
	})
}

// FuzzValues reads arbitrary text as each kind of value on the command line: an
// error, or a value of the kind.
func FuzzValues(f *testing.F) {
	for _, text := range []string{"1d12h", "-3d", "36500d", "90s", "2026-11-30T15:04:05Z", "2026-11-30 15:04", "queue-1", "ready", "01890000000070008000000000000000", "d", "1d-1h", "9223372036854775807ns"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		fuzztest.Bound(t, func() {
			var d span
			if d.UnmarshalText([]byte(text)) == nil && !strings.HasPrefix(text, "-") && !strings.Contains(text, "d-") && time.Duration(d) < 0 {
				t.Fatalf("%q is the duration %v", text, time.Duration(d))
			}
			var at instant
			var n name
			var s stateName
			var id jobID
			for _, err := range []error{at.UnmarshalText([]byte(text)), n.UnmarshalText([]byte(text)), s.UnmarshalText([]byte(text))} {
				if err != nil && err.Error() == "" {
					t.Fatalf("%q is refused without a word", text)
				}
			}
			if id.UnmarshalText([]byte(text)) == nil {
				var again jobID
				if err := again.UnmarshalText([]byte(id.String())); err != nil || again != id {
					t.Fatalf("%q is the id %v, which is read as %v, %v", text, id, again, err)
				}
			}
		})
	})
}

// FuzzLines reads arbitrary input as lines of payloads: all of it, in its order,
// but for the ends of lines, and none longer than a payload may be.
func FuzzLines(f *testing.F) {
	f.Add([]byte("a\n\nb\r\nc"), uint16(3))
	f.Add(bytes.Repeat([]byte("x"), 100), uint16(64))
	f.Fuzz(func(t *testing.T, b []byte, size uint16) {
		fuzztest.Bound(t, func() {
			most := int(size)
			in := bufio.NewReaderSize(bytes.NewReader(b), 64)
			var all [][]byte
			for {
				line, err := readLine(in, most)
				if len(line) > most {
					t.Fatalf("a line of %d bytes, at most %d are allowed", len(line), most)
				}
				all = append(all, line)
				if err == io.EOF {
					break
				}
				if err != nil {
					if !errors.Is(err, spool.ErrTooLarge) || len(b) <= most {
						t.Fatalf("%d bytes are refused where a line may have %d: %v", len(b), most, err)
					}
					return
				}
			}
			if got := bytes.Join(all, []byte("\n")); !bytes.Equal(got, b) {
				t.Fatalf("%q came back as %q", b, got)
			}
		})
	})
}
