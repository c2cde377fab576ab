package main

// allFaults are those of every table, each by its address.
func allFaults() (all []*fault) {
	for _, table := range [][]fault{journalFaults, openFaults, stateFaults, brokerFaults, workerFaults} {
		for i := range table {
			all = append(all, &table[i])
		}
	}
	return all
}

// none is an error that is none, in place of a call that was taken out.
const none = "err := error(nil); err != nil {"

// Packages whose tests notice.
const (
	journalPkg = "internal/journal"
	statePkg   = "internal/jobstate"
	brokerPkg  = "broker/filebroker"
	memoryPkg  = "broker/membroker"
	rootPkg    = "."
)
