package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// Bounds of one commit of --lines, where the broker allows so much.
const (
	maxLines     = 1000
	maxLineBytes = 4 << 20
)

// callBounds bound one call of --lines.
type callBounds struct{ lines, bytes int }

// boundsOf are what a broker takes in one call of jobs that have so many bytes
// beside their payloads. The last line may go beyond bytes: there is room for it.
func boundsOf(caps broker.Caps, beside int) callBounds {
	b := callBounds{maxLines, maxLineBytes}
	if caps.MaxBatch > 0 {
		b.lines = min(b.lines, caps.MaxBatch)
	}
	if caps.MaxBytes > 0 {
		b.bytes = max(min(b.bytes, caps.MaxBytes-spool.DefaultPayloadMax-beside), 1)
	}
	return b
}

// payloadLine is one line of the input, without its end.
type payloadLine struct {
	number  int
	payload []byte
	err     error // in place of a line: io.EOF, or what went wrong
}

// lines adds a job for each line. While one commit is on its way the next lines
// gather, so that a pipe is as fast as the disk allows and nothing waits for
// more input. Each job has so many bytes beside its payload.
func (c *enqueueCmd) lines(ctx context.Context, a *app, client *spool.Client, opts []spool.JobOption, beside int) error {
	bounds := boundsOf(client.Broker().Caps(), beside)
	input := make(chan payloadLine, 4*maxLines)
	go readLines(a.in, input, ctx.Done())
	durable, last := 0, 0
	stop := func(err error) error {
		if durable > 0 || err != nil {
			a.note("%s enqueued, up to line %d", text.Plural(int64(durable), "job", "jobs"), last)
		}
		if durable > 0 && err == nil {
			c.warn(ctx, a, client)
		}
		return err
	}
	for {
		batch, end := gather(ctx, input, bounds, beside)
		for len(batch) > 0 {
			n, err := c.some(ctx, a, client, batch, opts)
			if n > 0 {
				durable, last, batch = durable+n, batch[n-1].number, batch[n:]
			}
			if err != nil {
				return stop(err)
			}
		}
		switch {
		case errors.Is(end, io.EOF):
			return stop(nil)
		case end != nil:
			return stop(end)
		}
	}
}

// some adds and prints the first lines of a batch, and says how many: all, or
// as many as a queue that is nearly full takes.
func (c *enqueueCmd) some(ctx context.Context, a *app, client *spool.Client, batch []payloadLine, opts []spool.JobOption) (int, error) {
	for n := len(batch); ; n /= 2 {
		specs := make([]spool.Spec, n)
		for i, l := range batch[:n] {
			specs[i] = spool.Raw(string(c.Task), l.payload, opts...)
		}
		answers, err := client.Enqueue(ctx, specs...)
		var full *broker.FullError
		if errors.As(err, &full) {
			if n > 1 {
				continue
			}
			answers, err = c.enqueue(ctx, a, client, specs...) // there is no smaller part to try: wait, if that is wanted
		}
		if err != nil && n == 1 {
			return 0, fmt.Errorf("line %d: %w", batch[0].number, err)
		}
		if err != nil {
			return 0, fmt.Errorf("lines %d to %d: %w", batch[0].number, batch[n-1].number, err)
		}
		return n, c.print(a, answers)
	}
}

// gather returns the lines that are there, at least one and at most what one
// call takes, and what ended the input, if it has ended.
func gather(ctx context.Context, input <-chan payloadLine, most callBounds, beside int) (batch []payloadLine, end error) {
	size := 0
	for len(batch) < most.lines && size < most.bytes {
		var l payloadLine
		select {
		case l = <-input:
		default:
			if len(batch) > 0 {
				return batch, nil
			}
			select {
			case l = <-input:
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		}
		if l.err != nil {
			return batch, l.err
		}
		batch, size = append(batch, l), size+len(l.payload)+beside
	}
	return batch, nil
}

// readLines sends every line that is not empty, then the end. A line that is
// longer than a payload may be ends the input before it.
func readLines(in io.Reader, to chan<- payloadLine, done <-chan struct{}) {
	send := func(l payloadLine) bool {
		select {
		case to <- l:
			return true
		case <-done:
			return false
		}
	}
	r := bufio.NewReaderSize(in, 64<<10)
	for n := 1; ; n++ {
		line, err := readLine(r, spool.DefaultPayloadMax)
		if len(line) > 0 && (err == nil || errors.Is(err, io.EOF)) {
			if !send(payloadLine{number: n, payload: line}) {
				return
			}
		}
		if err != nil {
			if !errors.Is(err, io.EOF) {
				err = fmt.Errorf("line %d: %w", n, err)
			}
			send(payloadLine{err: err})
			return
		}
	}
}

// readLine returns a line of at most max bytes without its end.
func readLine(r *bufio.Reader, max int) (line []byte, err error) {
	for {
		part, err := r.ReadSlice('\n')
		line = append(line, part...)
		if err == nil {
			line = line[:len(line)-1]
		}
		if len(line) > max {
			return nil, fmt.Errorf("%w: it is longer than %s", spool.ErrTooLarge, text.Bytes(int64(max)))
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, err
		}
	}
}
