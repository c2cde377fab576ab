package jobstate

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// ClaimAny serves a claim: its queues in order, all of them by name when it
// names none. more says that a bound was reached; r.Max has to be in range.
func (s *State) ClaimAny(w *Writer, now Now, r *broker.ClaimRequest, member string) (got []Ticket, more bool) {
	queues := r.Queues
	if queues == nil {
		queues = s.Queues()
	}
	room := int64(broker.MaxCallBytes)
	for _, name := range queues {
		if len(got) == r.Max || room <= 0 {
			break
		}
		some, blocked := s.Claim(w, now, Claim{
			Queue: name, Tasks: r.Tasks, Max: r.Max - len(got), TTL: r.TTL, Worker: r.Worker, Member: member, Bytes: room,
		})
		for i := range some {
			room -= int64(some[i].Body.Len)
		}
		if more = more || blocked; got == nil {
			got = some
		} else {
			got = append(got, some...)
		}
	}
	return got, more || len(got) == r.Max || room <= 0
}

// NextDueAny is NextDue over several queues, all of them for nil.
func (s *State) NextDueAny(now Now, queues []string) (next time.Duration) {
	if queues == nil {
		queues = s.Queues()
	}
	for _, name := range queues {
		if d := s.NextDue(now, name); d > 0 && !s.Paused(name) && (next == 0 || d < next) {
			next = d
		}
	}
	return next
}

// commandStates says which states a command reaches.
var commandStates = map[broker.CommandKind][]broker.State{
	broker.CancelJobs:  {broker.Scheduled, broker.Ready, broker.Leased},
	broker.RequeueJobs: {broker.Dead, broker.Cancelled},
	broker.DeleteJobs:  {broker.Scheduled, broker.Ready, broker.Done, broker.Dead, broker.Cancelled},
}

// Candidates returns the jobs that a step of a command is about, without
// changing any, and where the next step goes on. The caller checks error
// texts, and then calls Command.
func (s *State) Candidates(now Now, cmd *broker.Command) (found []Ticket, next string, err error) {
	states := commandStates[cmd.Kind]
	if len(cmd.Filter.States) > 0 {
		states = slices.DeleteFunc(slices.Clone(states), func(st broker.State) bool { return !slices.Contains(cmd.Filter.States, st) })
	}
	limit := min(cmd.Limit, broker.MaxPageJobs)
	if limit == 0 {
		limit = broker.MaxPageJobs
	}
	i, cursor := 0, ""
	if cmd.Cursor != "" {
		at, rest, _ := strings.Cut(cmd.Cursor, ":")
		if i, err = strconv.Atoi(at); err != nil || i < 0 || i >= len(states) {
			return nil, "", fmt.Errorf("%w: cursor %.64q is not from this command", broker.ErrInvalid, cmd.Cursor)
		}
		cursor = rest
	}
	for ; i < len(states); i++ {
		page, rest, err := s.Select(now, cmd.Filter, states[i], cursor, limit-len(found))
		if err != nil {
			return nil, "", err
		}
		found = append(found, page...)
		if rest != "" {
			return found, fmt.Sprintf("%d:%s", i, rest), nil
		}
		cursor = ""
		if len(found) == limit && i+1 < len(states) {
			return found, fmt.Sprintf("%d:", i+1), nil
		}
	}
	return found, "", nil
}

// Command applies a command to the jobs named, as far as they are still in a
// state that it reaches. It returns how many it changed.
func (s *State) Command(w *Writer, now Now, cmd *broker.Command, ids []broker.ID) int {
	queue := cmd.Filter.Queue
	switch cmd.Kind {
	case broker.CancelJobs:
		return s.Cancel(w, queue, ids, cmd.Reason)
	case broker.RequeueJobs:
		return s.Requeue(w, now, queue, ids)
	case broker.DeleteJobs:
		return s.Delete(w, queue, ids)
	case broker.PauseQueue, broker.ResumeQueue:
		if s.Pause(w, queue, cmd.Kind == broker.PauseQueue) {
			return 1
		}
	}
	return 0
}

// CheckCommand reports what is wrong with a command.
func CheckCommand(cmd *broker.Command) error {
	if cmd.Kind < broker.CancelJobs || cmd.Kind > broker.ResumeQueue {
		return fmt.Errorf("%w: command %d is unknown", broker.ErrInvalid, cmd.Kind)
	}
	if cmd.Filter.Settings || cmd.Filter.Reason != "" {
		return fmt.Errorf("%w: a filter of settings or of a reason is for watching them", broker.ErrInvalid)
	}
	if n := len(cmd.Reason); n > broker.MaxReasonBytes {
		return fmt.Errorf("%w: reason has %d bytes, the limit is %d", broker.ErrInvalid, n, broker.MaxReasonBytes)
	}
	if cmd.Limit < 0 {
		return fmt.Errorf("%w: limit %d is negative", broker.ErrInvalid, cmd.Limit)
	}
	if err := broker.ValidName(cmd.Filter.Queue); err != nil {
		return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
	}
	return nil
}

