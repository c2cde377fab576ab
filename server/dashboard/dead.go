package dashboard

import (
	"cmp"
	"context"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spoolq/spool/broker"
)

// Lengths that a cause is made from, and cut to.
const (
	causeBytes = 512
	causeChars = 160
)

// causeOf is the cause of a dead letter: the first line of its error, with what
// differs from one job to the next (numbers, addresses, ids, what stands in
// quotes) taken out. The number of a status stays.
func causeOf(errorText string) string {
	l := firstLine(errorText[:min(len(errorText), 4*causeBytes)])
	l = safe(l[:min(len(l), causeBytes)], false)
	l = quotedPart.ReplaceAllString(l, "“…”")
	before := ""
	l = anyWord.ReplaceAllStringFunc(l, func(word string) string {
		prefix := before
		before = strings.ToLower(word)
		if statusWords[prefix] && len(word) <= 3 {
			return word
		}
		return masked(word)
	})
	if l == "" {
		return "(no error text)"
	}
	return head(l, causeChars)
}

var (
	quotedPart = regexp.MustCompile("\"[^\"]*\"|`[^`]*`")
	// anyWord is a word, or numbers with what joins them in an address or a time.
	anyWord = regexp.MustCompile(`[\pL\pN_]+(?:[-.:/][\pL\pN_]+)*`)
	digits  = regexp.MustCompile(`[0-9]+`)
)

// statusWords stand before a number that says what is wrong.
var statusWords = map[string]bool{"status": true, "code": true, "http": true, "smtp": true, "errno": true, "error": true}

// masked is a word without what differs: of one with several numbers, an address
// or an id, nothing is left.
func masked(word string) string {
	switch n := len(digits.FindAllStringIndex(word, 2)); {
	case n == 0:
		return word
	case n > 1, len(word) >= 24:
		return "#"
	}
	return digits.ReplaceAllString(word, "#")
}

// group is the dead letters of one task with one cause.
type group struct {
	Task, Cause string
	N           int64
	First, Last time.Time // when the jobs died
	Sample      broker.ID
	Text        string // the error of the sample
	Link        string // of the list of them
	Query       *query
}

type groupName struct{ task, cause string }

// scan is a grouping of a queue's dead letters that goes on from page to page, in
// memory.
type scan struct {
	mu     sync.Mutex
	id     string
	queue  string
	groups map[groupName]*group
	other  int64 // dead letters of groups that did not fit
	looked int64
	cursor string
	steps  int
	over   bool
}

// Bounds of what scans keep.
const (
	scansKept = 32
	groupsMax = 500
)

// scans are the last scans, the newest last.
type scans struct {
	mu   sync.Mutex
	kept []*scan
	made int
}

// find returns a scan that is known, or a new one.
func (s *scans) find(id, queue string) *scan {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, x := range s.kept {
		if x.id == id && x.queue == queue {
			return x
		}
	}
	s.made++
	x := &scan{id: strconv.Itoa(s.made) + "-" + strconv.FormatInt(time.Now().UnixMilli(), 36), queue: queue, groups: map[groupName]*group{}}
	s.kept = append(s.kept, x)
	if len(s.kept) > scansKept {
		s.kept = slices.Delete(s.kept, 0, 1)
	}
	return x
}

// goOn looks at more dead letters, unless another viewer's page did that step.
func (x *scan) goOn(ctx context.Context, d *Dashboard, step int) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over || step != x.steps {
		return nil
	}
	q, err := queryOf(x.queue, url.Values{}, broker.Dead)
	if err != nil {
		return err
	}
	found, err := d.look(ctx, q, x.cursor, 0, x.take)
	if err != nil {
		return err
	}
	x.looked += found.Looked
	x.cursor, x.over = found.Cursor, found.Cursor == ""
	x.steps++
	return nil
}

// take puts a dead letter into its group.
func (x *scan) take(j *broker.Job) {
	name := groupName{j.Task, causeOf(j.Error)}
	g := x.groups[name]
	if g == nil {
		if len(x.groups) == groupsMax {
			x.other++
			return
		}
		g = &group{Task: name.task, Cause: name.cause, First: j.FinishedAt}
		x.groups[name] = g
	}
	g.N++
	g.Sample, g.Text = j.ID, j.Error[:min(len(j.Error), 2<<10)]
	if j.FinishedAt.Before(g.First) {
		g.First = j.FinishedAt
	}
	if j.FinishedAt.After(g.Last) {
		g.Last = j.FinishedAt
	}
}

type deadBody struct {
	Queue  string
	Queues []tab
	Kept   int64
	Looked int64
	Other  int64
	Groups []group
	Next   string // goes on; "" when all are grouped
}

func (d *Dashboard) dead(w http.ResponseWriter, r *http.Request) error {
	counts, err := d.counts()
	if err != nil {
		return err
	}
	v := r.URL.Query()
	b := deadBody{Queue: v.Get("queue")}
	for _, q := range byQueue(counts) {
		if q.Sum.Dead > 0 {
			b.Queues = append(b.Queues, tab{q.Name, q.Sum.Dead, "dead?queue=" + url.QueryEscape(q.Name), false})
		}
	}
	slices.SortStableFunc(b.Queues, func(a, b tab) int { return cmp.Compare(b.N, a.N) })
	if b.Queue == "" && len(b.Queues) > 0 {
		b.Queue = b.Queues[0].State
	}
	for i := range b.Queues {
		if t := &b.Queues[i]; t.State == b.Queue {
			t.Current, b.Kept = true, t.N
		}
	}
	if b.Queue != "" {
		if err := broker.ValidName(b.Queue); err != nil {
			return refusal{http.StatusNotFound, "There is no queue of that name."}
		}
		step, _ := strconv.Atoi(v.Get("step")) // none: the first
		x := d.scans.find(v.Get("scan"), b.Queue)
		if err := x.goOn(r.Context(), d, step); err != nil {
			return err
		}
		x.fill(&b)
	}
	return d.render(w, http.StatusOK, "dead", d.page(r, "dead", "Dead letters", &b))
}

// fill copies what is known so far, the largest groups first.
func (x *scan) fill(b *deadBody) {
	x.mu.Lock()
	defer x.mu.Unlock()
	b.Looked, b.Other = x.looked, x.other
	for _, g := range x.groups {
		c := *g
		c.Query = &query{Queue: x.queue, State: broker.Dead, Task: g.Task, Cause: g.Cause}
		c.Link, c.Text = queueLink(x.queue, c.Query.values()), blockText(g.Text)
		b.Groups = append(b.Groups, c)
	}
	slices.SortFunc(b.Groups, func(a, b group) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.Task, b.Task), cmp.Compare(a.Cause, b.Cause))
	})
	if !x.over {
		b.Next = "dead?" + url.Values{"queue": {x.queue}, "scan": {x.id}, "step": {strconv.Itoa(x.steps)}}.Encode()
	}
}
