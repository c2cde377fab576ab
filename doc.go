// Package spool is a durable job queue. It starts as a directory on one
// machine, shared by any number of processes, and needs no server.
//
// A program declares its tasks once ([Define], [DefineFunc]), opens a store
// ([Open], or [New] over any broker), enqueues through the [Client], and runs
// handlers in a [Worker]. The low level (claim, extend, ack, nack, bury) stays
// public: [Client.Claim] and the methods of [Lease].
//
// # The life of a job
//
// A job is scheduled (it has a future run-at), ready, leased (a worker has the
// right to run it for a time), and at last done, dead or cancelled. A dead job
// is a dead letter: [Client.Requeue] brings it back with fresh attempts. The
// drawing stands in package broker.
//
// # What is promised
//
// At least once, fenced: a job runs until it is acked, dead or cancelled. It
// can run twice (its worker was cut off, its process died), so handlers must be
// idempotent; the second run has a larger token, and whatever the first still
// tries to settle is refused with [ErrLeaseLost].
//
// Durable on return: when Enqueue or a settlement returns nil, what it did
// survives what the broker's Caps name.
//
// # Headers and codecs
//
// Header names that start with "spool." are this package's own. A job enqueued
// by a typed task carries spool.codec (the name of the codec of its payload)
// and every job carries spool.version (of these conventions). A job without
// spool.codec, as other programs and the command line make them, is read as
// JSON.
package spool
