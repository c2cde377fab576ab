package dashboard

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
	"github.com/spoolq/spool/cron"
)

// hostile are texts that would do harm if a page took them for markup, script or
// an address.
var hostile = []string{
	`<script>alert(1)</script>`, `"onmouseover="alert(1)" x="`, `'><img src=x onerror=alert(1)>`, `</td></table><h1>gone</h1>`, `</code></pre><b>out</b>`,
	`javascript:alert(1)`, `{{1}}{{.}}`, "line\u2028separator\u202eturned", `<svg/onload=alert(1)>`, `&lt;script&gt;`, `../../../etc/passwd?x=1#y`, "\x00\x1b[2J\x7f",
	"\xcb)\n", "Caf\xe9 in Latin-1", `</title><script>alert(1)</script>`, `<!-- `, `]]>`, "`${alert(1)}`", `%3Cscript%3E`, `<a href="javascript:alert(1)">x</a>`,
}

// quiet is a client of a store in memory that logs nothing.
func quiet(t testing.TB) *spool.Client {
	t.Helper()
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// fixture fills a store by the contract.
type fixture struct {
	testing.TB
	b   broker.Broker
	ctx context.Context
	rnd *rand.Rand
}

func newFixture(t testing.TB, c *spool.Client) *fixture {
	return &fixture{t, c.Broker(), t.Context(), rand.New(rand.NewPCG(1, 2))}
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) enqueue(queue string, jobs ...broker.NewJob) []broker.ID {
	f.Helper()
	answers, err := f.b.Enqueue(f.ctx, broker.NewCall(), queue, jobs)
	f.must(err)
	ids := make([]broker.ID, len(answers))
	for i := range answers {
		ids[i] = answers[i].ID
	}
	return ids
}

// many makes n jobs of a task.
func (f *fixture) many(queue, task string, n int, job func(i int) broker.NewJob) {
	f.Helper()
	for done := 0; done < n; {
		var jobs []broker.NewJob
		for ; len(jobs) < 1000 && done < n; done++ {
			j := job(done)
			j.Task = task
			jobs = append(jobs, j)
		}
		f.enqueue(queue, jobs...)
	}
}

func (f *fixture) claim(worker, queue, task string, n int) []broker.Lease {
	f.Helper()
	claimed, err := f.b.Claim(f.ctx, broker.NewCall(), broker.ClaimRequest{
		Queues: []string{queue}, Tasks: []string{task}, Max: n, TTL: time.Hour, Worker: worker, Remote: true,
	})
	f.must(err)
	return claimed.Leases
}

func (f *fixture) settle(leases []broker.Lease, how func(i int) broker.Settlement) {
	f.Helper()
	var all []broker.Settlement
	for i, l := range leases {
		s := how(i)
		s.Ref, s.Token = l.Job.Ref(), l.Token
		all = append(all, s)
	}
	settled, err := f.b.Settle(f.ctx, broker.NewCall(), all)
	f.must(err)
	for _, s := range settled {
		f.must(s.Err)
	}
}

// bury ends n jobs of a task as dead letters.
func (f *fixture) bury(queue, task string, n int, text func(i int) string) {
	f.Helper()
	for done := 0; done < n; {
		leases := f.claim("bury", queue, task, min(n-done, 500))
		if len(leases) == 0 {
			f.Fatalf("nothing to bury of task %s", task)
		}
		f.settle(leases, func(i int) broker.Settlement { return broker.Settlement{Kind: broker.Bury, Error: text(done + i)} })
		done += len(leases)
	}
}

func (f *fixture) register(w broker.Worker) {
	f.Helper()
	_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Worker: w, TTL: time.Hour})
	f.must(err)
}

func (f *fixture) configure(queue string, change broker.Change) {
	f.Helper()
	f.must(f.b.Configure(f.ctx, broker.NewCall(), queue, change))
}

