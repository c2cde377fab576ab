package cron_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/spoolq/spool/cron"
)

func ExampleSchedule_Ticks() {
	s, err := cron.New("30 2 * * *", "America/New_York", cron.Wall)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(s.Expr().Describe())
	n := 0
	for tick := range s.Ticks(time.Date(2026, 3, 7, 0, 0, 0, 0, time.UTC)) {
		fmt.Println(strings.TrimSpace(tick.At.Format(time.RFC3339) + " " + tick.Note))
		if n++; n == 2 {
			break
		}
	}
	// Output:
	// at 02:30, every day
	// 2026-03-07T07:30:00Z
	// 2026-03-09T06:30:00Z 02:30 on 2026-03-08 does not exist: skipped
}

func ExampleSchedule_Plan() {
	s, err := cron.New("*/15 * * * *", "", cron.Wall)
	if err != nil {
		fmt.Println(err)
		return
	}
	due := time.Date(2026, 8, 1, 15, 0, 0, 0, time.UTC) // the stored cursor
	p := s.Plan(due, due.Add(50*time.Minute), cron.CatchUp{Missed: cron.All, Cap: 2})
	fmt.Println("run:", p.Run[0].Format(time.TimeOnly), p.Run[1].Format(time.TimeOnly))
	fmt.Println("next:", p.Next.Format(time.TimeOnly))
	// Output:
	// run: 15:30:00 15:45:00
	// next: 16:00:00
}
