// Package broker is the contract between spool and the stores that can hold
// its jobs. Users import the root package; who implements a store imports this
// one. It imports only the standard library.
//
// # The life of a job
//
//	                 enqueue                    claim                  ack
//	    ┌───────────────┬──────────────┐  ┌───────────────┐   ┌──────────────────▶ done
//	    ▼ delay or At   │              ▼  │               ▼   │
//	scheduled ────────▶ │ due        ready               leased ─────────────────▶ dead
//	    ▲               └─────────────▶ ▲                 │ │   bury, or out of attempts
//	    │                               └─────────────────┘ │
//	    │                                 release, expire   │
//	    └───────────────────────────────────────────────────┘
//	                       nack, snooze
//
//	cancel: scheduled and ready end cancelled at once; a leased job is told, and
//	        ends cancelled when its worker settles it (or done, when it finished)
//	requeue: dead and cancelled become ready again with fresh attempts
//	delete:  any state but leased disappears
//
// # What every broker promises
//
// At least once, fenced: a job runs until it is acked, dead or cancelled. It
// can run twice; the second run has a larger [Token], and whatever the first
// still tries to settle is refused with [ErrLeaseLost].
//
// Durable on return: when Enqueue, Settle or Apply returns nil, what it did
// survives what [Caps].Durability names. Claim and Extend may be forgotten by a
// power cut: the job is then claimed again, with a larger token.
//
// Nothing vanishes: each job that leaves ends in a final state with a reason,
// or was removed by a named command or its retention.
//
// # Order
//
// Among jobs of one queue, equal priority, tenant and group, that one claim
// could take: if enqueue A returned before B began, A is claimed no later than
// B. A due job's place is that of its due time; expire and release return to
// the old place, nack and snooze to that of the new due time. Higher priority
// goes first. The order is of claims, not of starts.
//
// # Clocks
//
// The broker's clock decides, never the caller's. Requests carry intervals;
// the one exception is [NewJob].At. Leases use a clock that goes on from its
// last value when wall time steps back; At uses wall time.
package broker