func asJSON(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

var people = []string{"ada", "grace", "edsger", "barbara", "donald", "margaret", "tony", "frances", "leslie", "radia"}

var tenants = []string{"acme", "globex", "initech", "umbrella", "hooli"}

// trace is the error text of a failed attempt.
func trace(i int, first string) string {
	return first + "\n\n" + fmt.Sprintf(`goroutine %d [running]:
example.com/shop/mail.(*Sender).send(0xc000%06x, {0x1400, 0x%x})
	/src/shop/mail/send.go:%d +0x1f4
example.com/shop/mail.deliver(...)
	/src/shop/mail/deliver.go:31
github.com/spoolq/spool.(*Worker).call(0xc0001a2000)
	/src/spool/handle.go:141 +0x5c`, 20+i, i*64, i, 80+i%9)
}

// realistic fills a store as one looks in the middle of a day.
func realistic(t testing.TB, c *spool.Client) {
	f := newFixture(t, c)
	mail := func(i int) broker.NewJob {
		p := people[i%len(people)]
		return broker.NewJob{
			Tenant: tenants[i*i%len(tenants)], Key: map[bool]string{true: fmt.Sprintf("welcome-%d", i)}[i%3 == 0], MaxAttempts: 8, Timeout: 30 * time.Second,
			Retain: 24 * time.Hour, Headers: map[string]string{"traceparent": fmt.Sprintf("00-%032x-%016x-01", i+1, i+7), "spool.codec": "json"},
			Payload: asJSON(map[string]any{"to": p + "@example.com", "subject": "Your order " + fmt.Sprint(40000+i), "template": "order_v3", "locale": "en"}),
		}
	}
	f.many("emails", "send_email", 4600, mail)
	f.many("emails", "weekly_digest", 420, func(i int) broker.NewJob {
		j := mail(i)
		j.Key, j.Delay = "", time.Duration(i+1)*11*time.Minute
		return j
	})
	f.bury("emails", "send_email", 214, func(i int) string {
		switch {
		case i%7 < 4:
			return trace(i, fmt.Sprintf("dial tcp 10.0.3.%d:587: i/o timeout after %dms", i%40, 3000+i))
		case i%7 < 6:
			return trace(i, fmt.Sprintf(`smtp: 550 5.1.1 mailbox "%s%d@example.com" unavailable`, people[i%len(people)], i))
		}
		return fmt.Sprintf("template order_v3: line %d: nil map entry \"total\"", i%50)
	})
	f.settle(f.claim("w", "emails", "send_email", 900), func(i int) broker.Settlement {
		return broker.Settlement{Kind: broker.Ack, Result: asJSON(map[string]any{"message_id": fmt.Sprintf("<%d@mx.example.com>", i), "smtp": 250})}
	})
	f.settle(f.claim("w", "emails", "send_email", 60), func(i int) broker.Settlement {
		return broker.Settlement{Kind: broker.Nack, Delay: time.Duration(i+5) * time.Minute, Error: trace(i, "dial tcp 10.0.3.9:587: connection refused")}
	})
	f.many("images", "resize", 1200, func(i int) broker.NewJob {
		return broker.NewJob{Group: fmt.Sprintf("album-%d", i%31), Ordered: i%2 == 0, Priority: int32(i % 3), Payload: asJSON(map[string]any{"file": fmt.Sprintf("s3://photos/%05d.heic", i), "widths": []int{320, 1024, 2048}})}
	})
	f.bury("images", "resize", 37, func(i int) string { return fmt.Sprintf("decode %05d.heic: unexpected EOF at byte %d", i, 1000*i) })
	f.many("billing", "charge_card", 130, func(i int) broker.NewJob {
		return broker.NewJob{Tenant: tenants[i%len(tenants)], Key: fmt.Sprintf("invoice-%d", i), Payload: asJSON(map[string]any{"invoice": 9007199254740993 + i, "cents": 1250 + i, "currency": "EUR"})}
	})
	f.bury("billing", "charge_card", 9, func(i int) string { return fmt.Sprintf("card declined: insufficient funds (request %032x)", i) })
	f.many("billing", "sync_ledger", 12, func(i int) broker.NewJob { return broker.NewJob{Payload: asJSON(map[string]any{"day": "2026-11-30"})} })
	_, err := c.Cancel(f.ctx, spool.Filter{Queue: "billing", Task: "sync_ledger"})
	f.must(err)
	realisticWorkers(f)
	realisticSettings(f)
	f.must(c.Pause(f.ctx, "billing"))
}

func realisticWorkers(f *fixture) {
	now := time.Now()
	f.register(broker.Worker{ID: broker.NewID().String(), Name: "mailer", Host: "web-1", PID: 4121, Queues: []string{"emails"}, Tasks: []string{"send_email", "weekly_digest"}, Concurrency: 16, StartedAt: now.Add(-26 * time.Hour)})
	busy := broker.Worker{ID: broker.NewID().String(), Name: "imager", Host: "gpu-2", PID: 977, Queues: []string{"images"}, Tasks: []string{"resize"}, Concurrency: 4, StartedAt: now.Add(-47 * time.Minute)}
	f.register(busy)
	leases := f.claim(busy.ID, "images", "resize", 3)
	for i, l := range leases {
		_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Worker: busy, TTL: 20 * time.Minute, Leases: []broker.Extension{{
			Ref: l.Job.Ref(), Token: l.Token, Progress: &broker.Progress{Percent: 20 + 30*i, Note: fmt.Sprintf("width %d of 3", i+1)},
			Log: []string{"decoded 4032x3024 in 212ms", "wrote 320w", "wrote 1024w"},
		}}})
		f.must(err)
	}
	f.claim("importer on old-host", "images", "resize", 1)
}

