package main

import (
	"database/sql"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // driver "sqlite3"
)

const sqliteDurability = "SQLite WAL, synchronous=FULL: synced before every answer"

// openSQLite opens a database that syncs each commit. The driver is the one in
// C: the one in Go (modernc.org/sqlite) took about the same CPU time for single
// enqueues, and 1.1 to 1.5 times as much for batches and claims, with each peer.
func openSQLite(at place) (*sql.DB, error) {
	db, err := sql.Open("sqlite3", "file:"+filepath.Join(at.Dir, "q.db")+"?_journal=WAL&_synchronous=FULL&_timeout=10000&_txlock=immediate")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer; more connections only collide
	return db, db.Ping()
}
