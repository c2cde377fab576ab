// Package fair shares a server among keys, so that a flood from one cannot
// starve the others. It is generic and pure: it knows nothing of jobs or time,
// and imports the standard library alone.
//
// There are two schedulers to use alone, with the same methods. Both give busy
// keys service in proportion to their weights; a key without items takes no part
// and saves nothing up.
//
//   - [DRR] is deficit round robin (Shreedhar and Varghese, 1995): each key in
//     turn spends a credit. Constant work for each item; a key with weight 3 is
//     served three times in a row.
//   - [Virtual] is start-time fair queueing (Goyal, Vin and Cheng, 1996), a form
//     of weighted fair queueing (Demers, Keshav and Shenker, 1989): the key that
//     has had the least service ÷ weight is next. The work grows with the
//     logarithm of the number of busy keys; keys take turns as finely as can be.
//
// [Clock] is the arithmetic of Virtual for those who hold the keys themselves:
// a broker's state, a table of a database.
package fair

import "fmt"

// Sizes that weights and costs keep to.
const (
	MaxWeight = 10_000
	MaxCost   = 1 << 40
)

func checkWeight(w int) error {
	if w < 1 || w > MaxWeight {
		return fmt.Errorf("weight is %d, allowed are 1 to %d", w, MaxWeight)
	}
	return nil
}

func checkCost(cost int64) error {
	if cost < 1 || cost > MaxCost {
		return fmt.Errorf("cost is %d, allowed are 1 to %d", cost, int64(MaxCost))
	}
	return nil
}
