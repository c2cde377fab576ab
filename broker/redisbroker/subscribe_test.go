package redisbroker

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"

	"github.com/spoolq/spool/internal/redistest"
)

// subscribe hears one channel until ctx ends.
func subscribe(ctx context.Context, addr, channel string, heard func([]byte), spare *redistest.Conn) error {
	_ = spare.Close()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = c.Close() })
	defer stop()
	if _, err := fmt.Fprintf(c, "*2\r\n$9\r\nSUBSCRIBE\r\n$%d\r\n%s\r\n", len(channel), channel); err != nil {
		return err
	}
	r := bufio.NewReader(c)
	for {
		parts, err := readParts(r)
		if err != nil {
			return err
		}
		if string(parts[0]) == "subscribe" {
			heard(nil)
		} else {
			heard(parts[2])
		}
	}
}

func readParts(r *bufio.Reader) (parts [][]byte, err error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(line[1 : len(line)-2])
	if err != nil {
		return nil, err
	}
	for range n {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		if line[0] != '$' {
			parts = append(parts, nil)
			continue
		}
		size, err := strconv.Atoi(line[1 : len(line)-2])
		if err != nil {
			return nil, err
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(r, b); err != nil {
			return nil, err
		}
		parts = append(parts, b[:size])
	}
	return parts, nil
}
