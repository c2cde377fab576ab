package brokertest

import (
	"bytes"
	"fmt"
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
	{"settlements over the limits of a call are refused whole, before any is made", func(f *fixture) {
		caps := f.b.Caps()
		text := strings.Repeat("e", broker.MaxErrorBytes)
		n := caps.MaxBytes/len(text) + 1
		var all []broker.Settlement
		for len(all) < n {
			f.addMany(min(n-len(all), 500, caps.MaxBatch))
			for _, l := range f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: 500, TTL: time.Hour}).Leases {
				all = append(all, broker.Settlement{Ref: l.Job.Ref(), Token: l.Token, Kind: broker.Nack, Delay: time.Hour, Error: text + "and more, which is cut"})
			}
		}
		_, err := f.b.Settle(f.ctx, broker.NewCall(), all)
		f.wantErr("texts that are too much together", err, broker.ErrTooLarge)
		many := make([]broker.Settlement, 0, 2*caps.MaxBatch)
		for len(many) <= caps.MaxBatch {
			many = append(many, broker.Settlement{Ref: all[0].Ref, Token: all[0].Token, Kind: broker.Nack})
		}
		_, err = f.b.Settle(f.ctx, broker.NewCall(), many)
		f.wantErr("one settlement too many", err, broker.ErrTooLarge)
		ack := all[0]
		ack.Kind, ack.Error, ack.Delay = broker.Ack, "", 0
		ack.FollowUps = make([]broker.FollowUp, caps.MaxBatch)
		for i := range ack.FollowUps {
			ack.FollowUps[i] = broker.FollowUp{Queue: queue, Job: broker.NewJob{Task: task}}
		}
		_, err = f.b.Settle(f.ctx, broker.NewCall(), []broker.Settlement{ack})
		f.wantErr("one follow-up too many", err, broker.ErrTooLarge)
		want(f, "leased", f.count(queue, task).Leased, int64(n))
		for len(all) > 0 {
			part := all[:min(len(all), 500, caps.MaxBatch)]
			all = all[len(part):]
			answers, err := f.b.Settle(f.ctx, broker.NewCall(), part)
			f.must("settle", err)
			want(f, "answer", answers[0].State, broker.Scheduled)
		}
		want(f, "scheduled", f.count(queue, task).Scheduled, int64(n))
	}},
	{"a tag that is too long is refused, and named with its size and limit", func(f *fixture) {
		long := strings.Repeat("t", broker.MaxTagBytes+1)
		for field, job := range map[string]broker.NewJob{
			"tenant": {Task: task, Tenant: long}, "group": {Task: task, Group: long}, "key": {Task: task, Key: long},
		} {
			_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, []broker.NewJob{plain(), job})
			f.wantErr(field, err, broker.ErrInvalid)
			if says := fmt.Sprintf("%s has %d bytes, the limit is %d", field, len(long), broker.MaxTagBytes); err != nil && !strings.Contains(err.Error(), says) {
				f.Errorf("the error is %q, without %q", err, says)
			}
		}
		f.none()
	}},
	{"tags count for the size of a call", func(f *fixture) {
		jobs := make([]broker.NewJob, f.b.Caps().MaxBatch)
		tag := strings.Repeat("t", broker.MaxTagBytes)
		payload := make([]byte, f.b.Caps().MaxBytes/len(jobs)-2*broker.MaxTagBytes)
		for i := range jobs {
			jobs[i] = broker.NewJob{Task: task, Tenant: tag, Group: tag, Key: tag[:200] + fmt.Sprint(i), Payload: payload}
		}
		_, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, jobs)
		f.wantErr("with tags", err, broker.ErrTooLarge)
		for i := range jobs {
			jobs[i].Key = ""
		}
		f.enqueue(queue, jobs...)
		want(f, "ready", f.count(queue, task).Ready, int64(len(jobs)))
	}},
	{"a heartbeat outside its bounds is refused before anything is written", func(f *fixture) {
		l := f.leased(plain())
		long, longer := strings.Repeat("x", broker.MaxNameBytes), strings.Repeat("x", broker.MaxTagBytes)
		names := make([]string, broker.MaxWorkerNames+1)
		for i := range names {
			names[i] = "t"
		}
		for what, w := range map[string]broker.Worker{
			"id":   {ID: long + "x"},
			"name": {ID: "w", Name: long + "x"}, "host": {ID: "w", Host: longer + "x"},
			"queue": {ID: "w", Queues: []string{long + "x"}}, "task": {ID: "w", Tasks: []string{"t", long + "x"}},
			"tasks": {ID: "w", Tasks: names}, "queues": {ID: "w", Queues: names}, "concurrency": {ID: "w", Concurrency: -1},
		} {
			_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Worker: w})
			f.wantErr(what, err, broker.ErrInvalid)
			if err != nil && !strings.Contains(err.Error(), what) {
				f.Errorf("%s: the error does not name it: %v", what, err)
			}
		}
		x := broker.Extension{Ref: l.Job.Ref(), Token: l.Token, Log: []string{strings.Repeat("x", f.b.Caps().MaxBytes)}, Progress: &broker.Progress{Note: "n"}}
		_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Leases: []broker.Extension{x}, TTL: time.Hour})
		f.wantErr("a line over the limit", err, broker.ErrTooLarge)
		_, err = f.b.Extend(f.ctx, broker.ExtendRequest{Leases: make([]broker.Extension, broker.MaxBatchJobs+1)})
		f.wantErr("too many leases", err, broker.ErrTooLarge)
		_, err = f.b.Extend(f.ctx, broker.ExtendRequest{TTL: broker.MaxDelay + 1})
		f.wantErr("a lease of more than a hundred years", err, broker.ErrInvalid)
		_, err = f.b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{Max: 1, Worker: long + "x"})
		f.wantErr("a claim of a worker with a long id", err, broker.ErrInvalid)
		workers, err := f.b.Workers(f.ctx, "")
		f.must("workers", err)
		want(f, "workers", len(workers), 0)
		want(f, "lines", len(f.get(l.Job.Ref()).Log), 0)
		w := broker.Worker{ID: long, Name: long, Host: longer, Queues: []string{long}, Tasks: names[1:]}
		_, err = f.b.Extend(f.ctx, broker.ExtendRequest{Worker: w})
		f.must("the longest", err)
		workers, err = f.b.Workers(f.ctx, "")
		f.must("workers", err)
		want(f, "tasks", len(exactly(f, "workers", workers, 1)[0].Tasks), broker.MaxWorkerNames)
	}},
	{"as many leases with as many lines as a call holds are extended", func(f *fixture) {
		n := f.b.Caps().MaxBytes / (8 << 10)
		var all []broker.Extension
		for len(all) < n {
			f.addMany(min(n-len(all), 500, f.b.Caps().MaxBatch))
			for _, l := range f.take(f.b, broker.ClaimRequest{Queues: []string{queue}, Max: 1000, TTL: time.Hour}).Leases {
				x := broker.Extension{Ref: l.Job.Ref(), Token: l.Token}
				for range 8 {
					x.Log = append(x.Log, strings.Repeat("l", 1<<10))
				}
				all = append(all, x)
			}
		}
		beats, err := f.b.Extend(f.ctx, broker.ExtendRequest{Leases: all, TTL: time.Hour})
		f.must("extend", err)
		want(f, "last beat", beats[n-1].Status, broker.Held)
		want(f, "lines of the last", len(f.get(all[n-1].Ref).Log), 8)
	}},
	{"a reason that is too long is refused, and the longest is kept", func(f *fixture) {
		ref := f.addOne(plain())
		c := broker.Command{Kind: broker.CancelJobs, Filter: broker.Filter{Queue: queue}, Reason: strings.Repeat("r", broker.MaxReasonBytes+1)}
		_, err := f.b.Apply(f.ctx, broker.NewCall(), c)
		f.wantErr("a byte too long", err, broker.ErrInvalid)
		f.wantState(ref, broker.Ready, "")
		c.Reason = c.Reason[1:]
		_, err = f.b.Apply(f.ctx, broker.NewCall(), c)
		f.must("the longest", err)
		want(f, "reason", f.get(ref).Error, c.Reason)
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
