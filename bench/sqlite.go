package main

import (
	"database/sql"
	"path/filepath"

	_ "github.com/mattn/go-sqlite3" // driver "sqlite3"
	_ "modernc.org/sqlite"          // driver "sqlite"
)

const sqliteDurability = "SQLite WAL, synchronous=FULL: synced before every answer"

// openSQLite opens a database that syncs each commit, by the driver in C.
func openSQLite(at place) (*sql.DB, error) {
	return openDB("sqlite3", "file:"+filepath.Join(at.Dir, "q.db")+"?_journal=WAL&_synchronous=FULL&_timeout=10000&_txlock=immediate")
}

// openSQLiteGo opens it by the driver in Go.
func openSQLiteGo(at place) (*sql.DB, error) {
	return openDB("sqlite", "file:"+filepath.Join(at.Dir, "q.db")+"?_pragma=journal_mode(WAL)&_pragma=synchronous(FULL)&_pragma=busy_timeout(10000)&_txlock=immediate")
}

func openDB(driver, name string) (*sql.DB, error) {
	db, err := sql.Open(driver, name)
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1) // SQLite has one writer; more connections only collide
	return db, db.Ping()
}
