package redistest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"time"
)

// Error is a reply of a server that says no.
type Error string

// Error returns what the server said.
func (e Error) Error() string { return string(e) }

// Conn is a connection that speaks to a server: one command, one reply. It is
// not safe for concurrent use.
type Conn struct {
	c net.Conn
	r *bufio.Reader
}

// Dial connects to a server's address, or to the path of its socket.
func Dial(addr string) (*Conn, error) {
	network := "tcp"
	if addr != "" && addr[0] == '/' {
		network = "unix"
	}
	c, err := net.DialTimeout(network, addr, 2*time.Second)
	if err != nil {
		return nil, err
	}
	return &Conn{c, bufio.NewReader(c)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.c.Close() }

// Do sends a command, whose arguments are printed, and waits at most 10 s for
// its reply: a string, an int64, a []any of them, or nil. A refusal is an Error.
func (c *Conn) Do(args ...any) (any, error) {
	if err := c.c.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return nil, err
	}
	request := fmt.Appendf(nil, "*%d\r\n", len(args))
	for _, a := range args {
		s := fmt.Sprint(a)
		request = fmt.Appendf(request, "$%d\r\n%s\r\n", len(s), s)
	}
	if _, err := c.c.Write(request); err != nil {
		return nil, err
	}
	return readReply(c.r)
}

// readReply reads one reply of protocol version 2.
func readReply(r *bufio.Reader) (any, error) {
	kind, line, err := readLine(r)
	if err != nil {
		return nil, err
	}
	switch kind {
	case '+':
		return line, nil
	case '-':
		return nil, Error(line)
	case ':':
		return strconv.ParseInt(line, 10, 64)
	}
	n, err := strconv.Atoi(line)
	if err != nil || kind != '$' && kind != '*' {
		return nil, fmt.Errorf("redistest: a reply begins with %q", string(kind)+line)
	}
	if n < 0 {
		return nil, nil
	}
	if kind == '$' {
		return readBulk(r, n)
	}
	list := make([]any, n)
	for i := range list {
		if list[i], err = readReply(r); err != nil {
			var no Error
			if !errors.As(err, &no) {
				return nil, err
			}
			list[i] = no
		}
	}
	return list, nil
}

func readLine(r *bufio.Reader) (kind byte, line string, err error) {
	line, err = r.ReadString('\n')
	if err != nil {
		return 0, "", err
	}
	if len(line) < 3 || line[len(line)-2] != '\r' {
		return 0, "", fmt.Errorf("redistest: no line of the protocol: %q", line)
	}
	return line[0], line[1 : len(line)-2], nil
}

func readBulk(r *bufio.Reader, n int) (string, error) {
	b := make([]byte, n+2)
	_, err := io.ReadFull(r, b)
	return string(b[:n]), err
}
