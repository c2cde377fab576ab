// Package redisbroker keeps queues on Redis 7.0 or newer, or Valkey: one server,
// one with sentinels, or a cluster.
//
// # How it works
//
// Each transition is one Lua script (the files in lua, with their arguments and
// answers above them), which takes any number of packed calls: concurrent calls of
// a process travel together. The server's clock decides everything. Every call that
// changes something carries its call id, which the script remembers with its answer
// for some minutes: a repeat gives that answer and changes nothing.
//
// A job is one record. Every set below is an index of the records, changed in the
// script that changes the record; Maintain proves the indexes by the records, and
// records by the indexes, some at a time, and puts right what does not fit. No
// script does more than a few milliseconds of work, whatever the backlog: calls
// have at most 256 jobs, a claim takes at most 256, a step of a command changes at
// most 128, a move takes or puts at most 64, and each looks at no more than some
// hundred records besides. A change of settings takes longer: where ageing
// begins or ends it goes through all lanes (35 µs each), where limits change through
// all running jobs (7 µs each). So does a claim that takes any task where there are
// thousands (10 µs each), and one with ageing where there are thousands of priorities.
//
// # What differs from other brokers
//
// A call for several queues is one commit for each (Caps.OneCommit is false).
// Follow-ups to another queue are written to an outbox in the commit of the
// settlement, and delivered by whoever comes first, once: see lua/deliver.lua.
// A lease that is not Remote ends when its client is closed, but not when its
// process dies (Caps.HandleLeases is false): then its deadline ends it. Times are
// kept to the microsecond. A batch has at most 255 members, since it is enqueued in
// one call.
//
// # A queue that is spread
//
// All of a queue has one slot of a cluster, and so one node. Broker.SetSpread makes of a
// queue without jobs one of several parts, which are queues with slots of their own.
// Clients find that by themselves, whatever they knew before. What that costs:
//
// Order, priorities, ageing and the turns of tenants hold within a part alone: a claim
// takes what one part has, from one after the other, and begins anywhere. Lists and
// commands walk through one part after the other. Limits and capacities need one
// place, and are refused; so are moves, and schedules whose jobs have a key or are ordered.
//
// A job is in the part that its id says. Its key, its ordered group or its batch binds
// it to a part, and ids that the library made (broker.NewJob.HasNewID) are changed to fit:
// Enqueued has the one that holds. ErrInvalid refuses an id that was chosen and does not
// fit, a job that has a key and is ordered, and a batch of several ordered groups. A
// call whose jobs are bound to several parts is one commit for each of these, and
// ErrUnknown when it fails after the first; else it is all or none, as ever.
//
// Broker.ClearSpread gathers a queue without jobs again.
//
// # The names of keys (format 2; 3 while the queue rests for a move)
//
// A queue's keys begin with NAMESPACE:{QUEUE}: so that they share a slot. The
// registry has the name * in the place of a queue. Behind that stands
//
//	c              string  the configuration and the kept numbers (lua/queue.lua); its first byte is the format
//	I              list    the inbox: times and calls of plain jobs that are not taken in yet (lua/plain.lua)
//	0              -       never there: with c it makes a server refuse a script while the slot moves
//	m              channel wake-ups; that of the registry: events for those who watch
//	j ID           string  a job's record: header of 84 bytes, tenant, group, ext, body (lua/job.lua)
//	x ID           hash    what changes and is rare: error e, result r, last worker w, progress p, log l, batch b and n
//	i 64MS         hash    call to its answer, for 5 to 6 minutes; the calls whose ids were made within 64 ms
//	T, t           hash    task to its number; number to task
//	n              hash    task to its numbers by state, and totals
//	q              hash    tenant (but "") to what it has in the queue
//	l LANE         zset    the ready jobs of a lane by place; LANE is task, priority, ordered, tenant, group
//	o TASK …       zset    where the open lanes of a task stand, p GATE TASK … those parked at a gate (lua/stand.lua)
//	h PRIORITY     zset    all lanes of a priority by their heads; r: the priorities
//	u, v PRIORITY  hash    how far the virtual time of a priority is; the service of each tenant
//	L STATE        zset    jobs in the order in which they came into a state (of the ready: those that l has in another)
//	d0, d1         zset    scheduled jobs by due time, on the steady and on the wall clock
//	e, w           zset, hash  leases by their ends; by job, the worker
//	s0, s1, k      zset    deadlines of starts; ends of retentions
//	K, U           hash, zset  idempotency keys; those held for a time, by its end
//	Y, y GATE, X      hash, sets  parked lanes; tasks parked at a gate; all such gates
//	F, FX, W          sets, zset  gates that may have room, or have to be looked at; rates by when they allow a claim
//	m LIMIT, H     hash    what a limit has counted, by tenant or group; ordered group to its holder
//	S, R, A, V, N, C  strings, hashes  settings as JSON; limits, capacities, weights, retentions, schedules as scripts read them
//	z TASK, z*, Z  zset    claims that wait, by task; all of them by when they are forgotten
//	B, g           zset, hash  jobs whose end somebody awaits; registered workers
//	O, P CALL      hash, string  outbox; follow-ups delivered here, until the outbox has forgotten them
//	M, O!          hash, string  the record of a move; the batch that is on its way
//	K!, B!         hash, zset  keys of jobs that have left; ends of batches' members that wait for the completion job
//	E              hash    how far the proof of the indexes is
//
// A queue that is spread has a mark of format 4 in c, and its configuration, as each of
// its parts, in 2 to 9, or : to @ for 10 to 16 parts; g! is the last spreading for which a part
// was closed (lua/spread.lua). The tag of a part but the first is QUEUE*PARTS*NUMBER*SALT.
//
// and in the registry q (set: names of queues and parts), g (hash: workers), w (string: until
// when somebody watches).
//
// Two clocks: the wall clock is the server's; the steady clock goes on from its last
// value when that steps back. Places, leases, limits and delays are on the steady
// one, NewJob.At and schedules on the wall clock. All are microseconds since 1970.
// Tokens are numbers that grow over all jobs of a queue and keep up with the wall
// clock (32 for each millisecond), so that they go on above those that a failover to
// a replica has lost, as long as fewer were given per millisecond.
package redisbroker
