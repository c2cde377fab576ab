// Package bench measures a file store on this machine, with the disk beside it:
// every round of a row is preceded by a reading of what the disk alone does
// with as many records of the same size for each sync. Rates differ from one
// minute to the next on the same machine; their ratio to that reading is what
// can be compared. The rows with a backlog compare with the same without it.
package bench
