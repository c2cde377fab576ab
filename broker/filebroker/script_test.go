package filebroker

import (
	"time"

	"github.com/spoolq/spool/broker"
)

// hour is a lease that lasts through a script.
const hour = time.Hour

// everyRecord plays every kind of call that makes a record, with every option
// and every way to end a job, on two handles of a scene. Numbers of jobs begin
// at n. Handle b is closed at the end, or killed.
func everyRecord(s *scene, a, b *twin, n int, kill bool) {
	everyEnqueue(s, a, b, n)
	everyWait(a, b, n+20)
	everyFinal(a, b, n+40)
	everyCommand(a, b, n+60)
	everyExpiry(a, b, n+80)
	everyFlow(s, a, b, n+120)
	everyEnd(a, b, n+100, kill)
}

// job is a job of queue q with little in it.
func labJob(n int, change ...func(*broker.NewJob)) broker.NewJob {
	j := broker.NewJob{ID: labID(n), Task: "t", Payload: []byte{byte(n), 0, 0xff}}
	for _, c := range change {
		c(&j)
	}
	return j
}

func labJobs(n ...int) (jobs []broker.NewJob) {
	for _, k := range n {
		jobs = append(jobs, labJob(k))
	}
	return jobs
}

// everyEnqueue leaves nothing ready in queue q.
func everyEnqueue(s *scene, a, b *twin, n int) {
	tag := string(rune('a' + n/200))
	a.enqueue("q", labJob(n))
	full := labJob(n+1, func(j *broker.NewJob) {
		j.Task, j.Priority, j.Tenant, j.Group, j.Ordered = "u", 7, "ten", "grp"+tag, true
		j.Headers = map[string]string{"spool.codec": "json", "own": "v"}
		j.Key, j.KeyHold = "final"+tag, broker.HoldUntilFinal
		j.MaxAttempts, j.Timeout, j.StartWithin, j.Retain = 3, time.Second, 2*hour, 3*hour
	})
	b.enqueue("q", full)
	a.enqueue("q", full)                                                                     // its id is known: no frame
	a.enqueue("q", labJob(n+2, func(j *broker.NewJob) { j.Task, j.Key = "u", "final"+tag })) // its key is held
	a.enqueue("r",                                                                           // another queue, a batch of one frame
		labJob(n+3, func(j *broker.NewJob) { j.Delay = 50 * hour }),
		labJob(n+4, func(j *broker.NewJob) { j.At = s.m.Clock.Wall().Add(60 * hour) }),
		labJob(n+5, func(j *broker.NewJob) { j.At = s.m.Clock.Wall().Add(-hour) }),
		labJob(n+6, func(j *broker.NewJob) { j.Key, j.KeyHold = "start"+tag, broker.HoldUntilStarted }),
		labJob(n+7, func(j *broker.NewJob) { j.Key, j.KeyHold, j.KeyFor = "for"+tag, broker.HoldFor, 90*hour }),
	)
	a.claim(broker.ClaimRequest{Queues: []string{"r"}, Max: 2, TTL: 40 * hour, Worker: "far", Remote: true})
	a.take("far", 40*hour, n+1, n)
	a.end(broker.Ack, func(st *broker.Settlement) { st.Result = []byte("result " + tag) }, n)
}

// everyWait makes jobs wait again for every reason but the end of a lease.
func everyWait(a, b *twin, n int) {
	a.enqueue("q", labJobs(n, n+1, n+2, n+3)...)
	b.extend(broker.ExtendRequest{Worker: broker.Worker{ID: "w2", Name: "two", Host: "h", PID: 7, Queues: []string{"q"}, Tasks: []string{"t"}, Concurrency: 4}}, nil, nil)
	b.take("w2", hour, n, n+1, n+2, n+3)
	b.extend(broker.ExtendRequest{TTL: 2 * hour}, nil, nil, n, n+1)
	b.extend(broker.ExtendRequest{TTL: 2 * hour}, &broker.Progress{Percent: 40, Note: "so far"}, []string{"line one", "line two"}, n+2)
	b.end(broker.Nack, func(st *broker.Settlement) { st.Error, st.Delay = "failed, later", time.Minute }, n)
	b.end(broker.Nack, func(st *broker.Settlement) { st.Error = "failed, now" }, n+1)
	b.end(broker.Snooze, func(st *broker.Settlement) { st.Delay = time.Second }, n+2)
	b.end(broker.Release, nil, n+3)
	a.pass(2 * time.Minute) // what was put off is ready
	a.take("w1", hour, n+3, n+1, n+2, n)
	a.end(broker.Ack, nil, n, n+1, n+2, n+3) // one commit; none is kept
}

