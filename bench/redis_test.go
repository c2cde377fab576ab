package main

import (
	"bytes"
	"strings"
	"testing"
)

func TestTheRedisTableComparesOnTheSameServer(t *testing.T) {
	var b bytes.Buffer
	rows := []row{{name: "rate", unit: "jobs/s", faster: true}, {name: "bytes", unit: "B"}}
	writeRedisTable(&b, about{}, cells(rows, []sample{
		{Row: "rate", Peer: "asynq@none", Value: 50}, {Row: "rate", Peer: "spool@none", Value: 100, Commands: 2.5, Scripts: 1, Server: 7},
		{Row: "rate", Peer: "bare@none", Value: 400}, {Row: "rate", Peer: "spool@always", Value: 30}, {Row: "rate", Peer: "asynq@always", Fault: "down"},
		{Row: "bytes", Peer: "spool@none", Value: 500}, {Row: "bytes", Peer: "asynq@none", Value: 700},
	}))
	for _, want := range []string{
		"| rate | none | spool | 100 | 100 – 100 | 2.5 | 1 |  | 7 | 2.00 | 0.25 |\n|  | none | asynq | 50 | 50 – 50 |  |  |  |  |  | 0.12 |\n|  | none | bare | 400 |",
		"|  | always | spool | 30 | 30 – 30 |  |  |  |  |  |  |\n|  | always | asynq | – | FAILED: down |",
		"| bytes | none | spool | 500 | 500 – 500 |  |  |  |  | 1.40 |  |",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestTheRedisPeersAreFoundByChildren(t *testing.T) {
	for _, p := range redisPeers() {
		if got := findPeer(p.name); got == nil || got.server != p.server {
			t.Errorf("%s: found %v", p.name, got)
		}
	}
}

func TestWhatRedisSaysIsRead(t *testing.T) {
	if got := callsOf("calls=186,usec=553761,usec_per_call=2977.21"); got != 186 {
		t.Errorf("calls: %d", got)
	}
	if got := infoField("# Persistence\r\naof_rewrite_in_progress:0\r\naof_enabled:1\r\n", "aof_enabled"); got != "1" {
		t.Errorf("a field: %q", got)
	}
}