// CheckClaim reports what is wrong with a claim, and puts defaults in.
func CheckClaim(r *broker.ClaimRequest) error {
	if r.TTL == 0 {
		r.TTL = broker.DefaultLeaseTTL
	}
	switch {
	case r.Max < 1 || r.Max > broker.MaxClaimJobs:
		return fmt.Errorf("%w: a claim of %d jobs, allowed are 1 to %d", broker.ErrInvalid, r.Max, broker.MaxClaimJobs)
	case len(r.Tasks) > broker.MaxClaimTasks:
		return fmt.Errorf("%w: a claim that names %d tasks, allowed are %d", broker.ErrInvalid, len(r.Tasks), broker.MaxClaimTasks)
	case len(r.Worker) > broker.MaxNameBytes:
		return fmt.Errorf("%w: worker id has %d bytes, the limit is %d", broker.ErrInvalid, len(r.Worker), broker.MaxNameBytes)
	case r.TTL < 0 || r.TTL > broker.MaxDelay:
		return fmt.Errorf("%w: lease of %v", broker.ErrInvalid, r.TTL)
	}
	return nil
}

// CheckSettle reports what is wrong with settlements, before any is judged.
func CheckSettle(list []broker.Settlement) error {
	n, size := len(list), 0
	for i := range list {
		st := &list[i]
		n += len(st.FollowUps)
		if st.Kind < broker.Ack || st.Kind > broker.Cancel {
			return fmt.Errorf("%w: settlement %d is unknown", broker.ErrInvalid, st.Kind)
		}
		if st.Delay < 0 {
			return fmt.Errorf("%w: delay %v is negative", broker.ErrInvalid, st.Delay)
		}
		if len(st.FollowUps) > 0 && st.Kind != broker.Ack {
			return fmt.Errorf("%w: %v with follow-ups; only an ack takes them", broker.ErrInvalid, st.Kind)
		}
		size += len(st.Result) + min(len(st.Error), broker.MaxErrorBytes)
		for k := range st.FollowUps {
			f := &st.FollowUps[k]
			if err := broker.ValidName(f.Queue); err != nil {
				return fmt.Errorf("%w: queue name %w", broker.ErrInvalid, err)
			}
			if err := f.Job.Validate(0); err != nil {
				return fmt.Errorf("follow-up %d: %w", k+1, err)
			}
			if f.Job.BatchSize > 0 || !f.Job.Batch.IsZero() {
				return fmt.Errorf("follow-up %d: %w: a batch is enqueued in one call with all its members, not as a follow-up", k+1, broker.ErrInvalid)
			}
			size += f.Job.Size()
		}
	}
	if n > broker.MaxBatchJobs {
		return fmt.Errorf("%w: %d settlements and follow-ups in one call, the limit is %d", broker.ErrTooLarge, n, broker.MaxBatchJobs)
	}
	if size > broker.MaxCallBytes {
		return fmt.Errorf("%w: %d bytes in one call, the limit is %d", broker.ErrTooLarge, size, broker.MaxCallBytes)
	}
	return nil
}

// Fill reads what a ticket's job has outside the state. read returns the
// checked bytes of a location, which Fill keeps.
func (t *Ticket) Fill(read func(Loc) ([]byte, error)) error {
	b, err := read(t.Body)
	if err == nil {
		err = DecodeBody(b, &t.Job)
	}
	if err != nil {
		return fmt.Errorf("payload of job %s: %w", t.Job.ID, err)
	}
	if !t.Err.Zero() {
		if b, err = read(t.Err); err != nil {
			return fmt.Errorf("error text of job %s: %w", t.Job.ID, err)
		}
		t.Job.Error = string(b)
	}
	if !t.Result.Zero() {
		if t.Job.Result, err = read(t.Result); err != nil {
			return fmt.Errorf("result of job %s: %w", t.Job.ID, err)
		}
	}
	return nil
}

// CheckList reports what is wrong with a request for a page.
func CheckList(f *broker.Filter, n int) error {
	switch {
	case len(f.States) != 1 || f.States[0] < broker.Scheduled || f.States[0] > broker.Cancelled:
		return fmt.Errorf("%w: a list is of exactly one state, not %d", broker.ErrInvalid, len(f.States))
	case f.Settings || f.Reason != "":
		return fmt.Errorf("%w: a filter of settings or of a reason is for watching them", broker.ErrInvalid)
	case f.Queue == "":
		return fmt.Errorf("%w: a list is of one queue, and none is named", broker.ErrInvalid)
	case n < 1 || n > broker.MaxPageJobs:
		return fmt.Errorf("%w: a page of %d jobs, allowed are 1 to %d", broker.ErrInvalid, n, broker.MaxPageJobs)
	}
	return nil
}

// ErrorMatches reports whether part stands in the job's error text, which
// read returns. An empty part matches every job.
func ErrorMatches(t *Ticket, part string, read func(Loc) ([]byte, error)) bool {
	if part == "" {
		return true
	}
	if t.Err.Zero() {
		return false
	}
	text, err := read(t.Err)
	return err == nil && strings.Contains(string(text), part)
}
