package brokertest

import (
	"bytes"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

var sizeRules = []rule{
	{"a bad name is refused before anything is written", func(f *fixture) {
		for _, name := range []string{"", ".", "..", "a b", "a/b", "../x", "ü", "a\x00", "a:b", strings.Repeat("x", broker.MaxNameBytes+1)} {
			_, err := f.b.Enqueue(f.ctx, broker.NewCall(), name, []broker.NewJob{plain()})
			f.wantErr("queue "+name, err, broker.ErrInvalid)
			_, err = f.b.Enqueue(f.ctx, broker.NewCall(), queue, []broker.NewJob{{Task: name}})
			f.wantErr("task "+name, err, broker.ErrInvalid)
		}
		counts, err := f.b.Counts(f.ctx, "")
		f.must("counts", err)
		want(f, "rows of counts", len(counts), 0)
	}},
	{"the longest and the oddest names work", func(f *fixture) {
		for _, name := range []string{strings.Repeat("x", broker.MaxNameBytes), "a", "...", "-", "_.-", "CON", "q.log"} {
			f.add(name, broker.NewJob{Task: name})
			got := f.take(f.b, broker.ClaimRequest{Queues: []string{name}, Tasks: []string{name}})
			want(f, "leases of "+name, len(got.Leases), 1)
		}
	}},
	{"names differ by case", func(f *fixture) {
		f.add("Mail", plain())
		f.add("mail", plain())
		want(f, "leases of one", len(f.take(f.b, broker.ClaimRequest{Queues: []string{"Mail"}}).Leases), 1)
	}},
	{"a call over the limit in bytes is refused whole", func(f *fixture) {
		half := bytes.Repeat([]byte{0xAB}, f.b.Caps().MaxBytes/2+1)
		a, b := plain(), plain()
		a.Payload, b.Payload = half, half
		_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, []broker.NewJob{a, b})
		f.wantErr("two halves and a bit", err, broker.ErrTooLarge)
		f.wantGone(broker.Ref{Queue: queue, ID: a.ID})
		l := f.leased(plain())
		_, err = f.b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{
			{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Ack, Result: bytes.Repeat(half, 2)},
		})
		f.wantErr("a result over the limit", err, broker.ErrTooLarge)
		f.wantState(l.Job.Ref(), broker.Leased, "")
	}},
	{"a call of more jobs than the limit is refused whole", func(f *fixture) {
		n := f.b.Caps().MaxBatch + 1
		if n > 20_000 {
			f.Skipf("the limit is %d", n-1)
		}
		jobs := make([]broker.NewJob, n)
		for i := range jobs {
			jobs[i] = broker.NewJob{Task: task}
		}
		_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, jobs)
		f.wantErr("one job too many", err, broker.ErrTooLarge)
		f.none()
		f.enqueue(queue, jobs[1:]...)
		want(f, "ready", f.count(queue, task).Ready, int64(n-1))
	}},
	{"a claim outside its bounds is refused", func(f *fixture) {
		f.addOne(plain())
		for what, r := range map[string]broker.ClaimRequest{
			"no job":         {Max: 0},
			"a negative max": {Max: -1},
			"too many jobs":  {Max: broker.MaxClaimJobs + 1},
			"too many tasks": {Max: 1, Tasks: make([]string, broker.MaxClaimTasks+1)},
			"a negative TTL": {Max: 1, TTL: -time.Second},
		} {
			_, err := f.b.Claim(f.ctx, broker.NewCall(), r)
			f.wantErr("claim of "+what, err, broker.ErrInvalid)
		}
		f.one()
	}},
	{"as many tasks as the limit can be named", func(f *fixture) {
		f.addOne(plain())
		tasks := make([]string, broker.MaxClaimTasks)
		for i := range tasks {
			tasks[i] = "t" + strings.Repeat("x", i/4)
		}
		tasks[len(tasks)-1] = task
		want(f, "leases", len(f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Tasks: tasks}).Leases), 1)
	}},
	{"a settlement that can never be right is refused", func(f *fixture) {
		l := f.leased(plain())
		for what, s := range map[string]broker.Settlement{
			"no kind":               {},
			"an unknown kind":       {Kind: broker.Cancel + 1},
			"a negative delay":      {Kind: broker.Nack, Delay: -1},
			"a follow-up of a nack": {Kind: broker.Nack, FollowUps: []broker.FollowUp{{Queue: queue, Job: plain()}}},
			"a nameless follow-up":  {Kind: broker.Ack, FollowUps: []broker.FollowUp{{Queue: queue}}},
		} {
			s.Ref, s.Token = l.Job.Ref(), l.Token
			_, err := f.b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{s})
			f.wantErr(what, err, broker.ErrInvalid)
		}
		f.wantState(l.Job.Ref(), broker.Leased, "")
		f.end(l, broker.Ack)
	}},
}

