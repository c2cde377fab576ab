// Package dashboard shows a store in a browser: what waits, runs and failed, and
// the hand that an operator needs on it. It is one http.Handler, to be mounted
// under any prefix of somebody's own server, behind their own authentication.
//
//	pages, err := dashboard.New(client, dashboard.Config{Caller: userOf})
//	mux.Handle("/ops/queue/", requireLogin(http.StripPrefix("/ops/queue", pages)))
//
// It asks nobody who they are: whoever reaches the handler may read every
// payload and, unless it is ReadOnly, cancel, requeue, delete and pause.
//
// Pages are rendered by the server and work without script; one script of its
// own keeps live what is live. All links are relative, so that a proxy may strip
// the prefix or keep it. What comes from the store is text, never markup: the
// pages allow no script or style but the two files that they bring along.
//
// A page reads a bounded part of the store, whatever the store holds: the kept
// numbers, and lists by cursor that say how far they got.
package dashboard
