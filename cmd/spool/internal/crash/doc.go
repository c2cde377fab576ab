// Package crash runs producers and workers of one store as processes of their
// own, kills them at random, and judges what is left. It is what spool demo and
// spool torture are made of.
//
// Every process keeps a ledger, a file outside the store: a line before each
// call, and a line when the call has been acknowledged. A line is one write of
// a few hundred bytes, which the death of its writer cannot take back. At the
// end [Judge] holds the ledgers of all processes against the store: every
// acknowledged enqueue, settlement and command, every state, every counter.
//
//	parent ──── starts, kills -9, starts again ───┐
//	                                              ▼
//	producers ── enqueue ──▶ store ── claim ──▶ workers
//	   │                       │                   │
//	   ▼                       ▼                   ▼
//	ledgers ────────────────▶ Judge ◀─────────── ledgers
package crash
