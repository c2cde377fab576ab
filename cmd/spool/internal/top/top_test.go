package top

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
	"github.com/spoolq/spool/broker/membroker"
)

func TestASampleSaysWhatThereIsAndHowFastItGoes(t *testing.T) {
	c := spool.New(membroker.New(membroker.Config{}), spool.Config{Logger: slog.New(slog.DiscardHandler)})
	defer c.Close()
	ctx := context.Background()
	now := time.Now()
	take := func(before *Sample) *Sample {
		t.Helper()
		s, err := Take(ctx, c, now, before)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	first := take(nil)
	if text := Render("./jobs", first, 0, 0); !strings.Contains(text, "spool enqueue hello") {
		t.Errorf("an empty store does not say how to begin:\n%s", text)
	}
	for range 10 {
		if _, err := c.Enqueue(ctx, spool.Raw("mail", nil), spool.Raw("resize", nil, spool.Queue("images"))); err != nil {
			t.Fatal(err)
		}
	}
	leases, err := c.Claim(ctx, broker.ClaimRequest{Queues: []string{"images"}, Max: 2, Worker: "w", TTL: time.Minute})
	if err != nil || len(leases) != 2 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	if err := leases[0].Bury(ctx, context.DeadlineExceeded); err != nil {
		t.Fatal(err)
	}
	now = now.Add(2 * time.Second)
	s := take(first)
	if s.Rates.Enqueued != 10 || s.Rates.Failed != 0.5 || len(s.Queues) != 2 || len(s.Failing) != 1 || s.Failing[0].Task != "resize" {
		t.Errorf("the sample is %+v", s)
	}
	q := s.Queues[1]
	if q.Name != "images" || q.Ready != 8 || q.Leased != 1 || q.Dead != 1 || q.Oldest == "" || q.Rates.Enqueued != 5 {
		t.Errorf("the queue is %+v", q)
	}
	if again := take(s); again.Rates.Enqueued != 0 { // no time went by
		t.Errorf("rates are %+v", again.Rates)
	}
}

func TestWhatIsDrawnFitsAndIsSafe(t *testing.T) {
	s := &Sample{At: time.Unix(0, 0).UTC(), Health: broker.Health{Status: broker.DiskFull, Text: "no room\x1b[2J"}}
	for range 40 {
		s.Queues = append(s.Queues, Queue{Name: "q\x1b]0;x\a", Paused: true, Ready: 1_234_567, Rates: Rates{Enqueued: 12_345.6}})
		s.Workers = append(s.Workers, Worker{Name: "w\nx", Running: 3, Concurrency: 10})
	}
	text := Render("./jobs", s, 60, 20)
	lines := strings.Split(text, "\n")
	if len(lines) != 20 || !strings.Contains(lines[19], "more lines") {
		t.Errorf("%d lines:\n%s", len(lines), text)
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 60 {
			t.Errorf("a line of %d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	if strings.ContainsAny(text, "\x1b\a") || !strings.Contains(text, "FULL") {
		t.Errorf("drawn as %q", text)
	}
	for part, want := range map[int]string{0: "░░░░░░░░░░", 1: "█░░░░░░░░░", 10: "██████████", 30: "██████████"} {
		if got := bar(part, 10); got != want {
			t.Errorf("%d of 10 is %s", part, got)
		}
	}
}
