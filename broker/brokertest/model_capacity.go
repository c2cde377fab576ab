package brokertest

import (
	"fmt"
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// depth counts what the capacity of a queue counts.
func (s *store) depth(queue string) (n int64) {
	for _, j := range s.jobs {
		if j.Queue == queue && waitsOrRuns(j) {
			n++
		}
	}
	return n
}

// bytes counts the bytes of the same jobs.
func (s *store) bytes(queue string) (n int64) {
	for _, j := range s.jobs {
		if j.Queue == queue && waitsOrRuns(j) {
			n += j.size()
		}
	}
	return n
}

func waitsOrRuns(j *job) bool { return j.State != 0 && !j.State.Final() }

func (j *job) size() int64 { return stored(j.Payload, j.Headers) }

// stored is what a capacity counts of a job in bytes.
func stored(payload []byte, headers map[string]string) int64 {
	n := len(payload)
	for name, value := range headers {
		n += len(name) + len(value)
	}
	return int64(n)
}

func over(c *broker.Capacity, n, bytes int64) bool {
	return c.Jobs > 0 && n > c.Jobs || c.Bytes > 0 && bytes > c.Bytes
}

// oldest reports whether a is dropped before b: the lowest priority first, in
// it what waits longest by its place.
func (s *store) oldest(a, b *job) bool {
	if a.Priority != b.Priority {
		return a.Priority < b.Priority
	}
	return s.ahead(a, b)
}

// room makes room for the jobs of one call, or returns a FullError and has
// changed nothing. Each tenant's capacity is looked at before the queue's.
func (s *store) room(queue string, jobs []broker.NewJob) error {
	dropped, err := s.toDrop(queue, jobs)
	if err != nil {
		return err
	}
	defer s.sweeping()()
	for _, j := range dropped {
		j.moved = true
		s.end(j, broker.Cancelled, broker.ReasonDropped)
	}
	return nil
}

// toDrop lists what goes so that the jobs fit.
func (s *store) toDrop(queue string, jobs []broker.NewJob) (dropped []*job, err error) {
	fresh := s.fresh(queue, jobs)
	if set := s.setting(queue, broker.CapacitySetting, broker.TenantCapacity); set != nil {
		var tenants []string
		for _, n := range fresh {
			if tenant := n.Tenant; !slices.Contains(tenants, tenant) {
				tenants = append(tenants, tenant)
				of := func(t string) bool { return t == tenant }
				if dropped, err = s.fit(set.Capacity, broker.FullError{Queue: queue, Tenant: tenant}, of, fresh, dropped); err != nil {
					return nil, err
				}
			}
		}
	}
	if set := s.setting(queue, broker.CapacitySetting, ""); set != nil && len(fresh) > 0 {
		of := func(string) bool { return true }
		if dropped, err = s.fit(set.Capacity, broker.FullError{Queue: queue}, of, fresh, dropped); err != nil {
			return nil, err
		}
	}
	return dropped, nil
}

// fit adds to dropped what else has to go, so that the fresh jobs of some
// tenants fit into c.
func (s *store) fit(c *broker.Capacity, full broker.FullError, of func(tenant string) bool, fresh []*broker.NewJob, dropped []*job) ([]*job, error) {
	var n, bytes int64
	for _, f := range fresh {
		if of(f.Tenant) {
			n, bytes = n+1, bytes+stored(f.Payload, f.Headers)
		}
	}
	full.RetryAfter = time.Second
	if s.rules.over(c, n, bytes) {
		full.RetryAfter = 0 // never
	}
	var ready []*job
	for _, j := range s.jobs {
		if j.Queue != full.Queue || !of(j.Tenant) || !waitsOrRuns(j) || slices.Contains(dropped, j) {
			continue
		}
		n, bytes = n+1, bytes+j.size()
		if j.State == broker.Ready {
			ready = append(ready, j)
		}
	}
	slices.SortFunc(ready, func(a, b *job) int {
		if s.rules.oldest(s, a, b) {
			return -1
		}
		return 1
	})
	for s.rules.over(c, n, bytes) {
		if !c.DropOldest || len(ready) == 0 {
			full.Text = fmt.Sprintf("it would hold %d jobs with %d bytes", n, bytes)
			return nil, &full
		}
		n, bytes = n-1, bytes-ready[0].size()
		dropped, ready = append(dropped, ready[0]), ready[1:]
	}
	return dropped, nil
}

// fresh lists those of jobs that an enqueue would add.
func (s *store) fresh(queue string, jobs []broker.NewJob) (fresh []*broker.NewJob) {
	ids, keys := map[broker.ID]bool{}, map[keyName]bool{}
	for i := range jobs {
		n := &jobs[i]
		key := keyName{queue, n.Task, n.Key}
		if ids[n.ID] || keys[key] || s.find(broker.Ref{Queue: queue, ID: n.ID}) != nil || s.held(key) != nil {
			continue
		}
		ids[n.ID], keys[key] = !n.ID.IsZero(), n.Key != ""
		fresh = append(fresh, n)
	}
	return fresh
}
