// Package crashfs is a machine in memory for tests: a disk that forgets what
// was not synced, processes that can be killed, a clock that the test moves and
// faults at any operation. It stands in for vfs.OS() and agrees with it where
// both can be compared.
//
// A test makes a Machine with New and gives each store a Process of it, which
// is a vfs.System. Machine.Crash returns the machine that a power cut would
// leave; it can be asked often, and with every answer to the question what the
// disk kept.
//
// # What is durable
//
// A file is a row of sectors of 512 bytes. What was written to a sector since
// the file's last Sync is on the disk or is not, each sector by itself, and so
// is a new size: a file can come back longer than its data, with zeros
// between. A sector is whole, unless Config.Torn. A memory map counts as
// written.
//
// Each change of a directory (a name made, renamed or removed) is on the disk or
// is not until SyncDir, each by itself. A rename is one change. Sync of a file
// does not keep its name, and SyncDir does not keep what the names hold.
//
// After a Sync that failed, what it should have written stays readable, counts
// as clean and is in fact as undecided as before; a later Sync returns nil and
// does not write it, and DropCache brings back what is on the disk.
//
// # What it leaves out
//
// Links other than the last element of a path, permissions, rmdir, blocks taken
// by directories. The goroutines of a killed process go on in Go, of course;
// they get errors, and no longer reach the memory maps of others (on Linux).
package crashfs
