package broker

import (
	"errors"
	"fmt"
	"math"
	"time"
)

// Sizes that every broker keeps to.
const (
	MaxNameBytes   = 128     // of the names of queues, tasks, workers, settings and their owners; of a worker's id
	MaxTagBytes    = 256     // of a tenant, a group, a key; of a worker's host
	MaxHeaderBytes = 8 << 10 // all names and values of one job
	MaxErrorBytes  = 8 << 10 // longer error texts are cut, so that a failure can always be recorded
	MaxNoteBytes   = 256     // of a progress note; longer ones are cut
	MaxBatchJobs   = 10_000  // jobs of one enqueue
	MaxReasonBytes = 1 << 10 // of a command's reason, which is kept with each job
	MaxSpecBytes   = 1 << 10 // of a schedule's expression
	MaxCallBytes   = 8 << 20 // what one call carries: see NewJob.Size; results, error texts, notes, log lines
	MaxClaimTasks  = 256     // tasks named by one claim
	MaxClaimJobs   = 1000    // jobs taken by one claim
	MaxPageJobs    = 1000    // jobs of one page of List
	MaxPageExamine = 10_000  // records that one page of List or one step of Apply looks at
	MaxWorkerNames = 10_000  // queues that a worker names, and tasks
	MaxLimitTasks  = 256     // bound by one limit
	MaxMissed      = 1000    // instants of a schedule that are run late
	MaxDelay       = 100 * 365 * 24 * time.Hour
	MaxAttempts    = math.MaxInt32

	MaxChangeSettings = 1000 // named by one Change
)

// ValidName reports, as an error that says what is allowed, whether s can name
// a queue, a task or a worker: 1 to 128 characters of A-Z a-z 0-9 _ . and -,
// and not "." or "..".
func ValidName(s string) error {
	if s == "" {
		return errors.New("is empty: allowed are 1 to 128 characters of A-Z a-z 0-9 _ . -")
	}
	if len(s) > MaxNameBytes {
		return fmt.Errorf("%.32q… has %d characters: allowed are 1 to %d", s, len(s), MaxNameBytes)
	}
	if s == "." || s == ".." {
		return fmt.Errorf("%q is not allowed", s)
	}
	for i := range len(s) {
		if !nameChar[s[i]] {
			return fmt.Errorf("%q has %q at position %d: allowed are A-Z a-z 0-9 _ . -", s, s[i], i+1)
		}
	}
	return nil
}

var nameChar = func() (ok [256]bool) {
	for c := range ok {
		ok[c] = c >= 'A' && c <= 'Z' || c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '_' || c == '.' || c == '-'
	}
	return ok
}()

// Validate checks everything about j that needs no store: names, sizes,
// ranges, and options that contradict each other. Its error wraps ErrInvalid
// and names the field. payloadMax is in bytes; 0 means MaxCallBytes.
func (j *NewJob) Validate(payloadMax int) error {
	if payloadMax <= 0 || payloadMax > MaxCallBytes {
		payloadMax = MaxCallBytes
	}
	if err := ValidName(j.Task); err != nil {
		return fmt.Errorf("%w: task name %w", ErrInvalid, err)
	}
	if len(j.Payload) > payloadMax {
		return fmt.Errorf("%w: payload has %d bytes, the limit is %d", ErrTooLarge, len(j.Payload), payloadMax)
	}
	if n := headerBytes(j.Headers); n > MaxHeaderBytes {
		return fmt.Errorf("%w: headers have %d bytes, the limit is %d", ErrTooLarge, n, MaxHeaderBytes)
	}
	for _, t := range [...]struct{ field, value string }{{"tenant", j.Tenant}, {"group", j.Group}, {"key", j.Key}} {
		if len(t.value) > MaxTagBytes {
			return fmt.Errorf("%w: %s has %d bytes, the limit is %d", ErrInvalid, t.field, len(t.value), MaxTagBytes)
		}
	}
	return j.validateTimes()
}

func (j *NewJob) validateTimes() error {
	for _, d := range [...]struct {
		field string
		value time.Duration
	}{{"delay", j.Delay}, {"timeout", j.Timeout}, {"start-within", j.StartWithin}, {"key hold", j.KeyFor}} {
		if d.value < 0 {
			return fmt.Errorf("%w: %s %v is negative", ErrInvalid, d.field, d.value)
		}
		if d.value > MaxDelay {
			return fmt.Errorf("%w: %s %v is longer than 100 years", ErrInvalid, d.field, d.value)
		}
	}
	switch {
	case j.Delay > 0 && !j.At.IsZero():
		return fmt.Errorf("%w: both a delay (%v) and a time (%v) are given; use one", ErrInvalid, j.Delay, j.At)
	case !j.At.IsZero() && (j.At.Year() < 1970 || j.At.Year() > 2200):
		return fmt.Errorf("%w: run time %v is outside the years 1970 to 2200", ErrInvalid, j.At)
	case j.Retain > MaxDelay:
		return fmt.Errorf("%w: retention %v is longer than 100 years", ErrInvalid, j.Retain)
	case j.MaxAttempts < 0 || j.MaxAttempts > MaxAttempts:
		return fmt.Errorf("%w: max attempts is %d, allowed are 1 to %d (0 means %d)", ErrInvalid, j.MaxAttempts, MaxAttempts, DefaultMaxAttempts)
	case j.KeyHold > HoldFor:
		return fmt.Errorf("%w: key hold %d is unknown", ErrInvalid, j.KeyHold)
	case j.KeyRepeat > RepeatDebounce:
		return fmt.Errorf("%w: key repeat %d is unknown", ErrInvalid, j.KeyRepeat)
	case !j.Batch.IsZero() && j.BatchSize > 0 && j.Batch == j.ID:
		return fmt.Errorf("%w: a batch inside itself", ErrInvalid)
	case j.Key != "" && (j.BatchSize > 0 || !j.Batch.IsZero()):
		return fmt.Errorf("%w: a job of a batch has the key %q: who holds that already would stand in for it, and is in no batch", ErrInvalid, j.Key)
	case j.KeyHold == HoldFor && j.KeyFor == 0:
		return fmt.Errorf("%w: the key is to be held for a duration, but none is given", ErrInvalid)
	}
	return nil
}

// Size is what j counts towards MaxCallBytes: its payload, headers (8 more for
// each), tenant, group and key.
func (j *NewJob) Size() int {
	return len(j.Payload) + headerBytes(j.Headers) + 8*len(j.Headers) + len(j.Tenant) + len(j.Group) + len(j.Key)
}

func headerBytes(h map[string]string) (n int) {
	for k, v := range h {
		n += len(k) + len(v)
	}
	return n
}

// CutError cuts an error text at MaxErrorBytes and says so in its last bytes.
// It never splits the caller's bytes otherwise: they are opaque.
func CutError(s string) string {
	if len(s) <= MaxErrorBytes {
		return s
	}
	const mark = "… (cut)"
	return s[:MaxErrorBytes-len(mark)] + mark
}
