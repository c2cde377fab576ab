package jobstate

import (
	"errors"
	"testing"

	"github.com/spoolq/spool/broker"
)

func TestAFullQueueSaysWhatIsBounded(t *testing.T) {
	l := load{jobs: 7, bytes: 700, ready: 3, readyBytes: 300}
	tenant := "acme"
	for _, c := range []struct {
		name   string
		bound  broker.Capacity
		tenant *string
		need   need
		want   string
	}{
		{"jobs alone", broker.Capacity{Jobs: 7}, nil, need{1, 50}, "queue q has 7 jobs, its capacity is 7, and this would add 1"},
		{"bytes alone", broker.Capacity{Bytes: 720}, nil, need{1, 50}, "queue q has 700 bytes, its capacity is 720, and this would add 50"},
		{"both", broker.Capacity{Jobs: 9, Bytes: 720}, nil, need{1, 50},
			"queue q has 7 jobs, its capacity is 9, and this would add 1; has 700 bytes, its capacity is 720, and this would add 50"},
		{"a tenant's", broker.Capacity{Jobs: 7}, &tenant, need{2, 50}, `tenant "acme" of queue q has 7 jobs, its capacity is 7, and this would add 2`},
		{"more than dropping makes room for", broker.Capacity{Jobs: 7, DropOldest: true}, nil, need{4, 50}, "queue q has 7 jobs, its capacity is 7, and this would add 4"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var full *broker.FullError
			if err := (&capacity{c.bound}).check("q", c.tenant, l, c.need); !errors.As(err, &full) || full.Text != c.want {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
