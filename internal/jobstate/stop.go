package jobstate

import "github.com/spoolq/spool/broker"

// stop pauses, or with on false resumes, a schedule that is there. It writes
// nothing when that is so already.
func (s *State) stop(w *Writer, queue, name string, on bool) {
	t := s.schedule(queue, name)
	if t == nil || t.paused == on {
		return
	}
	w.begin(recStop)
	w.str(queue)
	w.str(name)
	w.byte(b2u(on))
	w.end()
	s.applyStop(queue, name, t, on, w.base)
}

func (s *State) readStop(r *reader) error {
	queue, name, on := r.str(), r.str(), r.byte() != 0
	if r.err != nil {
		return r.err
	}
	if t := s.schedule(string(queue), string(name)); t != nil {
		s.applyStop(string(queue), string(name), t, on, r.base)
	}
	return nil
}

func (s *State) applyStop(queue, name string, t *setting, on bool, at int64) {
	t.paused = on
	s.tellSetting(queue, settingName{broker.ScheduleSetting, name}, at)
}

// schedule finds a schedule, nil when there is none.
func (s *State) schedule(queue, name string) *setting {
	q := s.queues[queue]
	if q == nil {
		return nil
	}
	return q.settings[settingName{broker.ScheduleSetting, name}]
}
