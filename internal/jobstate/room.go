package jobstate

import "github.com/spoolq/spool/broker"

// How many bytes a checkpoint takes at most is known at any time, without writing
// one: each part counts for what it may take. Numbers that may be large at times
// (times far apart, priorities) count for more than they take as a rule.
const (
	headRoom   = 4 << 10
	queueRoom  = 256
	taskRoom   = 96
	memberRoom = 64
	workerRoom = 512

	laneRoom  = 48 // beside tenant and group
	entryRoom = 32 // of a job that waits for nothing but a worker
	laterRoom = 16 // of one that waits, or waited, for its due time
	lifeRoom  = 72
	extraRoom = 96
	keyRoom   = 64 // of a key that is held, beside its text
)

// Room returns how many bytes Encode writes at most, but for what few jobs and
// queues have without bound in number: settings, names of workers, moves. It costs
// nothing.
func (s *State) Room() int64 {
	return headRoom + s.room + s.CallBytes() + int64(len(s.members)*memberRoom+len(s.workers)*workerRoom)
}

// Adds returns by how much Room grows at most with a job more, in a queue and task
// that there are.
func Adds(j *broker.NewJob) int64 {
	n := int64(entryRoom)
	if j.Tenant != "" || j.Group != "" || j.Priority != 0 {
		n += (&laneKey{tenant: j.Tenant, group: j.Group}).room()
	}
	x := extra{key: j.Key}
	if j.Key != "" || j.Retain != 0 || j.StartWithin != 0 || j.BatchSize > 0 || !j.Batch.IsZero() {
		n += lifeRoom + x.room() + (int64(j.BatchSize)+63)/64*8
	}
	if j.Delay > 0 || !j.At.IsZero() {
		n += laterRoom
	}
	if j.Key != "" {
		n += roomOfKey(j.Key)
	}
	return n
}

func (k *laneKey) room() int64 { return laneRoom + 2*int64(len(k.tenant)+len(k.group)) }

func roomOfKey(key string) int64 { return keyRoom + int64(len(key)) }

func (x *extra) room() int64 {
	n := extraRoom + len(x.key) + 8*len(x.seen) + len(x.progress.Note)
	for _, line := range x.log {
		n += 2 + len(line)
	}
	return int64(n)
}

// takeJob takes an entry for a job.
func (s *State) takeJob() *job {
	s.room += entryRoom
	return s.jobs.take()
}

// setLater says whether a job waits, or waited, for its due time.
func (s *State) setLater(j *job, on bool) {
	if was := j.flags&scheduled != 0; was != on {
		j.flags ^= scheduled
		s.room += laterRoom * (2*int64(b2u(on)) - 1)
	}
}

// extend gives a job what few jobs have.
func (s *State) extend(j *job, x *extra) {
	s.change(j).ext = x
	s.room += x.room()
}

// reword changes the texts of an extra.
func (s *State) reword(x *extra, p broker.Progress, log []string) {
	s.room -= x.room()
	x.progress, x.log = p, log
	s.room += x.room()
}

// forget takes back what entry, life and extra of a job count for.
func (s *State) forget(j *job) {
	s.setLater(j, false)
	s.room -= entryRoom
	if x := s.extOf(j); x != nil {
		s.room -= x.room()
	}
	if j.lived() {
		s.room -= lifeRoom
		s.lives.give(j.life)
	}
	s.jobs.give(j)
}

// setKey and dropKey change who holds a key.
func (q *queue) setKey(name keyName, h *heldKey) {
	if q.keys[name] == nil {
		q.state.room += roomOfKey(name.key)
	}
	q.keys[name] = h
}

func (q *queue) dropKey(name keyName) {
	if q.keys[name] != nil {
		q.state.room -= roomOfKey(name.key)
	}
	delete(q.keys, name)
}
