package redisbroker

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/spoolq/spool/broker"
)

// What holds in one part alone decides in which part a job is: its key, its ordered
// group, or the batch that it belongs to. The id tells it afterwards, so it is made
// to fit, the same way each time: who repeats a call means the same jobs. An id that
// the user chose is not changed.

// wanted is the part in which a job has to be, -1 for any.
func wanted(queue string, j *broker.NewJob, n int) (int, error) {
	switch {
	case j.Key != "" && j.Ordered:
		return 0, fmt.Errorf("%w: queue %s is spread over %d parts, and a job there has a key or is ordered, not both: each is kept in a part of its own", broker.ErrInvalid, queue, n)
	case j.Key != "":
		return partOfName(n, "key", j.Task, j.Key), nil
	case j.Ordered:
		return partOfName(n, "group", orderedBy(j)), nil
	}
	return -1, nil
}

// orderedBy is the ordered group of a job.
func orderedBy(j *broker.NewJob) string {
	if j.Group != "" {
		return j.Group
	}
	return j.Tenant
}

// fit gives a job an id of a part, -1 for any, and returns the part. fresh says
// that its id may be changed.
func fit(queue string, j *broker.NewJob, n, part int, fresh bool) (int, error) {
	is := partOfID(j.ID, n)
	switch {
	case part < 0 || part == is:
		return is, nil
	case !fresh:
		return 0, fmt.Errorf("%w: queue %s is spread over %d parts, and the id %s that was chosen for a job is not in the part of its key, ordered group or batch: leave the id away", broker.ErrMisplaced, queue, n, j.ID)
	case j.HasNewID():
		j.RenewID(fitID(j.ID, n, part))
	default:
		j.ID = fitID(j.ID, n, part)
	}
	return part, nil
}

// placing puts the jobs of one call in parts.
type placing struct {
	queue string
	n     int
	jobs  []broker.NewJob // copies
	fresh []bool          // its id may be changed
	at    []int           // the part, -1 while it is not known
}

// placeJobs decides where jobs go. Those that nothing binds go where others of the
// call go, so that it is one commit if it can be.
func placeJobs(c broker.Call, queue string, n int, jobs []broker.NewJob) (*placing, error) {
	p := &placing{queue, n, slices.Clone(jobs), make([]bool, len(jobs)), make([]int, len(jobs))}
	p.name(c)
	if err := p.batches(); err != nil {
		return nil, err
	}
	home := -1
	for i := range p.jobs {
		j := &p.jobs[i]
		if p.at[i] >= 0 {
			if home < 0 {
				home = p.at[i]
			}
			continue
		}
		part, err := wanted(queue, j, n)
		if err != nil {
			return nil, err
		}
		if part < 0 && p.fresh[i] {
			continue
		}
		if p.at[i], err = fit(queue, j, n, part, p.fresh[i]); err != nil {
			return nil, err
		}
		if home < 0 {
			home = p.at[i]
		}
	}
	for i := range p.jobs {
		if p.at[i] >= 0 {
			continue
		}
		if home < 0 {
			home = partOfID(p.jobs[i].ID, n)
		}
		p.at[i], _ = fit(queue, &p.jobs[i], n, home, true)
	}
	return p, nil
}

// order lists the parts that have jobs: first those with batches, of which a job may
// be there already, so that one that is refused has added nothing.
func (p *placing) order() (parts []int) {
	for _, batches := range []bool{true, false} {
		for i, part := range p.at {
			is := p.jobs[i].BatchSize > 0 || !p.jobs[i].Batch.IsZero()
			if (is || !batches) && !slices.Contains(parts, part) {
				parts = append(parts, part)
			}
		}
	}
	return parts
}

// name gives ids to jobs that have none: a repeat of the call gives the same.
func (p *placing) name(c broker.Call) {
	for i := range p.jobs {
		j := &p.jobs[i]
		p.at[i], p.fresh[i] = -1, j.HasNewID()
		switch {
		case !j.ID.IsZero():
		case c.ID.IsZero():
			j.MakeID()
		default:
			sum := sha256.Sum256(fmt.Appendf(c.ID[:], "%d", i))
			j.ID = c.ID
			copy(j.ID[9:], sum[:])
		}
	}
}

