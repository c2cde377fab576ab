package fair_test

import (
	"fmt"
	"log"

	"github.com/spoolq/spool/fair"
)

func ExampleDRR() {
	d, err := fair.NewDRR[string, string](1)
	if err != nil {
		log.Fatal(err)
	}
	if err := d.SetWeight("premium", 3); err != nil {
		log.Fatal(err)
	}
	for i := range 4 {
		d.Add("free", fmt.Sprint("free ", i))
		d.Add("premium", fmt.Sprint("premium ", i))
	}
	for range 5 {
		item, _ := d.Next()
		fmt.Println(item)
	}
	// Output:
	// free 0
	// premium 0
	// premium 1
	// premium 2
	// free 1
}

// Who holds the keys itself needs the clock alone.
func ExampleClock() {
	var clock fair.Clock
	times := map[string]fair.Time{"premium": clock.Rejoin(0), "free": clock.Rejoin(0)}
	weights := map[string]int{"premium": 3, "free": 1}
	for range 8 {
		key := "premium" // of equal times, always the same
		if times["free"] < times[key] {
			key = "free"
		}
		times[key] = clock.Charge(times[key], 1, weights[key])
		fmt.Print(key, " ")
	}
	fmt.Println()
	// Output: premium free premium premium premium free premium premium
}
