package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/internal/text"
)

// app is what a command works with. Its first part comes from the system (or
// from a test), its second from the command line.
type app struct {
	in     io.Reader
	stdout io.Writer
	errw   io.Writer
	now    func() time.Time

	dir      string
	url      string // of the broker; "": the store in dir
	json     bool
	unsafeFS bool          // stores may be on file systems that are refused otherwise
	remember bool          // the store's calls, for clients of a server
	out      *bufio.Writer // on stdout; flushed at the end of a command
}

// access says what a command does to a store.
type access uint8

const (
	reading  access = iota // looks at it and changes not a byte
	changing               // needs one that is there
	creating               // makes one where there is none
)

// system returns the app of a process.
func system() *app {
	return &app{in: os.Stdin, stdout: os.Stdout, errw: os.Stderr, now: time.Now}
}

// open opens the store for a command, which closes it.
func (a *app) open(ctx context.Context, how access, cfg spool.Config) (*spool.Client, error) {
	b, err := a.openBroker(ctx, how)
	if err != nil {
		return nil, err
	}
	return spool.New(b, cfg), nil
}

// openServed is open for a server: what is in a directory remembers the calls of
// clients whose answers can be lost.
func (a *app) openServed(ctx context.Context, cfg spool.Config) (*spool.Client, error) {
	a.remember = true
	return a.open(ctx, creating, cfg)
}

// with opens the store, calls fn, and closes it. The context ends with SIGINT
// or SIGTERM; a second one ends the process.
func (a *app) with(how access, fn func(ctx context.Context, c *spool.Client) error) error {
	ctx, stop := interruptible()
	defer stop()
	c, err := a.open(ctx, how, spool.Config{})
	if err != nil {
		return causeOf(ctx, err)
	}
	return errors.Join(fn(ctx, c), c.Close())
}

// interruptible returns a context that SIGINT and SIGTERM end. After the first
// signal the next one has its usual effect.
func interruptible() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		select {
		case s := <-signals:
			cancel(interrupted{s})
		case <-ctx.Done():
		}
		signal.Stop(signals)
	}()
	return ctx, func() { cancel(nil) }
}

// interrupted is the cause of a context that a signal ended.
type interrupted struct{ signal os.Signal }

func (i interrupted) Error() string { return "stopped by " + i.signal.String() }

// print writes a line of text for people.
func (a *app) printf(format string, args ...any) error {
	_, err := a.out.WriteString(text.Page(fmt.Sprintf(format+"\n", args...)))
	return err
}

// note writes a line to the standard error. What becomes of it does not matter.
func (a *app) note(format string, args ...any) {
	_, _ = io.WriteString(a.errw, text.Page(fmt.Sprintf("spool: "+format+"\n", args...)))
}

// object writes v as one line of JSON, exactly.
func (a *app) object(v any) error {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	_, err := a.out.Write(text.JSON(b.Bytes()))
	return err
}