// batches finds the part of each batch with all its jobs, those of batches inside
// it, too: that of the ordered group that they have, else that of the ids that were
// chosen, else that of the id of its completion job.
func (p *placing) batches() error {
	completion := map[broker.ID]int{}
	for i := range p.jobs {
		if p.jobs[i].BatchSize > 0 {
			completion[p.jobs[i].ID] = i
		}
	}
	if len(completion) == 0 {
		return nil
	}
	trees := map[int][]int{}
	for i := range p.jobs {
		root := i
		for !p.jobs[root].Batch.IsZero() {
			root = completion[p.jobs[root].Batch]
		}
		if p.jobs[root].BatchSize > 0 {
			trees[root] = append(trees[root], i)
		}
	}
	renamed := map[broker.ID]broker.ID{}
	for root, tree := range trees {
		part, err := p.treePart(root, tree)
		if err != nil {
			return err
		}
		for _, i := range tree {
			was := p.jobs[i].ID
			if p.at[i], err = fit(p.queue, &p.jobs[i], p.n, part, p.fresh[i]); err != nil {
				return err
			}
			renamed[was] = p.jobs[i].ID
		}
	}
	for i := range p.jobs {
		if b := p.jobs[i].Batch; !b.IsZero() {
			p.jobs[i].Batch = renamed[b]
		}
	}
	return nil
}

func (p *placing) treePart(root int, tree []int) (int, error) {
	ordered, chosen := -1, -1
	for _, i := range tree {
		j := &p.jobs[i]
		if j.Ordered && ordered >= 0 && orderedBy(j) != orderedBy(&p.jobs[ordered]) {
			return 0, fmt.Errorf("%w: queue %s is spread over %d parts, and the ordered jobs of a batch there are of one group", broker.ErrInvalid, p.queue, p.n)
		}
		if j.Ordered && ordered < 0 {
			ordered = i
		}
		if !p.fresh[i] && chosen < 0 {
			chosen = i
		}
	}
	switch {
	case ordered >= 0:
		return wanted(p.queue, &p.jobs[ordered], p.n)
	case chosen >= 0:
		return partOfID(p.jobs[chosen].ID, p.n), nil
	}
	return partOfID(p.jobs[root].ID, p.n), nil
}

// settlements is where leases are, and where their follow-ups go: those to the
// job's own queue that nothing binds stay in its part, in the same commit.
func (s spreads) settlements(list []broker.Settlement) ([]broker.Settlement, error) {
	if len(s) == 0 && !slices.ContainsFunc(list, func(t broker.Settlement) bool { return isPart(t.Ref.Queue) }) {
		return list, nil
	}
	at := slices.Clone(list)
	for i := range at {
		at[i].Ref = s.place(list[i].Ref)
		at[i].FollowUps = slices.Clone(list[i].FollowUps)
		for k := range at[i].FollowUps {
			f := &at[i].FollowUps[k]
			parts := s[f.Queue]
			if parts == nil {
				continue
			}
			n, home := len(parts), -1
			if f.Queue == list[i].Ref.Queue {
				home = partOfID(list[i].Ref.ID, n)
			}
			part, err := fitFollowUp(f.Queue, &f.Job, n, home)
			if err != nil {
				return nil, fmt.Errorf("follow-up %d: %w", k+1, err)
			}
			f.Queue = parts[part]
		}
	}
	return at, nil
}

func fitFollowUp(queue string, j *broker.NewJob, n, home int) (int, error) {
	fresh := j.HasNewID()
	if j.ID.IsZero() {
		j.MakeID()
	}
	part, err := wanted(queue, j, n)
	if err != nil {
		return 0, err
	}
	if part < 0 && fresh {
		part = home
	}
	return fit(queue, j, n, part, fresh)
}

// redirect finds out where an entry of an outbox goes whose queue is in other parts
// than when it was written. Its id follows its key or group, when that is elsewhere:
// who wrote it did not know.
func (s spreads) redirect(e *entry) {
	queue := queueOf(e.queue)
	parts := s[queue]
	if parts == nil {
		e.queue = queue
		return
	}
	id := broker.ID(e.packed[:16])
	n := len(parts)
	j := bindings(e.packed)
	if part, err := wanted(queue, &j, n); err == nil && part >= 0 {
		id = fitID(id, n, part)
		e.packed = append(id[:], e.packed[16:]...)
	}
	e.queue = parts[partOfID(id, n)]
}

// bindings reads of a packed job what decides where it goes; see packer.job.
func bindings(packed []byte) (j broker.NewJob) {
	u := unpacker{b: packed}
	u.take(16 + 1 + 4 + 1 + 8 + 4)
	j.Ordered = u.u8() == 1
	u.take(1 + 1 + 8 + 16 + 4 + 4 + 4 + 8)
	j.Task, j.Tenant, j.Group, j.Key = u.str(), u.str(), u.str(), u.str()
	return j
}
