package jobstate

import "github.com/spoolq/spool/broker"

// describeMove describes the records of moves.
func (d *describer) describeMove(t recordType) {
	r := d.r
	if t == recArrive {
		d.arrive()
		return
	}
	d.queue()
	switch t {
	case recMove:
		d.say("state", broker.MoveState(r.byte()))
		r.byte()
		d.say("move", r.id())
		d.say("turned", r.id())
		d.say("peer", r.text())
		d.say("batch", r.uint())
		d.say("moved", r.uint())
	case recTake:
		d.say("batch", r.uint())
		d.ids(16)
		for range r.count(2) {
			d.say("task", r.str())
			d.say("key", r.text())
		}
		d.say("signals", r.uint())
		for range r.count(2) {
			d.say("setting", r.str())
			d.say("name", r.text())
		}
	case recSignal:
		d.say("batch", r.id())
		d.say("ordinal", r.uint())
	case recKey:
		d.say("task", r.str())
		d.say("key", r.text())
		d.id()
	case recAdopt:
		d.say("kind", r.str())
		d.say("name", r.text())
		d.words = append(d.words, "value="+string(r.text()))
	case recPut:
		d.say("batch", r.uint())
		d.say("arrived", r.uint())
	}
}

func (d *describer) arrive() {
	queue, task, a := d.r.arriveRec()
	d.rec.Queue = string(queue)
	d.rec.IDs = []broker.ID{a.id}
	d.say("task", task)
	d.say("state", a.state)
	d.say("reason", reasons[a.reason])
	d.say("run_at", a.runAt)
	if a.token != 0 {
		d.say("token", a.token)
	}
	d.size(a.body)
}
