package brokertest

import (
	"context"
	"maps"
	"slices"

	"github.com/spoolq/spool/broker"
)

// watch is one open call of Watch.
type watch struct {
	filter broker.Filter
	events chan broker.Event
}

// watchBuffer is how many events a reader may be late.
const watchBuffer = 64

// Watch implements broker.Broker.
func (m *Model) Watch(ctx context.Context, f broker.Filter) (<-chan broker.Event, error) {
	if err := m.begin(ctx); err != nil {
		return nil, err
	}
	defer m.s.mu.Unlock()
	w := &watch{filter: f, events: make(chan broker.Event, watchBuffer)}
	m.s.watches = append(m.s.watches, w)
	go func() {
		select {
		case <-ctx.Done():
		case <-m.closed:
		}
		m.s.mu.Lock()
		defer m.s.mu.Unlock()
		m.s.watches = slices.DeleteFunc(m.s.watches, func(o *watch) bool { return o == w })
		close(w.events)
	}()
	return w.events, nil
}

// note tells those who watch what became of j.
func (s *store) note(j *job) {
	for _, w := range s.watches {
		if w.filter.Settings || !s.matches(w.filter, j) {
			continue
		}
		w.send(broker.Event{Queue: j.Queue, ID: j.ID, Task: j.Task, State: j.State, Reason: j.Reason, Worker: j.Worker, At: s.now()})
	}
}

// noteSettings tells those who watch settings what differs from before.
func (s *store) noteSettings(queue string, before, now map[broker.SettingName]layers) {
	names := maps.Clone(before)
	maps.Copy(names, now)
	for name := range names {
		if before[name].revisions() == now[name].revisions() && before[name].paused == now[name].paused {
			continue
		}
		for _, w := range s.watches {
			if w.filter.Settings && (w.filter.Queue == "" || w.filter.Queue == queue) {
				w.send(broker.Event{Queue: queue, Setting: &broker.SettingName{Kind: name.Kind, Name: name.Name}, At: s.now()})
			}
		}
	}
}

func (w *watch) send(e broker.Event) {
	select {
	case w.events <- e:
	default: // a slow reader misses it
	}
}
