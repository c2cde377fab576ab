// Package server puts a store behind HTTP: an http.Handler that `spool serve`
// listens with, and that any program can mount.
package server
