package limit_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/spoolq/spool/limit"
)

func ExampleNewTokenBucket() {
	rate, err := limit.ParseRate("500/s")
	if err != nil {
		log.Fatal(err)
	}
	bucket, err := limit.NewTokenBucket(rate, 100, nil) // up to 100 at once
	if err != nil {
		log.Fatal(err)
	}
	if bucket.Allow() {
		fmt.Println("go ahead")
	}
	if err := bucket.Wait(context.Background()); err != nil {
		log.Fatal(err)
	}
	r := bucket.Reserve()
	fmt.Println("go ahead in", r.Delay())
	// Output:
	// go ahead
	// go ahead in 0s
}

// A store keeps the State, and says what time it is.
func ExampleRate_Allow() {
	rate := limit.Rate{Count: 2, Per: time.Second}
	var st limit.State
	for _, now := range []time.Duration{0, 0, 0, 500 * time.Millisecond} {
		next, wait, ok := rate.Allow(st, int64(now), 1)
		fmt.Println(now, ok, wait)
		st = next
	}
	// Output:
	// 0s true 0s
	// 0s true 0s
	// 0s false 500ms
	// 500ms true 0s
}
