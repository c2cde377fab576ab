package main

import (
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte("42 (a (b) c) S 7 42 42 0 -1 4194560 900 80 0 0 150 25 3 4 20 0 1 0 12345"))
	if want := (stat{7, 1750 * time.Millisecond, 70 * time.Millisecond}); err != nil || got != want {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	for _, bad := range []string{"", "42 (a) S 7", "42 (a) S x 42 42 0 -1 4194560 900 80 0 0 150 25 3 4 20"} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func TestParseAnon(t *testing.T) {
	got, err := parseAnon("VmRSS:\t  900 kB\nRssAnon:\t     512 kB\nRssFile:\t 388 kB\n")
	if err != nil || got != 512<<10 {
		t.Errorf("got %v, %v", got, err)
	}
	if _, err := parseAnon("VmRSS:\t 900 kB\n"); err == nil {
		t.Error("a status without the field was read")
	}
}

func TestOurOwnUsageIsRead(t *testing.T) {
	n, err := settledMemory()
	if err != nil || n <= 0 {
		t.Errorf("memory: %v, %v", n, err)
	}
	begun := monotonic()
	for before := ownCPU(); ownCPU() == before; {
	}
	if monotonic() <= begun {
		t.Error("the clock stands still")
	}
}

func TestMountType(t *testing.T) {
	mounts := "/dev/a / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\n/dev/b /tmp/disk xfs rw 0 0\n"
	for dir, want := range map[string]string{"/home": "ext4", "/tmp": "tmpfs", "/tmp/disk/x": "xfs", "/tmp/diskette": "tmpfs"} {
		if got := mountType(mounts, dir); got != want {
			t.Errorf("%s: got %s, want %s", dir, got, want)
		}
	}
}

func TestShortVersion(t *testing.T) {
	for text, want := range map[string]string{
		"Redis server v=7.0.15 sha=00000000:0 malloc=jemalloc": "redis-server 7.0.15",
		"nats-server: v2.15.3":                                 "nats-server 2.15.3",
		"postgres (PostgreSQL) 15.18 (Debian 15.18-0)":         "postgres 15.18",
		"beanstalkd 1.12":                                      "beanstalkd 1.12",
		"":                                                     "",
	} {
		if got := shortVersion(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
