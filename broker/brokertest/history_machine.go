package brokertest

import (
	"fmt"
	"time"

	"github.com/spoolq/spool/broker"
)

// everyClient stands for all clients where a step names one.
const everyClient = -1

// reopenStep ends a client, or all of them, and opens others. What the harness
// cannot do is left out.
type reopenStep struct {
	client  int
	kill    bool // by the end of the process
	restart bool // of the machine, meanwhile; of all clients alone
}

func (s reopenStep) String() string {
	how := "close"
	if s.kill {
		how = "kill"
	}
	if s.restart {
		how += ", restart the machine,"
	}
	return fmt.Sprintf("client %d: %s and open again (-1: all)", s.client, how)
}

func (s reopenStep) do(p *player) {
	h := &p.f.h
	if s.client == everyClient && !h.Reopen || s.kill && h.Kill == nil || s.restart && h.Restart == nil {
		return
	}
	if s.restart {
		passStep(time.Millisecond).do(p) // no claim is of the moment in which the epoch begins
		p.stir()                         // from this value of the clock it goes on
	}
	if !s.kill {
		s.end(p)
		s.endModels(p)
	}
	if s.restart {
		p.m.restart(h.Restart)
		p.forgetCalls()
	}
	if s.kill { // with a restart: all at the same time, by it
		s.end(p)
		s.findDead(p)
	}
	if s.client == everyClient {
		p.f.b = p.f.open()
	}
	for i := range p.clients {
		if s.of(i) {
			p.open(i)
		}
	}
	if s.restart {
		p.claimNothing()
	}
	p.maintain() // what a client held is only sure to be free after that
}

// forgetCalls makes no call again that was made before a restart: the clock may
// have gone on with the wall clock by any time.
func (p *player) forgetCalls() {
	if p.repeats != nil {
		p.repeats.made = nil
	}
}

func (s reopenStep) of(client int) bool { return s.client == client || s.client == everyClient }

// end closes the clients, or ends their processes.
func (s reopenStep) end(p *player) {
	for i := range p.clients {
		if s.of(i) {
			p.end(p.clients[i].real, s.kill)
		}
	}
	if s.client == everyClient {
		p.end(p.f.b, s.kill)
	}
}

func (s reopenStep) endModels(p *player) {
	for i := range p.clients {
		if s.of(i) {
			p.f.must("close the model", p.clients[i].model.Close())
		}
	}
}

// findDead does to the model what the first client does that finds processes
// gone, in any order: a lease that is over by then has expired.
func (s reopenStep) findDead(p *player) {
	_, err := p.m.Maintain(p.f.ctx)
	p.f.must("maintain the model", err)
	defer p.m.sweepAll()()
	s.endModels(p)
}

// end closes a client, or ends its process.
func (p *player) end(b broker.Broker, kill bool) {
	if kill {
		b.(*watched).kill()
	}
	p.f.must("close", b.Close())
}

// sweepAll makes one sweep of all that is done until the returned function is
// called.
func (m *Model) sweepAll() (done func()) {
	m.s.mu.Lock()
	defer m.s.mu.Unlock()
	end := m.s.sweeping()
	return func() {
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		end()
	}
}

// stir changes something of the store, so that the last time which the store
// knows is now.
func (p *player) stir() {
	for _, leaving := range []bool{false, true} {
		_, err := p.real(0).Extend(p.f.ctx, broker.ExtendRequest{Worker: broker.Worker{ID: "stir"}, Leaving: leaving})
		p.f.must("stir", err)
	}
}

// claimNothing makes the first claim after a restart, with which an epoch begins
// at the latest.
func (p *player) claimNothing() {
	r := broker.ClaimRequest{Queues: []string{"none"}, Max: 1}
	for _, b := range []broker.Broker{p.real(0), p.model(0)} {
		_, err := b.Claim(p.f.ctx, broker.NewCall(), r)
		p.f.must("claim nothing", err)
	}
}

// wallStep moves the wall clock alone, on or back.
type wallStep time.Duration

func (s wallStep) String() string { return fmt.Sprintf("the wall clock steps by %v", time.Duration(s)) }

func (s wallStep) do(p *player) {
	if p.f.h.StepWall == nil || p.unclearAt(p.f.now().Add(time.Duration(s))) {
		return
	}
	p.stir() // the list of what became due before it is in the order of that time for whoever opens the store later
	p.f.h.StepWall(time.Duration(s))
	p.maintain()
}

// unclearAt reports whether it is open what a job does when the wall clock steps
// to a time: one that was due by that clock, and then is not.
func (p *player) unclearAt(wall time.Time) bool {
	p.m.s.mu.Lock()
	defer p.m.s.mu.Unlock()
	for _, j := range p.m.s.in("", broker.Ready) {
		if j.wall && j.RunAt.After(wall) {
			return true
		}
	}
	return false
}

// waitingBatches are the completion jobs that wait.
func (p *player) waitingBatches() (list []*job) {
	p.m.s.mu.Lock()
	defer p.m.s.mu.Unlock()
	for _, j := range p.m.s.jobs {
		if len(j.waits) > 0 {
			list = append(list, j)
		}
	}
	return list
}

// completed counts those of completion jobs whose members have all ended since.
func completed(waited []*job) (n int) {
	for _, j := range waited {
		if len(j.waits) == 0 {
			n++
		}
	}
	return n
}

// inOrder reports whether what a step ends, it ends in an order that is given: not so
// where one upkeep ends leases.
func inOrder(s step) bool {
	switch s.(type) {
	case passStep, reopenStep, wallStep:
		return false
	}
	return true
}
