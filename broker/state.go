package broker

import "fmt"

// State is where a job is in its life. The zero State is no state.
type State uint8

// The six states. Scheduled becomes ready when it is due, without any call.
const (
	Scheduled State = 1 + iota // has a future run-at: a delay, At, a retry or a snooze
	Ready                      // may be claimed
	Leased                     // claimed; a worker has the right to run it until the lease ends
	Done                       // final: acked
	Dead                       // final: out of attempts or buried; a dead letter
	Cancelled                  // final: cancelled, dropped, or not started in time
)

// States lists the six states in the order of a job's life.
var States = [...]State{Scheduled, Ready, Leased, Done, Dead, Cancelled}

var stateNames = [...]string{"", "scheduled", "ready", "leased", "done", "dead", "cancelled"}

// String returns the state's name, as JSON, the CLI and metrics write it.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return fmt.Sprintf("state(%d)", uint8(s))
}

// ParseState reads what String writes.
func ParseState(name string) (State, error) {
	for _, s := range States {
		if s.String() == name {
			return s, nil
		}
	}
	return 0, fmt.Errorf("%.64q: no such state (scheduled, ready, leased, done, dead, cancelled)", name)
}

// Final reports whether s is a state that only a requeue leaves.
func (s State) Final() bool { return s >= Done }

// MarshalText implements encoding.TextMarshaler.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *State) UnmarshalText(b []byte) (err error) { *s, err = ParseState(string(b)); return err }

// Reasons why a job is in its state, as [Job].Reason has them. Text of the
// caller (a cause, an operator's reason) stands in [Job].Error.
const (
	ReasonAcked       = "acked"
	ReasonRetry       = "retry"        // scheduled again by a nack
	ReasonSnoozed     = "snoozed"      // scheduled again by a snooze
	ReasonReleased    = "released"     // given back
	ReasonExpired     = "expired"      // its lease ended without a settlement
	ReasonAttempts    = "attempts"     // dead: a failed attempt was the last allowed one
	ReasonCrashed     = "crashed"      // dead: the last allowed attempt ended by its lease's expiry
	ReasonBuried      = "buried"       // dead: the handler or an operator said so
	ReasonDamaged     = "damaged"      // dead: its payload is lost, or no longer matches its checksum
	ReasonCancelled   = "cancelled"    // by a command or the handler
	ReasonDropped     = "dropped"      // cancelled: the oldest went when a full queue took a new job
	ReasonNotStarted  = "not_started"  // cancelled: not started within its StartWithin
	ReasonRequeued    = "requeued"     // brought back by a requeue
	ReasonReplaced    = "replaced"     // its payload was replaced by a repeat of its key
	ReasonWorkerDied  = "worker_died"  // ready again: the process that held its lease ended
	ReasonBatch       = "batch"        // ready: every member of its batch is final
	ReasonCancelAsked = "cancel_asked" // leased: its worker is to stop
	ReasonDuplicate   = "duplicate"    // cancelled: it came by a move, and another job held its key
)