// everyFinal ends jobs by settlements in every way.
func everyFinal(a, b *twin, n int) {
	a.enqueue("q",
		labJob(n, func(j *broker.NewJob) { j.Retain = 3 * hour }), labJob(n+1), labJob(n+2),
		labJob(n+3, func(j *broker.NewJob) { j.MaxAttempts = 1 }), labJob(n+4))
	b.take("w2", hour, n, n+1, n+2, n+3, n+4)
	b.end(broker.Ack, func(st *broker.Settlement) {
		st.Result = []byte{}
		st.FollowUps = []broker.FollowUp{{Queue: "q", Job: labJob(n + 5)}, {Queue: "s", Job: labJob(n + 6)}}
	}, n)
	a.end(broker.Bury, func(st *broker.Settlement) { st.Error = "hopeless" }, n+1)
	a.end(broker.Cancel, func(st *broker.Settlement) { st.Error = "not wanted" }, n+2)
	a.end(broker.Nack, func(st *broker.Settlement) { st.Error = "the last one" }, n+3)
	a.end(broker.Nack, func(st *broker.Settlement) { st.Error = "the last one" }, n+3) // the same again: no frame
	a.command(broker.CancelJobs, broker.Filter{IDs: []broker.ID{labID(n + 4)}}, "by ada")
	b.extend(broker.ExtendRequest{TTL: hour}, nil, nil, n+4)
	b.end(broker.Nack, nil, n+4)
	a.take("w1", hour, n+5)
	free := a.hold(n + 5)
	a.end(broker.Ack, nil, n+5)
	free()
}

// everyCommand gives every command.
func everyCommand(a, b *twin, n int) {
	a.enqueue("q", labJobs(n, n+1, n+2)...)
	b.command(broker.CancelJobs, broker.Filter{IDs: []broker.ID{labID(n), labID(n + 1)}}, "an error")
	a.command(broker.PauseQueue, broker.Filter{}, "")
	b.claim(broker.ClaimRequest{Queues: []string{"q"}, Max: 1, Worker: "w2"}) // nothing: it is paused
	b.command(broker.RequeueJobs, broker.Filter{IDs: []broker.ID{labID(n)}}, "")
	b.command(broker.DeleteJobs, broker.Filter{States: []broker.State{broker.Cancelled}, ErrorContains: "an err"}, "")
	a.command(broker.ResumeQueue, broker.Filter{}, "")
	a.take("w1", hour, n+2, n)
	a.end(broker.Ack, nil, n, n+2)
}

// everyExpiry lets deadlines pass.
func everyExpiry(a, b *twin, n int) {
	a.enqueue("q", labJob(n), labJob(n+1, func(j *broker.NewJob) { j.MaxAttempts = 1 }), labJob(n+2), labJob(n+3, func(j *broker.NewJob) { j.StartWithin = time.Minute }))
	b.take("w2", time.Second, n)
	b.take("w2", 2*time.Second, n+1)
	b.take("w2", 3*time.Second, n+2)
	a.command(broker.CancelJobs, broker.Filter{IDs: []broker.ID{labID(n + 2)}}, "")
	a.pass(time.Second)
	a.pass(time.Second)
	a.pass(time.Second)
	a.pass(time.Minute) // not started in time
	a.take("w1", hour, n)
	a.end(broker.Ack, nil, n)
	a.pass(4 * hour) // results and cancelled jobs are not kept any longer
}

// everyEnd ends workers and handle b.
func everyEnd(a, b *twin, n int, kill bool) {
	a.enqueue("q", labJobs(n, n+1)...)
	b.extend(broker.ExtendRequest{Worker: broker.Worker{ID: "w3", Name: "three"}}, nil, nil)
	b.extend(broker.ExtendRequest{Worker: broker.Worker{ID: "w2"}, Leaving: true}, nil, nil)
	b.take("w3", hour, n)
	if kill {
		b.kill(a)
	} else {
		b.close(a)
	}
	a.take("far", 40*hour, n, n+1)
}
