// Package redistest starts private Redis servers for tests, one, a cluster or
// a set with sentinels, and a proxy that makes the weather between a client
// and its server. Each server has a folder and a port of its own and is killed
// when its test ends. The server is the redis-server in PATH, or the binary
// that SPOOL_REDIS_SERVER names, which may be a valkey-server. A test that
// finds none fails and says how to install one: it is never skipped.
//
// A helper that cannot go on fails its test, so that it must be called from
// the test's goroutine, unless it says otherwise.
package redistest
