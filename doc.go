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
// # Time and flow
//
// Delay and At say when a job is due, a [Schedule] enqueues one at each instant
// of an expression. [RateLimit] and [RunningLimit] hold jobs back without
// costing them an attempt, [Ordered] runs a group one at a time, [Replace] and
// [Debounce] say what a repeat of a key does, [Client.EnqueueBatch] adds a job
// that waits for others. A worker declares the limits of its tasks and its
// schedules when it starts, under its name; what an operator sets
// ([Client.Configure]) wins over that until it is cleared. [Client.Explain] says
// what holds a job back.
//
// # Headers and codecs
//
// Header names that start with "spool." are this package's own. A job enqueued
// by a typed task carries spool.codec (the name of the codec of its payload)
// and every job carries spool.version (of these conventions). A job without
// spool.codec, as other programs and the command line make them, is read as
// JSON. A job of a schedule carries spool.schedule (its name) and spool.tick
// (the instant that it is for, in RFC 3339), a follow-up spool.depth (how many
// jobs are before it in its chain).
package spool
