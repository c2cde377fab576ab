package filebroker

import (
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/jobstate"
)

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

// callAdds is by how much a remembered enqueue of n jobs makes a checkpoint larger
// at most. What other calls add is gone after two minutes, and is small beside the
// spare of a full disk.
func (b *handle) callAdds(n int) int64 {
	if !b.cfg.RememberCalls {
		return 0
	}
	return jobstate.CallAdds(n)
}
