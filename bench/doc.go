// Command bench runs spool and the queues that a user could take instead on the
// same operations, with the same payload and the same durability, in turns, and
// prints what it measured in one table. It needs Linux. See docs/performance.md.
//
// A file is one thing: a peer (spool.go, goqite.go, ...), an operation
// (enqueue.go, drain.go, ...), the ceilings of the disk (disk.go), the table
// (table.go), the charts (chart.go).
package main
