package spoolprom

import (
	"slices"
	"time"

	"github.com/spoolq/spool/broker"
)

// settings sends the capacities of the queues with a name, limits and schedules.
func (s *scrape) settings() error {
	all, err := s.client.Settings(s.ctx, "")
	if err != nil {
		return err
	}
	_, named := s.queues()
	limits, schedules := 0, 0
	for i := range all {
		set := &all[i]
		switch set.Kind {
		case broker.CapacitySetting:
			if _, ok := named[set.Queue]; ok && set.Name == "" {
				s.capacity(set)
			}
		case broker.LimitSetting:
			if limits++; limits <= s.max {
				s.limit(set)
			}
		case broker.ScheduleSetting:
			if schedules++; schedules <= s.max {
				s.schedule(set)
			}
		}
	}
	s.gauge(foldedDesc, float64(max(0, limits-s.max)), "limits")
	s.gauge(foldedDesc, float64(max(0, schedules-s.max)), "schedules")
	return nil
}

func (s *scrape) capacity(set *broker.QueueSetting) {
	if n := set.Capacity.Jobs; n > 0 {
		s.gauge(capacityJobsDesc, float64(n), set.Queue)
	}
	if n := set.Capacity.Bytes; n > 0 {
		s.gauge(capacityBytesDesc, float64(n), set.Queue)
	}
}

func (s *scrape) limit(set *broker.QueueSetting) {
	l := set.Limit
	per := string(l.Per)
	if l.Per == broker.PerQueue {
		per = "queue"
	}
	if l.Running > 0 {
		s.gauge(runningDesc, float64(l.Running), set.Queue, set.Name, per)
		if l.Per == broker.PerQueue && s.all != nil {
			s.gauge(usedDesc, float64(s.leased(set.Queue, l.Tasks)), set.Queue, set.Name)
		}
		return
	}
	s.gauge(rateDesc, float64(l.Count)/l.Every.Seconds(), set.Queue, set.Name, per)
	burst := l.Burst
	if burst == 0 {
		burst = l.Count
	}
	s.gauge(burstDesc, float64(burst), set.Queue, set.Name, per)
}

// leased is how many jobs of the tasks run: what a limit on running jobs counts.
func (s *scrape) leased(queue string, tasks []string) (n int64) {
	for i := range s.all {
		if c := &s.all[i]; c.Queue == queue && slices.Contains(tasks, c.Task) {
			n += c.Leased
		}
	}
	return n
}

func (s *scrape) schedule(set *broker.QueueSetting) {
	s.gauge(schedulePausedDesc, number(set.Schedule.Paused), set.Queue, set.Name)
	if due := set.Schedule.Due; !due.IsZero() && due.Before(broker.MaxTime) {
		s.gauge(scheduleNextDesc, float64(due.UnixNano())/float64(time.Second), set.Queue, set.Name)
	}
}
