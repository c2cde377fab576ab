package dashboard

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spoolq/spool/internal/text"
)

// rootOf is the relative way from a request's page to the overview. It counts
// the slashes below the prefix, and so holds whatever is in front of them.
func rootOf(r *http.Request) string {
	n := strings.Count(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if n == 0 {
		return "./"
	}
	return strings.Repeat("../", n)
}

// escape makes a name one segment of a path.
func escape(name string) string {
	switch name {
	case ".", "..": // no name of a queue; a browser would walk up
		return strings.ReplaceAll(name, ".", "%2E")
	}
	return url.PathEscape(name)
}

// redirect answers a POST: see there, relative to the overview.
func redirect(w http.ResponseWriter, r *http.Request, to string) {
	w.Header().Set("Location", rootOf(r)+to)
	w.WriteHeader(http.StatusSeeOther)
}

// queueLink is the list of a queue's jobs.
func queueLink(queue string, q url.Values) string {
	return "queues/" + escape(queue) + "/jobs?" + q.Encode()
}

// done are the words for what an action did; a page shows no others, whatever
// its address says.
var done = map[string]string{
	"cancel": "Cancelled %s.", "requeue": "Requeued %s.", "delete": "Deleted %s.",
	"pause": "The queue is paused: running jobs go on.", "resume": "The queue goes on.",
	"pause-schedule": "The schedule is paused.", "resume-schedule": "The schedule goes on.", "trigger": "A job of the schedule is enqueued.",
}

// withFlash adds to an address what was done.
func withFlash(q url.Values, did string, n int) url.Values {
	q.Set("did", did)
	q.Set("n", strconv.Itoa(n))
	return q
}

func flashOf(r *http.Request) string {
	q := r.URL.Query()
	words, ok := done[q.Get("did")]
	n, err := strconv.ParseInt(q.Get("n"), 10, 64)
	if !ok || err != nil || n < 0 {
		return ""
	}
	if !strings.Contains(words, "%s") {
		return words
	}
	return fmt.Sprintf(words, text.Plural(n, "job", "jobs"))
}
