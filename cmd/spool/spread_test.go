package main

import (
	"strings"
	"testing"

	"github.com/spoolq/spool/internal/redistest"
)

func TestAQueueIsSpreadAndGatheredFromTheShell(t *testing.T) {
	s := redistest.Start(t, redistest.Options{})
	does := func(code int, says string, args ...string) {
		t.Helper()
		r := spoolWith(append([]string{"--broker", s.URL()}, args...)...)
		if r.code != code || !strings.Contains(r.out+r.errout, says) {
			t.Errorf("spool %q: %d, %s%s", args, r.code, r.out, r.errout)
		}
	}
	does(exitOK, "no queue is spread", "spread", "list")
	does(exitOK, "queue busy is spread over 3 parts", "spread", "set", "busy", "3")
	does(exitOK, `{"queue":"busy","parts":3}`, "spread", "set", "busy", "3", "--json")
	does(exitFailed, "is spread over 3 parts already", "spread", "set", "busy", "4")
	does(exitUsage, "allowed are 2 to 16", "spread", "set", "busy", "17")
	does(exitOK, `{"queue":"busy","parts":3}`, "spread", "list", "--json")
	does(exitOK, "", "enqueue", "task", "--queue=busy", "--key=k")
	does(exitFailed, "it has jobs", "spread", "clear", "busy")
	does(exitUsage, "needs one place", "limit", "set", "slots", "--task=task", "--running=1", "--queue=busy")
	does(exitOK, "busy", "stats")
	does(exitOK, "", "work", "--queue=busy", "--drain", "--exec", "true")
	does(exitOK, "queue busy is not spread", "spread", "clear", "busy")
}

func TestOnlyQueuesOnRedisAreSpread(t *testing.T) {
	s := newTool(t)
	s.fails(exitUsage, "about queues on Redis", "spread", "set", "busy", "3")
	s.fails(exitUsage, "about queues on Redis", "spread", "list")
}
