package redisbroker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/redistest"
)

func TestProf(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	c := open(t, s.URL(), "bench", nil)
	defer c.Close()
	fill(t, c, "q", 5000, 100, func(i int, n *broker.NewJob) { n.Tenant = fmt.Sprint("tenant-", i%50) })
	s.Must("CONFIG", "RESETSTAT")
	for range 10 {
		c.Claim(t.Context(), broker.NewCall(), broker.ClaimRequest{Queues: []string{"q"}, Max: 100, TTL: time.Minute, Worker: "w"})
	}
	x, _ := s.Do("INFO", "commandstats")
	for _, l := range strings.Split(fmt.Sprint(x), "\r\n") {
		fmt.Println(strings.Split(l, ",rejected")[0])
	}
}
