package dashboard

import (
	"context"
	"time"

	"github.com/spoolq/spool/broker"
)

// Bounds of one look through a list: whichever comes first ends it, and the page
// says how far it got.
const (
	lookTime  = 150 * time.Millisecond
	lookBytes = 8 << 20 // of payloads and results
	lookCalls = 200     // calls, and so 10,000 jobs that are read
	lookSkips = 20      // calls that find little, and so look at up to broker.MaxPageExamine jobs each
	lookStep  = 50      // jobs of one call at most
	firstStep = 8       // and of the first, until it is known how large they are
)

// walk is a look through the jobs of a query, from a cursor.
type walk struct {
	Jobs   []broker.Job
	Cursor string // where it goes on; "" is the end
	Looked int64  // jobs looked at, at least
}

// look lists at least want jobs of a query, if there are as many, and at most
// lookStep more; want 0 means as many as the bounds allow, which each is told.
func (d *Dashboard) look(ctx context.Context, q *query, cursor string, want int, each func(*broker.Job)) (walk, error) {
	w := walk{Cursor: cursor}
	begun, size, step, found, skips := time.Now(), 0, firstStep, 0, 0
	for calls := 1; ; calls++ {
		if n := want - found; want > 0 && !q.reads() {
			step = min(step, n)
		}
		page, err := d.broker.List(ctx, q.filter, w.Cursor, step)
		if err != nil {
			return walk{}, err
		}
		w.Cursor = page.Cursor
		w.Looked += lookedAt(q, step, &page)
		for i := range page.Jobs {
			j := &page.Jobs[i]
			size += len(j.Payload) + len(j.Result)
			if !q.matches(j) {
				continue
			}
			found++
			if each != nil {
				each(j)
				continue
			}
			cutJob(j)
			w.Jobs = append(w.Jobs, *j)
		}
		if len(page.Jobs) < step && q.Error == "" {
			skips++
		}
		if w.Cursor == "" || want > 0 && found >= want || size > lookBytes || calls == lookCalls || skips == lookSkips || time.Since(begun) > d.lookTime {
			return w, nil
		}
		step = nextStep(step, size, calls)
	}
}

// nextStep asks for more as long as jobs are small.
func nextStep(step, size, calls int) int {
	if size/calls > lookBytes/32 {
		return max(1, step/2)
	}
	return min(2*step, lookStep)
}

// lookedAt is how many jobs a page of the store is known to have looked at.
func lookedAt(q *query, asked int, page *broker.Page) int64 {
	switch {
	case !q.filtered() || page.Cursor == "" || len(page.Jobs) == asked:
		return int64(len(page.Jobs))
	case q.Error != "":
		return int64(asked)
	}
	return broker.MaxPageExamine
}

// cutJob keeps of a job what a list shows, so that a page of large ones is not
// held in memory as a whole.
func cutJob(j *broker.Job) {
	j.Payload = append([]byte(nil), j.Payload[:min(len(j.Payload), 4*headChars)]...)
	j.Result, j.Log = nil, nil
}
