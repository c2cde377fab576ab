package redisbroker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

func TestOverhead(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	c := open(t, s.URL(), "bench", nil)
	tr := c.t
	defer c.Close()
	fill(t, c, "q", 5000, 100, nil)
	run := func(name string, n int, f func()) {
		f()
		s.Must("CONFIG", "RESETSTAT")
		was := cpu(s)
		for range n {
			f()
		}
		d := cpu(s) - was
		x, _ := s.Do("INFO", "commandstats")
		for _, l := range strings.Split(fmt.Sprint(x), "\r\n") {
			if strings.HasPrefix(l, "cmdstat_evalsha") {
				fmt.Println(name, d/time.Duration(n), l)
			}
		}
	}
	empty := &script{name: "empty", source: "#!lua\nlocal a = {} for i=1,#ARGV do a[i]='' end return a"}
	run("empty", 2000, func() { tr.run(t.Context(), empty, "q", [][]byte{nil}) })
	pre := *usualScripts().enqueue
	i := strings.LastIndex(pre.source, "local function main()")
	nodef := pre
	nodef.source = pre.source[:i-len("define()\n")] + "return {''}"
	run("defineless", 2000, func() { tr.run(t.Context(), &nodef, "q", [][]byte{nil}) })
	pre.source = pre.source[:i] + "return {''}"
	run("prelude", 2000, func() { tr.run(t.Context(), &pre, "q", [][]byte{nil}) })
	ld := pre
	ld.source = pre.source[:i] + "Q.load() Q.save() return {''}"
	run("load", 2000, func() { tr.run(t.Context(), &ld, "q", [][]byte{nil}) })
	run("enqueue1", 2000, func() { fill(t, c, "q", 1, 1, nil) })
	var ls []broker.Lease
	run("claim1", 2000, func() {
		g, _ := c.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 1})
		ls = append(ls, g.Leases...)
	})
	k := 0
	run("ack1", 2000, func() {
		c.Settle(t.Context(), broker.NewCall(), []broker.Settlement{{Ref: ls[k].Job.Ref(), Token: ls[k].Token, Kind: broker.Ack}})
		k++
	})
}