var fidelityRules = []rule{
	{"a payload comes back byte for byte", func(f *fixture) {
		for name, p := range oddBytes() {
			ref := f.addOne(with(func(n *broker.NewJob) { n.Payload = p }))
			if got := f.get(ref).Payload; !bytes.Equal(got, p) {
				f.Errorf("%s by get: %s, want %s", name, short(got), short(p))
			}
			l := f.one()
			if !bytes.Equal(l.Job.Payload, p) {
				f.Errorf("%s by claim: %s, want %s", name, short(l.Job.Payload), short(p))
			}
			f.end(l, broker.Ack)
		}
	}},
	{"a result comes back byte for byte", func(f *fixture) {
		for name, p := range oddBytes() {
			l := f.leased(plain())
			f.settle(l, broker.Settlement{Kind: broker.Ack, Result: p})
			j := f.get(l.Job.Ref())
			if p == nil {
				continue // no result, so the job is gone
			}
			if !j.HasResult || !bytes.Equal(j.Result, p) {
				f.Errorf("%s: result %v %s, want %s", name, j.HasResult, short(j.Result), short(p))
			}
		}
	}},
	{"an error text comes back byte for byte", func(f *fixture) {
		for name, p := range oddBytes() {
			l := f.leased(plain())
			f.settle(l, broker.Settlement{Kind: broker.Bury, Error: string(p)})
			if got := f.get(l.Job.Ref()).Error; got != broker.CutError(string(p)) {
				f.Errorf("%s: error %s, want %s", name, short([]byte(got)), short(p))
			}
		}
	}},
	{"an error text that is too long is cut, and the failure recorded", func(f *fixture) {
		long := strings.Repeat("x\xff", 1<<20)
		for _, kind := range []broker.SettleKind{broker.Nack, broker.Bury, broker.Cancel} {
			l := f.leased(plain())
			f.settle(l, broker.Settlement{Kind: kind, Error: long, Delay: time.Hour})
			got := f.get(l.Job.Ref()).Error
			if len(got) > broker.MaxErrorBytes || !strings.HasPrefix(got, long[:1000]) {
				f.Errorf("%v: error of %d bytes: %s", kind, len(got), short([]byte(got)))
			}
		}
	}},
	{"headers and tags come back as they were", func(f *fixture) {
		n := plain()
		n.Headers = map[string]string{"": "empty name", "a": "", "nul\x00": "\xff\xfe", "big": strings.Repeat("v", 4000)}
		n.Tenant, n.Group, n.Key = "t/:\x00\xff", strings.Repeat("g", broker.MaxTagBytes), "k k"
		f.addOne(n)
		j := f.one().Job
		want(f, "headers", len(j.Headers), len(n.Headers))
		for k, v := range n.Headers {
			want(f, "header "+k, j.Headers[k], v)
		}
		want(f, "tags", [3]string{j.Tenant, j.Group, j.Key}, [3]string{n.Tenant, n.Group, n.Key})
	}},
}

// oddBytes are contents that stores have been known to change.
func oddBytes() map[string][]byte {
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	return map[string][]byte{
		"nil": nil, "empty": {}, "nul": {0}, "every byte": all, "bad UTF-8": []byte("\xff\xfe"),
		"a lone surrogate": []byte(`"\ud800"`), "a newline": []byte("a\r\nb\n"), "a big number": []byte("9223372036854775807"),
		"zeros": make([]byte, 5000), "a MiB": bytes.Repeat(all, 4096),
	}
}
