//go:build linux

package proctest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/server"
)

// runHTTP serves the store in a directory until it is killed, or its input ends.
func runHTTP(t *teller, p plan) error {
	b, err := openServer(p.Store)
	if err != nil {
		return err
	}
	c := spool.New(b, spool.Config{})
	s, err := server.New(c, server.Config{})
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", p.Addr)
	if err != nil {
		return err
	}
	h := &http.Server{Handler: s, ReadHeaderTimeout: patience}
	ctx, stop := context.WithCancel(context.Background())
	kept, served := make(chan error, 1), make(chan error, 1)
	go func() { kept <- c.Upkeep(ctx) }()
	go func() { served <- h.Serve(l) }()
	t.tell(event{What: "up"})
	for range orders() { // none comes
	}
	s.Stop()
	err = h.Shutdown(context.Background())
	stop()
	if e := <-served; !errors.Is(e, http.ErrServerClosed) {
		err = errors.Join(err, e)
	}
	return errors.Join(err, <-kept, c.Close())
}

// freeAddr is an address of loopback that nobody listens at.
func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	defer l.Close()
	return l.Addr().String()
}

func TestProofThatNothingIsLostWhenTheHTTPServerAndItsClientsAreKilledAtRandom(t *testing.T) {
	fullRun(t)
	dir, addr := newStore(t), freeAddr(t)
	up := func() *process {
		p := start(t, plan{Role: asHTTP, Store: dir, Addr: addr})
		p.await("up", 1)
		return p
	}
	s := up()
	w := newWeather(t, plan{Store: "http://" + addr, Queues: []string{"a", "b"}})
	deaths := 0
	w.storm(size(5*time.Second, 2*time.Minute), func() {
		pause(200*time.Millisecond + rand.N(600*time.Millisecond))
		s.kill()
		<-s.ended
		pause(rand.N(100 * time.Millisecond))
		s = up()
		deaths++
	})
	w.calm()
	t.Logf("the server was killed %d times", deaths)
	if deaths < 2 {
		t.Error("that is too little to show anything")
	}
	l := readLedgers(t, w.ledgers)
	l.least = w.least
	with(t, w.store, func(c *spool.Client) { judge(t, c, l, w.fleet.kills) })
	s.finish()
	with(t, dir, func(c *spool.Client) { judge(t, c, l, w.fleet.kills) })
}

// TestProofThatTenThousandHTTPClientsMayWait holds the memory of a server whose
// clients wait, with as many of them as a machine may have; and that it serves
// others meanwhile.
func TestProofThatTenThousandHTTPClientsMayWait(t *testing.T) {
	fullRun(t)
	const clients, most = 10_000, 300 << 20
	dir, addr := newStore(t), freeAddr(t)
	s := start(t, plan{Role: asHTTP, Store: dir, Addr: addr})
	s.await("up", 1)
	body := `{"tasks":["none"],"wait":"55s"}`
	request := fmt.Appendf(nil, "POST /v1/claim HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for range clients {
		c, err := net.Dial("tcp", addr)
		must(t, err)
		defer c.Close()
		_, err = c.Write(request)
		must(t, err)
	}
	with(t, "http://"+addr, func(c *spool.Client) {
		id, err := c.Enqueue(t.Context(), spool.Raw("some", nil))
		must(t, err)
		_, err = c.Get(t.Context(), id[0].ID)
		must(t, err)
	})
	rss := residentBytes(t, s.cmd.Process.Pid)
	t.Logf("%d MiB are resident while %d claims wait", rss>>20, clients)
	if rss > most {
		t.Errorf("that is more than %d MiB", most>>20)
	}
}

// residentBytes is the resident memory of a process.
func residentBytes(t *testing.T, pid int) int64 {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(t, err)
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	must(t, err)
	return kib << 10
}
