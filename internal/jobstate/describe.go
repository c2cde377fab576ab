package jobstate

import (
	"fmt"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// Record is a record as people read it.
type Record struct {
	Type  string      // its name, as the package comment has it
	Queue string      // "" when it is about none
	IDs   []broker.ID // the jobs that it is about
	Text  string      // the rest, "name=value" joined by spaces; names are quoted, payloads only measured
}

var recordNames = [...]string{
	recEnqueue: "enqueue", recClaim: "claim", recWait: "wait", recFinal: "final", recDrop: "drop", recExtend: "extend",
	recAsk: "ask", recNote: "note", recPause: "pause", recWorker: "worker", recLeave: "leave", recEpoch: "epoch", recGone: "gone", recHold: "hold",
	recSet: "set", recTick: "tick", recReplace: "replace", recStop: "stop", recStart: "start",
	recMove: "move", recTake: "take", recArrive: "arrive", recSignal: "signal", recKey: "key", recAdopt: "adopt", recPut: "put", recCall: "call",
}

// Describe hands the records of a frame's body to fn, without a state.
func Describe(body []byte, fn func(Record)) error {
	r, err := newReader(body, 0, 0)
	if err != nil {
		return err
	}
	for {
		t, ok := r.next()
		if !ok {
			return r.err
		}
		if t < recEnqueue || int(t) >= len(recordNames) {
			r.newer(t)
			return r.err
		}
		d := describer{r: r, rec: Record{Type: recordNames[t]}}
		d.describe(t)
		if r.err != nil {
			return r.err
		}
		d.rec.Text = strings.Join(d.words, " ")
		fn(d.rec)
	}
}

type describer struct {
	r     *reader
	rec   Record
	words []string
}

func (d *describer) say(name string, value any) {
	switch v := value.(type) {
	case string, []byte:
		value = fmt.Sprintf("%.80q", v)
	case int64: // a time
		value = time.Unix(0, v).UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	d.words = append(d.words, fmt.Sprintf("%s=%v", name, value))
}

func (d *describer) queue()     { d.rec.Queue = string(d.r.str()) }
func (d *describer) id()        { d.rec.IDs = append(d.rec.IDs, d.r.id()) }
func (d *describer) ids(n int)  { d.each(n, func() {}) }
func (d *describer) size(l Loc) { d.say("bytes", uint64(l.Len)) }

func (d *describer) each(size int, more func()) {
	for range d.r.count(size) {
		d.id()
		more()
	}
}

func (d *describer) describe(t recordType) {
	r := d.r
	switch t {
	case recEnqueue:
		d.enqueue()
	case recClaim:
		d.queue()
		d.say("worker", r.str())
		d.say("handle", r.str())
		d.say("until", r.time())
		d.each(19, func() { d.say("token", r.uint()<<32|r.uint()); d.say("attempt", r.uint()) })
		d.picked()
	case recWait:
		d.wait()
	case recFinal:
		d.final()
	case recDrop:
		d.queue()
		d.say("why", [...]string{"", "retention", "deleted"}[min(r.byte(), 2)])
		d.ids(16)
	case recExtend:
		d.queue()
		d.say("until", r.time())
		d.ids(16)
	case recAsk:
		d.queue()
		d.id()
		if r.byte() != 0 {
			d.size(r.blob())
		}
	case recNote:
		d.queue()
		d.id()
		d.say("percent", r.byte())
		d.say("note", r.text())
		for range r.count(1) {
			d.say("log", r.text())
		}
	case recCall:
		d.call()
	case recMove, recTake, recArrive, recSignal, recKey, recAdopt, recPut:
		d.describeMove(t)
	default:
		d.describeHandles(t)
	}
}

func (d *describer) describeHandles(t recordType) {
	r := d.r
	switch t {
	case recPause:
		d.queue()
		d.say("on", r.byte() != 0)
	case recWorker:
		d.say("id", r.text())
		d.say("name", r.text())
		d.say("host", r.text())
		d.say("pid", r.uint())
		d.say("handle", r.str())
		d.say("queues", strings.Join(r.texts(), ","))
		d.say("tasks", strings.Join(r.texts(), ","))
		d.say("concurrency", r.uint())
		d.say("started", r.time())
	case recLeave:
		d.say("id", r.text())
	case recEpoch:
		d.say("number", r.uint())
		d.say("handle", r.str())
		d.say("boot", fmt.Sprintf("%x", r.take(16)))
		r.int()
		d.say("forgot", r.byte() != 0)
	case recGone:
		d.say("handle", r.str())
	case recHold:
		d.queue()
		d.id()
		d.say("lock", r.str())
	case recSet:
		d.queue()
		d.say("layer", [...]string{"", "declared", "operator"}[min(r.byte(), 2)])
		d.say("kind", r.str())
		d.say("name", r.str())
		d.words = append(d.words, "value="+string(r.text()))
	case recTick:
		d.queue()
		d.say("schedule", r.str())
		d.say("next", int64(r.uint()))
	case recStop:
		d.queue()
		d.say("schedule", r.str())
		d.say("on", r.byte() != 0)
	case recStart:
		d.queue()
		d.say("owner", r.str())
		d.say("start", r.id())
		d.say("at", r.time())
	case recReplace:
		d.queue()
		d.id()
		if replaceFlags(r.byte())&pMoved != 0 {
			r.time()
			d.say("run_at", r.time())
		}
		r.take(16)
		d.size(r.blob())
	}
}

func (d *describer) enqueue() {
	queue, task, e := d.r.enqueueRec()
	d.rec.Queue = string(queue)
	d.rec.IDs = []broker.ID{e.id}
	d.say("task", task)
	if e.flags&fScheduled != 0 {
		d.say("run_at", e.runAt)
	}
	if e.priority != 0 {
		d.say("priority", e.priority)
	}
	for _, s := range [...]struct{ name, value string }{{"tenant", e.tenant}, {"group", e.group}, {"key", e.key}} {
		if s.value != "" {
			d.say(s.name, s.value)
		}
	}
	d.size(e.body)
}

// picked reads what a claim did to shares and rates.
func (d *describer) picked() {
	r := d.r
	for range r.count(4) {
		r.int()
		r.uint()
		tenant, service := string(r.str()), r.uint()
		if tenant != "" {
			d.say("tenant", tenant)
			d.say("service", service)
		}
	}
	for range r.count(4) {
		d.say("rate", r.str())
		d.say("of", r.str())
		st := r.rate()
		d.say("full_at", st.Last+st.Debt)
	}
}

func (d *describer) wait() {
	r := d.r
	d.queue()
	d.id()
	d.say("reason", reasons[r.reason()])
	r.byte()
	flags := waitFlags(r.byte())
	r.time()
	d.say("run_at", r.time())
	d.say("attempts", r.uint())
	d.say("failures", r.uint())
	if flags&wError != 0 {
		d.size(r.blob())
	}
}

func (d *describer) final() {
	r := d.r
	d.queue()
	d.id()
	d.say("state", broker.State(r.byte()))
	d.say("reason", reasons[r.reason()])
	r.byte()
	flags := finalFlags(r.byte())
	d.say("failures", r.uint())
	if flags&zKeep != 0 {
		d.say("keep_until", r.time())
	}
	if flags&zDrop != 0 {
		d.say("kept", false)
	}
	if flags&zError != 0 {
		d.say("error_bytes", r.blob().Len)
	}
	if flags&zResult != 0 {
		d.say("result_bytes", r.blob().Len)
	}
}
