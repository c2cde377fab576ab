// Package httpbroker is a broker behind a server of `spool serve`: a program that
// uses it needs neither the directory nor the database that the jobs are in.
//
//	b, err := httpbroker.Open(ctx, "http://127.0.0.1:8080", httpbroker.Config{})
//	c := spool.New(b, spool.Config{})
//
// A call that changes something carries its call id, and is repeated under it
// when its answer is lost, for as long as the server would recognise it
// (Caps.Retry): so the death of a connection, or of the server between the commit
// and the reply, doubles nothing. What cannot be found out in that time is
// broker.ErrUnknown.
//
// A lease ends by its deadline alone: nobody sees the death of a process at the
// other end of a connection (Caps.HandleLeases is false).
package httpbroker