func realisticSettings(f *fixture) {
	f.configure("emails", broker.Change{Declare: true, Owner: "mailer", Set: []broker.Setting{
		{Kind: broker.LimitSetting, Name: "smtp.rate", Limit: &broker.Limit{Tasks: []string{"send_email", "weekly_digest"}, Count: 50, Every: time.Second, Burst: 100}},
		{Kind: broker.LimitSetting, Name: "send_email.running.tenant", Limit: &broker.Limit{Tasks: []string{"send_email"}, Running: 8, Per: broker.PerTenant}},
		{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 10000}},
		{Kind: broker.ScheduleSetting, Name: "digest", Schedule: &broker.Schedule{Spec: "30 7 * * MON", Zone: "Europe/Berlin", Job: broker.NewJob{Task: "weekly_digest"}}},
		{Kind: broker.ScheduleSetting, Name: "bounces", Schedule: &broker.Schedule{Spec: "*/5 * * * *", Job: broker.NewJob{Task: "send_email"}}},
	}})
	f.configure("emails", broker.Change{Set: []broker.Setting{
		{Kind: broker.LimitSetting, Name: "smtp.rate", Limit: &broker.Limit{Tasks: []string{"send_email", "weekly_digest"}, Count: 20, Every: time.Second, Burst: 20}},
		{Kind: broker.WeightSetting, Name: "acme", Weight: 3}, {Kind: broker.WeightSetting, Name: "hooli", Weight: 2},
		{Kind: broker.RetentionSetting, Retention: &broker.Retention{Done: 48 * time.Hour, Dead: 30 * 24 * time.Hour}},
	}})
	f.configure("images", broker.Change{Set: []broker.Setting{
		{Kind: broker.LimitSetting, Name: "gpu", Limit: &broker.Limit{Tasks: []string{"resize"}, Running: 6}},
		{Kind: broker.AgeingSetting, Ageing: 10 * time.Minute},
		{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 1250, Bytes: 64 << 20, DropOldest: true}},
	}})
	f.configure("billing", broker.Change{Declare: true, Owner: "ledger", Set: []broker.Setting{
		{Kind: broker.ScheduleSetting, Name: "nightly", Schedule: &broker.Schedule{Spec: "15 2 * * *", Zone: "America/New_York", Missed: "all", Job: broker.NewJob{Task: "sync_ledger"}}},
	}})
	f.configure("billing", broker.Change{Pause: []string{"nightly"}})
	tickOnce(f, "emails", "digest", "30 7 * * MON", "Europe/Berlin")
	tickOnce(f, "emails", "bounces", "*/5 * * * *", "")
}

