// Package filebroker keeps a store in a directory: no server, any number of
// processes, and nothing lost to kill -9, a power cut or a full disk. It joins
// the state machine (internal/jobstate) with the log (internal/journal) and
// adds what makes several processes one queue.
//
// # A commit
//
// Every change is made by one function, handle.commit, for all calls that
// gathered in this process while its last commit was in flight:
//
//	read forward ▶ LOCK ▶ catch up ▶ decide ▶ append one frame ▶ unlock ▶ fdatasync ▶ answer
//
// The lock is held for microseconds and never through a sync of data. One sync
// is in flight per process. An answer waits for a sync that covers everything
// it rests on, be it another process's frame; claims and extensions do not
// wait: when a power cut forgets a claim, the job is claimed again with a
// larger token. Their frames are synced within 100 ms.
//
// # With and without the state
//
// Open loads nothing of a large store. The first call that has to know the jobs
// loads them, which takes as long as there is to read: every call but Enqueue,
// Caps, Served and Close, and an enqueue of a job with a key, or with an id that
// was not just made (broker.NewJob.HasNewID). Other enqueues do without the state:
//
//	LOCK ▶ skip to the last frame ▶ does it say stateful? load ▶ append one frame ▶ …
//
// The last frame says stateful while some queue has a capacity. The clock's offset
// comes from the shared page; without it the state is loaded, too. A handle that
// has not loaded the state keeps no index, rings by what the shared page tells of
// workers, seals a segment without counters, and leaves dead handles to others.
//
// # Calls that are made again
//
// A call that returns has told its caller: no reply is lost within a process. A
// server in front of the store can be killed before it replies. With
// [Config].RememberCalls the frame of a call has a record with its id and its
// answer, behind those of what it changed; the state keeps it for a while, as
// every process does that replays it, and so does a checkpoint. A repeat finds it
// under LOCK, writes nothing, and waits like any answer until what it rests on is
// durable.
//
// # Who is alive
//
// Each handle holds the lock of a file of its own in alive/. The kernel frees
// it when the process ends, however it ends, and says so to those who watch
// the directory: the dead handle's leases expire at once. A lease that names
// no handle (ClaimRequest.Remote) ends by its deadline alone.
//
// # Waking
//
// A handle whose claims wait for work says so in the shared page. Who makes a
// job claimable rings the bell file of one such handle per job; who has not loaded
// the state, of one of each sort. A slow poll stands behind it. A claim that
// knows when something is due for it wakes by itself, to some ten microseconds
// where the system has an alarm clock.
//
// # Clocks
//
// Leases, delays and retries use the machine's monotonic clock plus an offset
// that is recorded when an epoch begins, so that it reads like wall time and
// goes on from its last value, whatever the wall clock does. At uses the wall
// clock.
//
// # Locks, in the order in which they are taken
//
//	queue.mu   what waits for the next commit; held for a few instructions
//	lazy.gate  commits share it, the load of the state excludes them
//	LOCK       the journal's append lock, among all processes
//	mu         the state and the read position
//	alarm.mu   when waiting claims wake; taken with none of the others
package filebroker
