package redistest

import (
	"bufio"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Verdict is what a Proxy does with a command.
type Verdict uint8

// The verdicts. The zero value lets the command pass.
const (
	Pass        Verdict = iota
	DropReply           // the server runs it; its reply is swallowed, and the connection cut
	DropRequest         // the server never sees it; the connection is cut
)

// Proxy stands between clients and one server and makes the weather. It is
// safe for concurrent use.
type Proxy struct {
	t      testing.TB
	listen net.Listener
	target string

	mu      sync.Mutex
	open    map[*link]bool
	judge   func(args []string) Verdict
	delay   time.Duration
	refuse  bool
	stalled chan struct{} // closed when nothing stalls
	wg      sync.WaitGroup
}

// link is one client's connection through a Proxy.
type link struct {
	client, server net.Conn

	mu      sync.Mutex
	swallow bool // of what the server says, nothing comes through any more
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// NewProxy starts a proxy in front of the server at an address.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{t: t, listen: l, target: target, open: map[*link]bool{}, stalled: make(chan struct{})}
	close(p.stalled)
	p.wg.Go(p.accept)
	t.Cleanup(func() {
		_ = l.Close()
		p.Unstall()
		p.Refuse(true)
		p.wg.Wait()
	})
	return p
}

// Addr is where clients connect.
func (p *Proxy) Addr() string { return p.listen.Addr().String() }

// URL names the proxy as a broker's URL does.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Judge sets what is asked about each command before it is forwarded: its name
// in capitals and its arguments. It is called for one command at a time, in
// the order in which they come.
func (p *Proxy) Judge(judge func(args []string) Verdict) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.judge = judge
}

// Nth returns a judge with one verdict on the n-th command, from 1, of those
// with one of the names; the others pass.
func Nth(n int, v Verdict, names ...string) func(args []string) Verdict {
	seen := 0
	return func(args []string) Verdict {
		for _, name := range names {
			if args[0] == name {
				if seen++; seen == n {
					return v
				}
			}
		}
		return Pass
	}
}

// Cut closes all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.open {
		l.cut()
	}
}

// Refuse makes the proxy close all connections, and each new one at once, or
// take them again.
func (p *Proxy) Refuse(refuse bool) {
	p.mu.Lock()
	p.refuse = refuse
	p.mu.Unlock()
	if refuse {
		p.Cut()
	}
}

// Delay holds back what the server says by d.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Stall keeps all connections open and moves no byte.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled = make(chan struct{})
}

// Unstall ends Stall; what came meanwhile moves on.
func (p *Proxy) Unstall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.stalled:
	default:
		close(p.stalled)
	}
}

func (p *Proxy) accept() {
	for {
		client, err := p.listen.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.mu.Lock()
		if p.refuse {
			l.cut()
		}
		p.open[l] = true
		p.wg.Add(2)
		p.mu.Unlock()
		go p.requests(l)
		go p.replies(l)
	}
}

// requests moves a client's commands, one by one.
func (p *Proxy) requests(l *link) {
	defer p.wg.Done()
	defer l.cut()
	r := bufio.NewReader(l.client)
	for {
		raw, args, err := readCommand(r)
		if err != nil {
			return
		}
		switch p.verdict(args) {
		case DropRequest:
			return
		case DropReply:
			l.mu.Lock()
			l.swallow = true
			l.mu.Unlock()
		}
		if _, err := l.server.Write(raw); err != nil {
			return
		}
	}
}

// verdict waits while the proxy stalls, and asks the judge.
func (p *Proxy) verdict(args []string) Verdict {
	<-p.moving()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.judge == nil {
		return Pass
	}
	args[0] = strings.ToUpper(args[0])
	return p.judge(args)
}

func (p *Proxy) moving() <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stalled
}

// replies moves what the server says.
func (p *Proxy) replies(l *link) {
	defer p.wg.Done()
	defer func() {
		l.cut()
		p.mu.Lock()
		delete(p.open, l)
		p.mu.Unlock()
	}()
	b := make([]byte, 64<<10)
	for {
		n, err := l.server.Read(b)
		if err != nil {
			return
		}
		<-p.moving()
		p.mu.Lock()
		delay := p.delay
		p.mu.Unlock()
		if delay > 0 {
			<-time.After(delay)
		}
		l.mu.Lock()
		swallow := l.swallow
		l.mu.Unlock()
		if swallow {
			return // the server has answered: it has run the command
		}
		if _, err := l.client.Write(b[:n]); err != nil {
			return
		}
	}
}

// readCommand reads a command, and returns its bytes and its arguments.
func readCommand(r *bufio.Reader) (raw []byte, args []string, err error) {
	kind, line, err := readLine(r)
	if err != nil {
		return nil, nil, err
	}
	n, err := strconv.Atoi(line)
	if err != nil || kind != '*' || n < 1 {
		return nil, nil, Error("redistest: no command: " + line)
	}
	raw = fmt.Appendf(nil, "*%d\r\n", n)
	for range n {
		if _, line, err = readLine(r); err != nil {
			return nil, nil, err
		}
		size, err := strconv.Atoi(line)
		if err != nil {
			return nil, nil, err
		}
		arg, err := readBulk(r, size)
		if err != nil {
			return nil, nil, err
		}
		raw = fmt.Appendf(raw, "$%d\r\n%s\r\n", size, arg)
		args = append(args, arg)
	}
	return raw, args, nil
}
