package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// ownCPU is the CPU time that this process has used.
func ownCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// tick is the unit of the times in /proc/*/stat, the same on every Linux.
const tick = 10 * time.Millisecond

// stat is what /proc/*/stat says of a process.
type stat struct {
	parent int
	own    time.Duration // its CPU time
	reaped time.Duration // that of its children that have ended
}

func parseStat(b []byte) (s stat, err error) {
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:]) // the name before it may hold anything
	if len(fields) < 15 {
		return s, fmt.Errorf("%d fields in %q", len(fields), b)
	}
	var n [5]int
	for i, at := range []int{1, 11, 12, 13, 14} {
		if n[i], err = strconv.Atoi(string(fields[at])); err != nil {
			return s, err
		}
	}
	return stat{n[0], time.Duration(n[1]+n[2]) * tick, time.Duration(n[3]+n[4]) * tick}, nil
}

// treeCPU is the CPU time of a process and of its children, dead or alive.
func treeCPU(pid int) (t time.Duration) {
	all, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range all {
		b, err := os.ReadFile(name)
		if err != nil {
			continue // it has ended
		}
		s, err := parseStat(b)
		switch {
		case err != nil:
		case name == fmt.Sprintf("/proc/%d/stat", pid):
			t += s.own + s.reaped
		case s.parent == pid:
			t += s.own
		}
	}
	return t
}

// anonBytes is the memory of a process that no file stands behind.
func anonBytes(pid int) (int64, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	return parseAnon(string(b))
}

func parseAnon(status string) (int64, error) {
	_, after, ok := strings.Cut(status, "RssAnon:")
	fields := strings.Fields(after)
	if !ok || len(fields) == 0 {
		return 0, fmt.Errorf("no RssAnon in %q", status)
	}
	kB, err := strconv.ParseInt(fields[0], 10, 64)
	return kB << 10, err
}

// monotonic is a clock that all processes of the machine share.
func monotonic() time.Duration {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
