package filebroker

import "context"

// Usage says how much room a store takes, in bytes.
type Usage struct {
	Disk int64 // of its files
	Used int64 // of these, without the room that is kept ready for what comes
	Log  int64 // of the log since the last checkpoint; segments count whole
	Live int64 // about what the jobs that there are need
}

// Usage says how much room the store takes now. It looks at each file's size and
// reads none. Like every call that has to know the jobs, the first one loads them.
func (b *Broker) Usage(ctx context.Context) (Usage, error) {
	return through(b, func(h *handle) (Usage, error) { return h.usage(ctx) })
}

func (b *handle) usage(ctx context.Context) (u Usage, err error) {
	if err := b.want(ctx); err != nil {
		return u, err
	}
	if u.Disk, u.Used, err = b.size(); err != nil {
		return u, public(err)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.readForwardLocked()
	u.Log, u.Live = b.log.LogBytes(), b.live()
	return u, nil
}
