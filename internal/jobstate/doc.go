// Package jobstate is the state machine of the queues: which jobs there are,
// where each is in its life, and what may be claimed next. It does no I/O and
// reads no clock: every decision is handed its time ([Now]), and writes the
// outcome as records to a [Writer]. Replaying the same records with
// [State.Apply] gives the same state, byte for byte as [State.Encode] writes
// it; that is the whole of recovery.
//
// A decision (Enqueue, Claim, Settle, …) looks at the state, encodes a record
// and applies it at once through the very functions that replay uses. When the
// bytes then cannot be stored, the State is of no use any more and has to be
// built anew from the log.
//
// A State is not safe for concurrent use.
//
// # What is kept, what is derived
//
// Records say which jobs changed and their new values. Becoming ready is no
// record: a waiting job has a due time, and each query takes "now"; the split
// into scheduled and ready is an index that [State.promote] moves forward,
// here and at the start of every frame.
// Every expiry is a record. Payloads, results and error texts stay where they
// were written: the state keeps a [Loc].
//
// # The format of a frame's body (part of the format)
//
//	base    int64   broker time, nanoseconds since 1970; times below are relative to it
//	wall    int64   wall time of the same moment
//	record  type uint8, length uint24 (of what follows), fields …
//
// Fields: uvarint for counts and sizes, zigzag varint for times (relative to
// base), 16 raw bytes for ids. A string is a uvarint k: 0 introduces a new one
// (uvarint length, bytes), which becomes the next of at most 15 of this frame;
// k from 1 to 15 repeats the k-th; 16 introduces one that is not remembered.
// Bytes with a location are length uint32, CRC-32C uint32,
// bytes.
//
//	 1 enqueue  queue task id flags place [runAt priority tenant group key hold
//	            keyFor digest maxAttempts retain startWithin batch ordinal size] body
//	 2 claim    queue worker member expires n × (id epoch claims attempt)
//	            n × (priority at tenant service) n × (limit value at debt part)
//	 3 wait     queue id reason kind flags place runAt attempts failures [error]
//	 4 final    queue id state reason kind flags failures [keepUntil error result]
//	 5 drop     queue why n × id
//	 6 extend   queue expires n × id
//	 7 ask      queue id has [text]               (cancel a leased job)
//	 8 note     queue id percent text n × line
//	 9 pause    queue on
//	10 worker   id name host pid member queues tasks concurrency startedAt
//	11 leave    worker id
//	12 epoch    epoch member boot offset forgot          (opens an epoch, or joins it)
//	13 gone     member                            (a handle ended)
//	14 hold     queue id member                   (a lease names a lock)
//	15 set      queue layer kind name json        (a setting; no json removes it)
//	16 tick     queue schedule next               (a cursor moves)
//	17 replace  queue id flags [place runAt] digest body
//	18 stop     queue schedule on                 (an operator stops a schedule)
//	19 start    queue owner id at                 (of a program that declared)
//	20 move     queue state on id turned peer batch jobs settled runner until delta base first room
//	21 take     queue batch n × id n × (task key) signals n × (kind name) settled  (leaves by a move)
//	22 arrive   queue task id parts state reason flags seq maxAttempts place enqueuedAt runAt changedAt
//	            [priority tenant group] [claimedAt token attempts failures ended] [key hold for digest] [until]
//	            [batch ordinal] [size seen] [retain startWithin] [keepUntil] [worker percent note n × line]
//	            [error] [result] body
//	23 signal   queue id ordinal                  (a batch's member ended at the other side)
//	24 key      queue task key id digest until    (held for a time, of a job that is gone)
//	25 adopt    queue kind name json              (a setting that arrives, both layers)
//	26 put      queue batch n                     (it has arrived)
//	27 call     id kind answer                    (a call that may be made again; answer.go)
//
// Body is: timeout uvarint, headers uvarint n × (code uint8, [name], value),
// payload to the end. Codes name the headers that every job has.
package jobstate
