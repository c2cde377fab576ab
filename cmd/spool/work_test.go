//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// TestExitStatusDecides: what a command's exit status makes of its job.
func TestExitStatusDecides(t *testing.T) {
	for _, c := range []struct {
		name, exec, state, says string
		flags                   []string
		result                  string
		attempt, failures       float64
	}{
		{name: "0 is done, with the output as the result", exec: `cat; printf ' %s' "$SPOOL_TASK $SPOOL_ATTEMPT/$SPOOL_MAX_ATTEMPTS $SPOOL_QUEUE"`, state: "done", result: "payload mail 1/20 default", attempt: 1},
		{name: "75 is later, and no attempt", exec: "exit 75", flags: []string{"--retry-after=1h"}, state: "scheduled"},
		{name: "100 is a dead letter", exec: "echo broken >&2; exit 100", state: "dead", says: "exit status 100: broken\n", attempt: 1, failures: 1},
		{name: "any other is a failed attempt", exec: "echo oops >&2; exit 7", state: "scheduled", says: "exit status 7: oops\n", attempt: 1, failures: 1},
		{name: "a signal is a failed attempt", exec: "kill -9 $$", state: "scheduled", says: "ended by a signal: killed", attempt: 1, failures: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newTool(t)
			id := s.enqueue("mail", "payload", "--retain=1h")
			s.ok(append([]string{"work", "--drain", "--exec", c.exec}, c.flags...)...)
			j := s.show(id)
			failures, _ := j["failures"].(float64)
			says, _ := j["error"].(string)
			if j["state"] != c.state || j["attempt"] != c.attempt || failures != c.failures || says != c.says {
				t.Errorf("got %v", j)
			}
			if c.result != "" && j["result_text"] != c.result {
				t.Errorf("the result is %v, want %q", j["result_text"], c.result)
			}
		})
	}
}

func TestWorkTakesOnlyItsTasksAndQueues(t *testing.T) {
	s := newTool(t)
	s.enqueue("mail", "--queue=a")
	s.enqueue("mail", "--queue=b")
	s.enqueue("other", "--queue=a")
	out := s.ok("work", "--drain", "--exec=true", "--task=mail", "--queue=a", "--json")
	v := object[finishedView](t, out)
	if strings.Count(out, "\n") != 1 || v.Task != "mail" || v.Queue != "a" || v.Settled != "ack" || v.State != "done" {
		t.Errorf("work writes %q", out)
	}
	if n := strings.Count(s.ok("list", "--state=ready", "--json"), "\n"); n != 2 {
		t.Errorf("%d jobs are left, want 2", n)
	}
	r := s.run("work", "--drain", "--exec=true", "--task=mail", "--task=news", "--queue=c")
	if says := "working jobs of task mail, news from queue c, 1 at a time"; !strings.Contains(r.errout, says) {
		t.Errorf("work says %q, without %q", r.errout, says)
	}
}

func TestATimeoutStopsTheCommand(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("slow", "--timeout=100ms", "--max-attempts=1")
	s.ok("work", "--drain", "--exec=sleep 60", "--grace=100ms")
	if j := s.show(id); j["state"] != "dead" || !strings.Contains(j["error"].(string), "timeout of 100ms") {
		t.Errorf("got %v", j)
	}
}

// TestWorkStopsGracefully: SIGTERM lets the running command finish and leaves
// the rest.
func TestWorkStopsGracefully(t *testing.T) {
	s := newTool(t)
	first := s.enqueue("slow", "--retain=1h")
	second := s.enqueue("slow")
	gate := filepath.Join(t.TempDir(), "go")
	cmd := s.process("work", "--exec", `touch "`+gate+`.up"; while [ ! -e "`+gate+`" ]; do sleep 0.02; done; echo finished`)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	s.start(cmd)
	await(t, "the command", func() bool { _, err := os.Stat(gate + ".up"); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.Bytes())
	}
	if j := s.show(first); j["state"] != "done" || j["result_text"] != "finished\n" {
		t.Errorf("the first is %v", j)
	}
	if j := s.show(second); j["state"] != "ready" || j["attempt"] != 0.0 {
		t.Errorf("the second is %v", j)
	}
}

// TestWorkGivesBackWhatDoesNotFinish: at the end of the shutdown the command is
// stopped and its job given back, without an attempt.
func TestWorkGivesBackWhatDoesNotFinish(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("slow")
	up := filepath.Join(t.TempDir(), "up")
	cmd := s.process("work", "--shutdown=8s", "--exec", `trap '' TERM; touch "`+up+`"; while :; do sleep 0.02; done`)
	s.start(cmd)
	await(t, "the command", func() bool { _, err := os.Stat(up); return err == nil })
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if j := s.show(id); j["state"] != "ready" || j["attempt"] != 0.0 {
		t.Errorf("got %v", j)
	}
}

