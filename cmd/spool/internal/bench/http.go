package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker/filebroker"
	"github.com/spoolq/spool/server"
)

const httpBatch = 100

// overHTTP measures 64 connections to a server of the store in this process, the
// making of the requests included. The calls are remembered, as spool serve does.
func (b *Bench) overHTTP(name string, batch int) operation {
	const conns = 64
	return operation{
		name: name, batch: conns * batch, raw: perSync(conns * batch), rounds: manyRuns,
		what: fmt.Sprintf("64 connections to a server in this process, each enqueues %d jobs in a request, one after the other", batch),
		start: func(_ context.Context, dir string) (run, func() error, error) {
			s, err := b.openServed(dir)
			if err != nil {
				return nil, nil, err
			}
			request := enqueueRequest(batch)
			return func(context.Context) (round, error) { return s.flood(conns, batch, request, b.time(roundTime)) }, s.close, nil
		},
	}
}

// longPoll measures from an enqueue over HTTP to the answer of a claim that waits.
func (b *Bench) longPoll() operation {
	return operation{
		name: "http_latency", batch: 1, raw: perSync(1), rounds: manyRuns,
		what: "from the sending of an enqueue, synced, to the arrival of the answer of a claim that waits at the same server, on another connection",
		start: func(_ context.Context, dir string) (run, func() error, error) {
			s, err := b.openServed(dir)
			if err != nil {
				return nil, nil, err
			}
			return func(context.Context) (round, error) { return s.polls(b.count(100)) }, s.close, nil
		},
	}
}

// served is a store behind a server of this process.
type served struct {
	*store
	server *server.Server
	http   *http.Server
	addr   string
	ended  chan error
}

func (b *Bench) openServed(dir string) (*served, error) {
	f, err := filebroker.Open(dir, filebroker.Config{Logger: quiet(), AllowUnsafeFS: b.AllowUnsafeFS, RememberCalls: true})
	if err != nil {
		return nil, err
	}
	s := &served{store: &store{spool.New(f, spool.Config{Logger: quiet()}), f}, ended: make(chan error, 1)}
	if s.server, err = server.New(s.client, server.Config{Logger: quiet()}); err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, s.client.Close())
	}
	s.addr = l.Addr().String()
	s.http = &http.Server{Handler: s.server, ReadHeaderTimeout: time.Minute}
	go func() { s.ended <- s.http.Serve(l) }()
	return s, nil
}

func (s *served) close() error {
	s.server.Stop()
	err := s.http.Close()
	<-s.ended
	return errors.Join(err, s.client.Close())
}

func request(path, body string) []byte {
	return fmt.Appendf(nil, "POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
}

func enqueueRequest(batch int) []byte {
	job := `{"task":"` + task + `","payload":` + string(payload()) + `}`
	if batch == 1 {
		return request("/v1/jobs", job)
	}
	return request("/v1/queues/default/jobs", `{"jobs":[`+strings.TrimSuffix(strings.Repeat(job+",", batch), ",")+`]}`)
}

// flood lets connections make a request over and over for d.
func (s *served) flood(conns, batch int, request []byte, d time.Duration) (m round, err error) {
	calls, errs := make([][]time.Duration, conns), make([]error, conns)
	before, begun := s.syncs(), time.Now()
	var wg sync.WaitGroup
	for i := range conns {
		wg.Go(func() {
			var c *connection
			if c, errs[i] = dial(s.addr); errs[i] != nil {
				return
			}
			defer c.Close()
			for time.Since(begun) < d && errs[i] == nil {
				call := time.Now()
				_, errs[i] = c.do(request)
				calls[i] = append(calls[i], time.Since(call))
			}
		})
	}
	wg.Wait()
	m.took, m.syncs = time.Since(begun), s.syncs()-before
	for _, c := range calls {
		m.jobs += len(c) * batch
		m.calls = append(m.calls, c...)
	}
	return m, errors.Join(errs...)
}

// polls lets one connection claim, and another enqueue once it waits.
func (s *served) polls(n int) (m round, err error) {
	worker, err := dial(s.addr)
	if err != nil {
		return m, err
	}
	defer worker.Close()
	producer, err := dial(s.addr)
	if err != nil {
		return m, err
	}
	defer producer.Close()
	claim := request("/v1/claim", `{"worker":"bench","ttl":"1h","wait":"30s"}`)
	answered := make(chan error, 1)
	before := s.syncs()
	for range n {
		var at time.Time
		go func() {
			body, err := worker.do(claim)
			at = time.Now()
			if err == nil && !strings.Contains(body, `"token"`) {
				err = fmt.Errorf("the claim was answered %.100s", body)
			}
			answered <- err
		}()
		time.Sleep(2 * time.Millisecond) // until it waits
		begun := time.Now()
		if _, err := producer.do(enqueueRequest(1)); err != nil {
			return m, err
		}
		if err := <-answered; err != nil {
			return m, err
		}
		m.jobs++
		m.took += at.Sub(begun)
		m.calls = append(m.calls, at.Sub(begun))
	}
	m.syncs = s.syncs() - before
	return m, nil
}

// connection makes one request after the other: no more than has to be read of an
// answer is, so that little of what is measured is the client's.
type connection struct {
	net.Conn
	in *bufio.Reader
}

func dial(addr string) (*connection, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &connection{c, bufio.NewReaderSize(c, 16<<10)}, nil
}

// do makes a request and returns the body of its answer.
func (c *connection) do(request []byte) (body string, err error) {
	if _, err := c.Write(request); err != nil {
		return "", err
	}
	status, err := c.in.ReadString('\n')
	if err != nil {
		return "", err
	}
	length, chunked := 0, false
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return "", err
		}
		if line = strings.TrimSpace(line); line == "" {
			break
		}
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "Content-Length":
			if length, err = strconv.Atoi(value); err != nil {
				return "", err
			}
		case "Transfer-Encoding":
			chunked = true
		}
	}
	if chunked {
		body, err = c.chunks()
	} else {
		b := make([]byte, length)
		_, err = io.ReadFull(c.in, b)
		body = string(b)
	}
	if err == nil && !strings.HasPrefix(status, "HTTP/1.1 20") {
		err = fmt.Errorf("answered %s: %.200s", strings.TrimSpace(status), body)
	}
	return body, err
}

func (c *connection) chunks() (string, error) {
	var all strings.Builder
	for {
		line, err := c.in.ReadString('\n')
		if err != nil {
			return "", err
		}
		n, err := strconv.ParseInt(strings.TrimSpace(line), 16, 64)
		if err != nil {
			return "", err
		}
		if _, err := io.CopyN(&all, c.in, n); err != nil {
			return "", err
		}
		if _, err := c.in.Discard(2); err != nil || n == 0 {
			return all.String(), err
		}
	}
}
