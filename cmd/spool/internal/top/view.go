package top

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/internal/text"
)

// Render draws a sample for a screen of so many columns and rows; 0 means as
// many as it takes. What does not fit is said to be missing.
func Render(place string, s *Sample, width, height int) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	add("spool top  %s  %s", place, s.At.Format(time.TimeOnly))
	if s.Health.Status == broker.Healthy {
		add("store: healthy")
	} else {
		add("store: %s  %s", strings.ToUpper(string(s.Health.Status)), text.Safe(s.Health.Text))
	}
	add("now:   %s enqueued/s  %s done/s  %s failed/s", rate(s.Rates.Enqueued), rate(s.Rates.Acked), rate(s.Rates.Failed))
	add("")
	if len(s.Queues) == 0 {
		add("No jobs yet. Add the first one:  spool enqueue hello '{\"to\":\"world\"}'")
	} else {
		lines = append(lines, queues(s.Queues)...)
	}
	if len(s.Failing) > 0 {
		add("")
		lines = append(lines, failing(s.Failing[:min(len(s.Failing), 5)])...)
	}
	add("")
	if len(s.Workers) == 0 {
		add("no live workers")
	} else {
		lines = append(lines, workers(s)...)
	}
	if height > 0 && len(lines) > height {
		lines = append(lines[:height-1], fmt.Sprintf("… %d more lines: make the window taller", len(lines)-height+1))
	}
	for i, line := range lines {
		if r := []rune(line); width > 0 && len(r) > width {
			lines[i] = string(r[:width-1]) + "…"
		}
	}
	return strings.Join(lines, "\n")
}

// aligned makes lines of cells.
func aligned(rows [][]string) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // into memory
	}
	_ = w.Flush() // into memory
	return strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n")
}

func queues(list []Queue) []string {
	rows := [][]string{{"QUEUE", "READY", "OLDEST", "RUNNING", "SCHEDULED", "DEAD", "DEPTH", "HIGHEST", "IN/S", "DONE/S", "FAILED/S"}}
	for i := range list {
		q := &list[i]
		name := text.Safe(q.Name)
		if q.Paused {
			name += " (paused)"
		}
		rows = append(rows, []string{
			name, text.Count(q.Ready), q.Oldest, text.Count(q.Leased), text.Count(q.Scheduled), text.Count(q.Dead), text.Count(q.Depth), text.Count(q.HighWater),
			rate(q.Rates.Enqueued), rate(q.Rates.Acked), rate(q.Rates.Failed),
		})
	}
	return aligned(rows)
}

func failing(list []Task) []string {
	rows := [][]string{{"FAILING TASK", "QUEUE", "FAILED/S", "DEAD"}}
	for _, t := range list {
		rows = append(rows, []string{text.Safe(t.Task), text.Safe(t.Queue), rate(t.Rate), text.Count(t.Dead)})
	}
	return aligned(rows)
}

func workers(s *Sample) []string {
	rows := [][]string{{"WORKER", "HOST", "PID", "RUNNING", "", "STARTED"}}
	for _, w := range s.Workers {
		rows = append(rows, []string{
			text.Safe(w.Name), text.Safe(w.Host), strconv.Itoa(w.PID), fmt.Sprintf("%d/%d", w.Running, w.Concurrency), bar(w.Running, w.Concurrency), text.Ago(w.StartedAt, s.At),
		})
	}
	return aligned(rows)
}

// bar draws a part of a whole.
func bar(part, whole int) string {
	const width = 10
	full := 0
	if whole > 0 {
		full = min((part*width+whole-1)/whole, width)
	}
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// rate shows a rate at a glance.
func rate(r float64) string {
	switch {
	case r == 0:
		return "0"
	case r < 10:
		return strconv.FormatFloat(r, 'f', 1, 64)
	}
	return text.Count(int64(r + 0.5))
}
