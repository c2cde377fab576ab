package main

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// TestPayloadsAreExact: what goes in comes out, byte for byte, and nothing of it
// reaches a terminal as it is.
func TestPayloadsAreExact(t *testing.T) {
	for name, payload := range map[string]string{
		"JSON with a large integer": `{"n":9007199254740993,"s":"a\u2028b"}` + "\n",
		"empty":                     "",
		"an escape sequence":        "\x1b[2J\x1b]0;title\x07",
		"a right-to-left override":  "a\u202eb",
		"any bytes":                 "\x00\xff\xfe\r\n\xcb)\n",
		"a mebibyte":                strings.Repeat("\x00\x9b", 1<<19),
	} {
		t.Run(name, func(t *testing.T) {
			s := newTool(t)
			r := s.with(strings.NewReader(payload), "enqueue", "task", "-")
			if r.code != exitOK {
				t.Fatal(r.errout)
			}
			id := strings.TrimSpace(r.out)
			if got := s.ok("show", id, "--payload"); got != payload {
				t.Errorf("show --payload: got %.60q, want %.60q", got, payload)
			}
			j := s.show(id)
			if got, err := base64.StdEncoding.DecodeString(j["payload"].(string)); err != nil || string(got) != payload {
				t.Errorf("payload: got %.60q (%v), want %.60q", got, err, payload)
			}
			if text, ok := j["payload_text"]; ok && text != payload {
				t.Errorf("payload_text: got %.60q, want %.60q", text, payload)
			}
			for _, args := range [][]string{{"list"}, {"show", id}, {"claim"}} {
				out := s.ok(args...)
				if i := strings.IndexFunc(out, func(r rune) bool {
					return r < ' ' && r != '\n' || r == 0x7f || r == 0x9b || r == '\u202e' || r == '\ufffd'
				}); i >= 0 {
					t.Errorf("spool %s writes %q", args[0], out[i:min(i+4, len(out))])
				}
				if len(out) > 8<<10 {
					t.Errorf("spool %s writes %d bytes", args[0], len(out))
				}
			}
		})
	}
}

// TestEveryFlagReachesTheJob sets each option of a job.
func TestEveryFlagReachesTheJob(t *testing.T) {
	s := newTool(t)
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	at := time.Now().Add(time.Hour).UTC().Truncate(time.Second)
	s.ok("enqueue", "resize", "p", "--queue=images", "--priority=-7", "--at="+at.Format(time.RFC3339), "--key=k", "--key-for=1h", "--tenant=acme",
		"--group=g", "--max-attempts=3", "--timeout=90s", "--start-within=1d", "--retain=2d12h", "--header=a=b=c", "-H", "d=e,f", "--id="+id)
	got := s.show(id)
	for field, want := range map[string]any{
		"id": id, "queue": "images", "task": "resize", "state": "scheduled", "priority": -7.0, "run_at": at.Format(time.RFC3339), "key": "k",
		"tenant": "acme", "group": "g", "max_attempts": 3.0, "timeout": "1m30s", "start_within": "24h0m0s", "retain": "60h0m0s", "payload_text": "p",
	} {
		if got[field] != want {
			t.Errorf("%s: got %v, want %v", field, got[field], want)
		}
	}
	headers := got["headers"].(map[string]any)
	if headers["a"] != "b=c" || headers["d"] != "e,f" {
		t.Errorf("headers: got %v", headers)
	}
	if text := s.ok("show", id); !strings.Contains(text, "a=b=c") || !strings.Contains(text, "in 59m") && !strings.Contains(text, "in 1h") {
		t.Errorf("show writes %s", text)
	}
}

