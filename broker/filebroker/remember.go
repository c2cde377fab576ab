package filebroker

import "github.com/spoolq/spool/broker"

// callID is the id by which a call is remembered; zero for one that is not.
func (b *handle) callID(c broker.Call) broker.ID {
	if !b.cfg.RememberCalls {
		return broker.ID{}
	}
	return c.ID
}

// answerBytes is about what the record of a call takes whose answer is of n jobs.
func (b *handle) answerBytes(n int) int {
	if !b.cfg.RememberCalls {
		return 0
	}
	return 64 + 28*n
}
