package main

import (
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// about says under which circumstances something was measured.
type about struct {
	When    string      `json:"when"`
	Machine string      `json:"machine"`
	Load    string      `json:"load"` // of the minute before
	Scale   string      `json:"scale"`
	Peers   []aboutPeer `json:"peers"`
}

type aboutPeer struct {
	Name       string `json:"name"`
	Version    string `json:"version"`
	Durability string `json:"durability"`
	How        string `json:"how"`
}

func describe(b *bench) about {
	a := about{
		When:    time.Now().UTC().Format("2006-01-02 15:04 UTC"),
		Machine: machine(b.dir),
		Load:    firstField("/proc/loadavg"),
		Scale:   fmt.Sprintf("%d runs of %v", b.scale.runs, b.scale.limit),
	}
	for _, p := range b.peers {
		version := moduleVersion(p.module)
		if s := b.at.servers[p.server]; s != nil {
			version = shortVersion(s.versionText()) + "; client " + version
		}
		a.Peers = append(a.Peers, aboutPeer{p.name, version, p.durability, p.how})
	}
	return a
}

func machine(dir string) string {
	var name unix.Utsname
	kernel := "unknown"
	if unix.Uname(&name) == nil {
		kernel = unix.ByteSliceToString(name.Release[:])
	}
	return fmt.Sprintf("%d cores, %s, %.0f GiB; Linux %s, %s; %s",
		runtime.NumCPU(), procField("/proc/cpuinfo", "model name"), memoryGiB(), kernel, fileSystem(dir), runtime.Version())
}

func memoryGiB() float64 {
	var kB float64
	if _, err := fmt.Sscan(procField("/proc/meminfo", "MemTotal"), &kB); err != nil {
		return 0
	}
	return kB / (1 << 20)
}

// procField is the value of a line "name : value" of a file.
func procField(file, name string) string {
	b, err := os.ReadFile(file)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func firstField(file string) string {
	b, err := os.ReadFile(file)
	fields := strings.Fields(string(b))
	if err != nil || len(fields) == 0 {
		return "unknown"
	}
	return fields[0]
}

// fileSystem is the type of the mount that dir is below.
func fileSystem(dir string) string {
	b, err := os.ReadFile("/proc/mounts")
	if err != nil {
		return "unknown"
	}
	return mountType(string(b), dir)
}

// mountType looks for the longest mount point above dir.
func mountType(mounts, dir string) string {
	best, kind := "", "unknown"
	for line := range strings.Lines(mounts) {
		f := strings.Fields(line)
		if len(f) > 2 && len(f[1]) >= len(best) && strings.HasPrefix(dir+"/", strings.TrimSuffix(f[1], "/")+"/") {
			best, kind = f[1], f[2]
		}
	}
	return kind
}

// moduleVersion is the version of a module that is compiled in.
func moduleVersion(path string) string {
	if path == "" {
		return "this repository"
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, m := range info.Deps {
		if m.Path == path {
			return strings.TrimPrefix(m.Version, "v")
		}
	}
	return "unknown"
}

// shortVersion cuts what a program says of itself after its version.
func shortVersion(text string) string {
	text = strings.NewReplacer("nats-server: v", "nats-server ", "Redis server v=", "redis-server ", "(PostgreSQL) ", "").Replace(text)
	fields := strings.Fields(text)
	return strings.Join(fields[:min(2, len(fields))], " ")
}
