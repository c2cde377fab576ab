package jobstate

import "github.com/spoolq/spool/broker"

// describeMove describes the records of moves.
func (d *describer) describeMove(t recordType) {
	r := d.r
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
	case recArrive:
		d.say("task", r.str())
		d.id()
		r.uint()
		d.say("state", broker.State(r.byte()))
		d.say("reason", reasons[r.reason()])
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