// TestTextThatIsNotUTF8 sets what may hold any bytes to bytes that are no text:
// they come back exactly, and JSON stays JSON.
func TestTextThatIsNotUTF8(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("task", "p\xff", "--tenant=t\xff", "--group=g\xff", "--key=k\xff", "--header=h=v\xff", "-H", "i=\xfe,\xff")
	if got := s.ok("show", id, "--payload"); got != "p\xff" {
		t.Errorf("the payload is %q", got)
	}
	got := s.show(id)["bytes"].(map[string]any)
	for field, want := range map[string]string{"tenant": "t\xff", "group": "g\xff", "key": "k\xff", "headers.h": "v\xff", "headers.i": "\xfe,\xff"} {
		if b, err := base64.StdEncoding.DecodeString(fmt.Sprint(got[field])); err != nil || string(b) != want {
			t.Errorf("%s: got %q (%v), want %q", field, b, err, want)
		}
	}
	if n := strings.Count(s.ok("list", "--tenant=t\xff", "--json"), "\n"); n != 1 {
		t.Errorf("%d jobs are of that tenant, want 1", n)
	}
}

// TestAJobOfTheShellIsReadInGo: JSON from a command line decodes in a Go
// worker, and bytes come as they are.
func TestAJobOfTheShellIsReadInGo(t *testing.T) {
	s := newTool(t)
	s.enqueue("mail", `{"To":"ada@example.com","N":9007199254740993}`)
	s.enqueue("blob", "\xff\x00")
	c := spool.New(s.open(), spool.Config{})
	defer c.Close()
	type mail struct {
		To string
		N  int64
	}
	var gotMail mail
	var gotBlob []byte
	w := spool.NewWorker(c, spool.WorkerConfig{Drain: true, Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	handle(w, "mail", &gotMail)
	handle(w, "blob", &gotBlob)
	if err := w.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if (gotMail != mail{"ada@example.com", 9007199254740993}) || string(gotBlob) != "\xff\x00" {
		t.Errorf("got %+v and %q", gotMail, gotBlob)
	}
}

func TestOneJobAtAKeyAndAnID(t *testing.T) {
	s := newTool(t)
	const id = "01890a5d-ac96-774b-bcce-b302099a8057"
	first := s.enqueue("mail", "a", "--key=welcome")
	for _, c := range []struct {
		name, want, says string
		args             []string
	}{
		{"the same key and payload", first, "nothing was added", []string{"enqueue", "mail", "a", "--key=welcome"}},
		{"the same key, another payload", first, "payload is another", []string{"enqueue", "mail", "b", "--key=welcome"}},
		{"a new id", id, "", []string{"enqueue", "mail", "--id=" + id}},
		{"the same id", id, "nothing was added", []string{"enqueue", "mail", "--id=" + id}},
	} {
		r := s.run(c.args...)
		if r.code != exitOK || strings.TrimSpace(r.out) != c.want || !strings.Contains(r.errout, c.says) {
			t.Errorf("%s: exit code %d, %q, %q", c.name, r.code, r.out, r.errout)
		}
	}
	if n := len(strings.Fields(s.ok("list", "--json"))); n == 0 {
		t.Error("the list is empty")
	}
	if n := strings.Count(s.ok("list", "--json"), "\n"); n != 2 {
		t.Errorf("there are %d jobs, want 2", n)
	}
}

func TestLines(t *testing.T) {
	t.Run("each line that is not empty is a job, in order", func(t *testing.T) {
		s := newTool(t)
		r := s.with(strings.NewReader("one\n\n{\"n\": 2}\r\nthree"), "enqueue", "task", "--lines")
		if r.code != exitOK || strings.Count(r.out, "\n") != 3 || !strings.Contains(r.errout, "3 jobs enqueued, up to line 4") {
			t.Fatalf("exit code %d, %q, %q", r.code, r.out, r.errout)
		}
		for i, id := range strings.Fields(r.out) {
			if got, want := s.ok("show", id, "--payload"), []string{"one", "{\"n\": 2}\r", "three"}[i]; got != want {
				t.Errorf("line %d: got %q, want %q", i, got, want)
			}
		}
	})
	t.Run("many lines are all there", func(t *testing.T) {
		s := newTool(t)
		var in bytes.Buffer
		for i := range 5000 {
			fmt.Fprintf(&in, "%d\n", i)
		}
		if r := s.with(&in, "enqueue", "task", "--lines"); r.code != exitOK || strings.Count(r.out, "\n") != 5000 {
			t.Fatalf("exit code %d, %d ids, %q", r.code, strings.Count(r.out, "\n"), r.errout)
		}
		if out := s.ok("stats"); !strings.Contains(out, "5,000") {
			t.Errorf("stats writes %s", out)
		}
	})
	t.Run("what each job has beside its line counts for the size of a call", func(t *testing.T) {
		s := newTool(t)
		in := strings.NewReader(strings.Repeat(strings.Repeat("x", 2000)+"\n", 1000))
		r := s.with(in, "enqueue", "task", "--lines", "--header", "h="+strings.Repeat("x", 8000))
		if r.code != exitOK || strings.Count(r.out, "\n") != 1000 {
			t.Errorf("exit code %d, %d ids, %q", r.code, strings.Count(r.out, "\n"), r.errout)
		}
	})
	t.Run("a line that is too long stops, and says how many are durable", func(t *testing.T) {
		s := newTool(t)
		in := io.MultiReader(strings.NewReader("one\ntwo\n"), strings.NewReader(strings.Repeat("x", 1<<20+1)+"\nfour\n"))
		r := s.with(in, "enqueue", "task", "--lines")
		if r.code != exitUsage || strings.Count(r.out, "\n") != 2 || !strings.Contains(r.errout, "2 jobs enqueued, up to line 2") || !strings.Contains(r.errout, "line 3") {
			t.Errorf("exit code %d, %q, %q", r.code, r.out, r.errout)
		}
	})
	t.Run("a line does not wait for the next", func(t *testing.T) {
		s := newTool(t)
		in, feed := io.Pipe()
		ended := make(chan result, 1)
		go func() { ended <- s.with(in, "enqueue", "task", "--lines") }()
		fmt.Fprintln(feed, "one")
		await(t, "the first line's job", func() bool { return s.run("list", "--json").out != "" })
		feed.Close()
		if r := <-ended; r.code != exitOK {
			t.Errorf("exit code %d, %q", r.code, r.errout)
		}
	})
}

func TestTheHandsOnCommands(t *testing.T) {
	s := newTool(t)
	id := s.enqueue("mail", "p", "--max-attempts=9", "--retain=1h")
	type lease struct{ ID, Token string }
	claim := func() lease {
		t.Helper()
		out := shown{}
		for k, v := range object[shown](t, s.ok("claim", "--json", "--ttl=1h", "--task=mail")) {
			out[k] = v
		}
		if out["payload_text"] != "p" || out["worker"] != "cli" {
			t.Errorf("claim writes %v", out)
		}
		return lease{out["id"].(string), out["token"].(string)}
	}
	first := claim()
	if first.ID != id {
		t.Fatalf("claimed %s, want %s", first.ID, id)
	}
	s.fails(exitNotFound, "nothing to claim", "claim")
	if out := s.ok("extend", id, "--token", first.Token, "--ttl=2h", "--percent=40", "--note=half\x1b"); !strings.Contains(out, "in 1h59m") && !strings.Contains(out, "in 2h") {
		t.Errorf("extend writes %q", out)
	}
	if out := s.ok("show", id); !strings.Contains(out, `40 % half\x1b`) {
		t.Errorf("show writes %s", out)
	}
	if out := s.ok("nack", id, "--token", first.Token, "--delay=0s", "--error=no route\x1b[1m"); !strings.Contains(out, "ready") {
		t.Errorf("nack writes %q", out)
	}
	second := claim()
	for _, verb := range []string{"ack", "nack", "bury", "extend"} {
		s.fails(exitLeaseLost, "spool show ID", verb, id, "--token", first.Token)
	}
	if out := s.ok("ack", id, "--token", second.Token, "--result=sent", "--json"); object[shown](t, out)["state"] != "done" {
		t.Errorf("ack writes %q", out)
	}
	s.fails(exitLeaseLost, "", "bury", id, "--token", second.Token)
	if got := s.ok("show", id, "--result"); got != "sent" {
		t.Errorf("the result is %q", got)
	}
	if j := s.show(id); j["state"] != "done" || j["error"] != "no route\x1b[1m" || j["attempt"] != 2.0 {
		t.Errorf("the job is %v", j)
	}
	s.fails(exitNotFound, "not found", "ack", "01890a5d-ac96-774b-bcce-b302099a8057", "--token=1")
	s.fails(exitNotFound, "not found", "ack", id, "--token", second.Token, "--queue=other")
	s.fails(exitUsage, "no result", "show", s.enqueue("mail"), "--result")
}

func TestOperating(t *testing.T) {
	s := newTool(t)
	changedBy := func(args ...string) float64 {
		t.Helper()
		return object[shown](t, s.ok(append(args, "--json")...))["changed"].(float64)
	}
	bury := func() string {
		t.Helper()
		id := s.enqueue("mail", "p", "--queue=a")
		l := object[shown](t, s.ok("claim", "--json", "--queue=a"))
		s.ok("bury", id, "--token", l["token"].(string), "--error=no such\nhost")
		return id
	}
	dead := []string{bury(), bury(), bury()}
	if out := s.ok("dead", "list"); strings.Count(out, "\n") != 4 || !strings.Contains(out, `no such\nhost`) {
		t.Errorf("dead list writes %s", out)
	}
	if n := strings.Count(s.ok("dead", "list", "--error=such", "--task=mail", "--json"), "\n"); n != 3 {
		t.Errorf("%d dead letters match, want 3", n)
	}
	if r := s.run("dead", "list", "--error=other"); r.out != "" || !strings.Contains(r.errout, "no jobs") {
		t.Errorf("dead list writes %q, %q", r.out, r.errout)
	}
	if n := changedBy("dead", "requeue", dead[0]); n != 1 {
		t.Errorf("requeued %v, want 1", n)
	}
	s.fails(exitFailed, "job "+dead[0]+" is ready, not dead: it runs by itself", "dead", "requeue", dead[0])
	if n := changedBy("dead", "delete", "--queue=a"); n != 2 {
		t.Errorf("deleted %v, want 2", n)
	}
	if n := changedBy("cancel", dead[0], "--reason=enough"); n != 1 {
		t.Errorf("cancelled %v, want 1", n)
	}
	if j := s.show(dead[0]); j["state"] != "cancelled" || j["error"] != "enough" {
		t.Errorf("the job is %v", j)
	}

	s.fails(exitNotFound, "is not there", "cancel", broker.NewID().String())

	s.enqueue("mail", "p", "--queue=b")
	if r := s.run("pause", "b"); r.code != exitOK || r.errout != "" {
		t.Errorf("exit code %d, %q", r.code, r.errout)
	}
	if r := s.run("pause", "typo"); r.code != exitOK || !strings.Contains(r.errout, "queue typo has had no jobs yet") {
		t.Errorf("of a queue that nobody knows: exit code %d, %q", r.code, r.errout)
	}
	s.fails(exitNotFound, "", "claim", "--queue=b")
	if out := s.ok("stats"); !strings.Contains(out, "b (paused)") {
		t.Errorf("stats writes %s", out)
	}
	s.ok("resume", "b")
	s.fails(exitUsage, "would delete 1 job of queue b", "purge", "b")
	if n := changedBy("purge", "b", "--state=done", "--yes"); n != 0 {
		t.Errorf("purged %v, want 0", n)
	}
	if n := changedBy("purge", "b", "--yes"); n != 1 {
		t.Errorf("purged %v, want 1", n)
	}
	s.enqueue("mail", "p", "--queue=b")
	if r := s.run("purge", "b", "--yes"); r.code != exitOK || !strings.Contains(r.errout, "spool compact does it now") {
		t.Errorf("what gives the room back: exit code %d, %q", r.code, r.errout)
	}
}

// TestListIsCutAndSaysSo: the order is that of the store, the limit is said.
func TestListIsCutAndSaysSo(t *testing.T) {
	s := newTool(t)
	r := s.with(strings.NewReader("1\n2\n3\n4\n"), "enqueue", "task", "--lines")
	ids := strings.Fields(r.out)
	r = s.run("list", "--limit=3", "--json")
	if r.code != exitOK || strings.Count(r.out, "\n") != 3 || !strings.Contains(r.out, ids[0]) || strings.Contains(r.out, ids[3]) || !strings.Contains(r.errout, "there are more") {
		t.Errorf("exit code %d, %q, %q", r.code, r.out, r.errout)
	}
	if r := s.run("list", "--limit=4"); strings.Contains(r.errout, "more") {
		t.Errorf("all are listed, and it says %q", r.errout)
	}
}

// TestAJobInAStateThatACommandDoesNotReach: it says which state that is, and
// what would do instead.
func TestAJobInAStateThatACommandDoesNotReach(t *testing.T) {
	s := newTool(t)
	claim := func(task string) (id, token string) {
		id = s.enqueue(task)
		l := object[shown](t, s.ok("claim", "--json", "--task="+task))
		return id, l["token"].(string)
	}
	ids := map[spool.State]string{spool.Scheduled: s.enqueue("later", "--delay=1h"), spool.Ready: s.enqueue("ready"), spool.Cancelled: s.enqueue("off")}
	s.ok("cancel", ids[spool.Cancelled])
	var token string
	ids[spool.Leased], _ = claim("runs")
	ids[spool.Dead], token = claim("dies")
	s.ok("bury", ids[spool.Dead], "--token", token)
	ids[spool.Done], token = claim("done")
	s.ok("ack", ids[spool.Done], "--token", token, "--result=r")
	for _, c := range []struct {
		command []string
		state   spool.State
		want    string
	}{
		{[]string{"dead", "requeue"}, spool.Scheduled, "is scheduled, not dead: it runs by itself, and spool explain ID says when"},
		{[]string{"dead", "requeue"}, spool.Ready, "is ready, not dead: it runs by itself, and spool explain ID says what it waits for"},
		{[]string{"dead", "requeue"}, spool.Leased, "is leased, not dead: it runs now"},
		{[]string{"dead", "requeue"}, spool.Done, "is done, not dead: to run it once more, enqueue it anew (spool show ID --payload"},
		{[]string{"dead", "requeue"}, spool.Cancelled, "is cancelled (cancelled), not dead: to run it after all, enqueue it anew"},
		{[]string{"dead", "delete"}, spool.Ready, "is ready, not dead: spool cancel ID ends it"},
		{[]string{"dead", "delete"}, spool.Leased, "is leased, not dead: spool cancel ID ends it"},
		{[]string{"dead", "delete"}, spool.Done, "is done, not dead: it goes when its retention is over, or with spool purge default --state=done"},
		{[]string{"cancel"}, spool.Done, "is done: there is nothing left to cancel"},
		{[]string{"cancel"}, spool.Dead, "is dead, so that it does not run again: spool dead delete ID removes it, spool dead requeue ID runs it again"},
		{[]string{"cancel"}, spool.Cancelled, "is cancelled already (cancelled)"},
	} {
		id := ids[c.state]
		s.fails(exitFailed, "job "+id+" "+strings.ReplaceAll(c.want, "ID", id), append(c.command, id)...)
		if j := s.show(id); j["state"] != c.state.String() {
			t.Errorf("%v: the job is %v now", c.command, j["state"])
		}
	}
	s.ok("cancel", ids[spool.Leased])
	s.fails(exitFailed, "is leased, and to be cancelled already", "cancel", ids[spool.Leased])
	r := s.run("cancel", ids[spool.Ready], ids[spool.Done], broker.NewID().String())
	if r.code != exitNotFound || !strings.Contains(r.out, "1 job") || strings.Count(r.errout, "\n") != 2 {
		t.Errorf("one of each: %+v", r)
	}
}