// TestAKilledWorkersCommandHoldsItsJob: the command lives on, so its job does
// not run beside it. When it ends the job runs again, with a larger token, and
// what the first still would settle is refused.
func TestAKilledWorkersCommandHoldsItsJob(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("slow", "--retain=1h")
	dir := t.TempDir()
	t.Setenv("DIR", dir)
	cmd := s.process("work", "--exec", `echo $SPOOL_TOKEN > $DIR/tmp; mv $DIR/tmp $DIR/token; sleep 1.5; touch $DIR/ended`)
	s.start(cmd)
	token := ""
	await(t, "the command", func() bool {
		b, err := os.ReadFile(filepath.Join(dir, "token"))
		token = strings.TrimSpace(string(b))
		return err == nil
	})
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	await(t, "the job's second run", func() bool {
		s.ok("work", "--drain", "--exec=[ -e $DIR/ended ] && printf %s $SPOOL_TOKEN", "--quiet")
		return s.show(id)["state"] == "done"
	})
	j := s.show(id)
	if j["attempt"] != 2.0 || j["failures"] != nil {
		t.Errorf("the second run began before the first had ended: %v", j)
	}
	before, err := strconv.ParseUint(token, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	after, err := strconv.ParseUint(j["result_text"].(string), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if after <= before {
		t.Errorf("the second token is %d, the first was %d", after, before)
	}
	s.fails(exitLeaseLost, "", "ack", id, "--token="+token)
}

// TestJobsOfWorkLeaveNoLocks: what a job held is given back with it.
func TestJobsOfWorkLeaveNoLocks(t *testing.T) {
	s := newTool(t)
	for range 5 {
		s.enqueue("mail")
	}
	s.ok("work", "--drain", "--exec=true", "--concurrency=3")
	left, err := filepath.Glob(filepath.Join(s.dir, "alive", "*"))
	if err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
	}
}

// TestAClosedPipeEndsQuietly: `spool list | head -1`.
func TestAClosedPipeEndsQuietly(t *testing.T) {
	s := newTool(t)
	if r := s.with(strings.NewReader(strings.Repeat(strings.Repeat("x", 50)+"\n", 4000)), "enqueue", "task", "--lines"); r.code != exitOK {
		t.Fatal(r.errout)
	}
	for _, args := range [][]string{{"list", "--limit=0"}, {"list", "--limit=0", "--json"}} {
		cmd := s.process(args...)
		pipe, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var stderr bytes.Buffer
		cmd.Stderr = &stderr
		s.start(cmd)
		if _, err := pipe.Read(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		if err := pipe.Close(); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil || stderr.Len() > 0 {
			t.Errorf("%q ends with %v, %q", args, err, stderr.Bytes())
		}
	}
}

func TestADrainSaysWhatItLeaves(t *testing.T) {
	s := newTool(t)
	drain := func(flags ...string) string {
		t.Helper()
		r := s.run(append([]string{"work", "--drain", "--exec=exit 1"}, flags...)...)
		if r.code != exitOK {
			t.Errorf("%+v", r)
		}
		return r.errout
	}
	if says := drain(); strings.Contains(says, "left") {
		t.Errorf("of an empty store it says\n%s", says)
	}
	s.enqueue("fails")
	s.enqueue("later", "--delay=1h")
	s.enqueue("other", "--queue=calm")
	s.ok("pause", "calm")
	held := s.enqueue("held", "--queue=held")
	s.ok("claim", "--queue=held", "--ttl=1h")
	says := drain()
	for _, want := range []string{
		"2 jobs are left scheduled, the next due in ", "queue calm is paused until spool resume calm: 1 job waits there", "1 job still runs elsewhere",
	} {
		if !strings.Contains(says, want) {
			t.Errorf("%q is not in\n%s", want, says)
		}
	}
	if says := drain("--task=later"); !strings.Contains(says, "1 job is left scheduled, the next due in 59m") && !strings.Contains(says, "1 job is left scheduled, the next due in 1h") || strings.Contains(says, "calm") {
		t.Errorf("of one task it says\n%s", says)
	}
	if says := drain("--queue=held"); strings.Contains(says, "left scheduled") || !strings.Contains(says, "still runs") {
		t.Errorf("of one queue it says\n%s", says)
	}
	if says := drain("--quiet"); says != "" {
		t.Errorf("quiet says\n%s", says)
	}
	if j := s.show(held); j["state"] != "leased" {
		t.Errorf("the claimed job is %v", j["state"])
	}
}