// tickOnce sets a schedule's cursor, as the first scheduler that sees it does.
func tickOnce(f *fixture, queue, name, spec, zone string) {
	f.Helper()
	c, err := cron.New(spec, zone, cron.Wall)
	f.must(err)
	next, _ := c.Next(time.Now())
	_, _, err = f.b.Tick(f.ctx, broker.NewCall(), broker.Tick{Queue: queue, Schedule: name, Next: next})
	f.must(err)
}

// poison puts a hostile text into every field that a job, a worker and a setting
// has, as far as the contract lets it in.
func poison(t testing.TB, c *spool.Client) { poisonWith(t, c, hostile) }

func poisonWith(t testing.TB, c *spool.Client, hostile []string) {
	f := newFixture(t, c)
	for i, h := range hostile {
		tag := h[:min(len(h), broker.MaxTagBytes)]
		job := broker.NewJob{
			Task: "poison", Tenant: tag, Group: tag, Key: fmt.Sprintf("%s%d", tag, i), Payload: []byte(h), Retain: time.Hour,
			Headers: map[string]string{h: h, "name": h},
		}
		worker := broker.Worker{ID: fmt.Sprintf("%d%s", i, tag), Name: tag, Host: tag, Queues: []string{tag}, Tasks: []string{tag}, Concurrency: 2}
		f.register(worker)
		f.enqueue("poison", job) // stays ready, after the others are claimed
		f.bury("poison", "poison", 1, func(int) string { return h + "\n" + h })
		job.Key = fmt.Sprintf("b%s%d", tag, i)
		f.enqueue("poison", job)
		f.settle(f.claim(worker.ID, "poison", "poison", 1), func(int) broker.Settlement { return broker.Settlement{Kind: broker.Ack, Result: []byte(h)} })
		job.Key = fmt.Sprintf("c%s%d", tag, i)
		f.enqueue("poison", job)
		for _, l := range f.claim(worker.ID, "poison", "poison", 1) {
			_, err := f.b.Extend(f.ctx, broker.ExtendRequest{Worker: worker, TTL: time.Hour, Leases: []broker.Extension{{
				Ref: l.Job.Ref(), Token: l.Token, Progress: &broker.Progress{Percent: 3, Note: h}, Log: []string{h},
			}}})
			f.must(err)
		}
		job.Key, job.Delay = fmt.Sprintf("d%s%d", tag, i), time.Hour
		f.enqueue("poison", job)
		job.Key, job.Delay = fmt.Sprintf("e%s%d", tag, i), 0
		f.enqueue("poison", job)
	}
	f.configure("poison", broker.Change{Set: []broker.Setting{
		{Kind: broker.WeightSetting, Name: hostile[0], Weight: 2},
		{Kind: broker.ScheduleSetting, Name: "hostile", Schedule: &broker.Schedule{Spec: hostile[0], Zone: hostile[1], Job: broker.NewJob{Task: "poison", Payload: []byte(hostile[2])}}},
	}})
	_, err := c.Apply(f.ctx, broker.Command{Kind: broker.CancelJobs, Reason: hostile[0], Filter: broker.Filter{Queue: "poison", States: []broker.State{broker.Scheduled}}})
	f.must(err)
	for i, h := range hostile {
		f.enqueue("poison", broker.NewJob{Task: "poison", Delay: time.Hour, Tenant: h, Group: h, Key: fmt.Sprintf("f%s%d", h, i), Payload: []byte(h)})
	}
}
