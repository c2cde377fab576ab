package jobstate

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spoolq/spool/broker"
)

// What the check of a known task leaves out must not let through what a new
// task is refused for.
func TestKnownTaskIsCheckedAsANewOne(t *testing.T) {
	h := newHistory(t, 3)
	h.enqueued(broker.NewJob{Task: "known"})
	long := strings.Repeat("x", broker.MaxHeaderBytes)
	self := broker.NewID()
	for name, j := range map[string]broker.NewJob{
		"a large header":       {Headers: map[string]string{"h": long}},
		"two large headers":    {Headers: map[string]string{"a": long[:4096], "b": long[:4096]}},
		"a large header name":  {Headers: map[string]string{long + "x": ""}},
		"a long timeout":       {Timeout: math.MaxInt64},
		"a negative timeout":   {Timeout: -1},
		"an unknown repeat":    {KeyRepeat: 200},
		"an unknown hold":      {KeyHold: 200},
		"a negative key hold":  {KeyFor: -1},
		"a long start":         {StartWithin: math.MaxInt64},
		"a long retention":     {Retain: math.MaxInt64},
		"a negative delay":     {Delay: -time.Second},
		"negative attempts":    {MaxAttempts: -1},
		"a batch in itself":    {ID: self, Batch: self, BatchSize: 1},
		"a large payload":      {Payload: make([]byte, broker.MaxCallBytes+1)},
		"a long tenant":        {Tenant: long},
		"a time before 1970":   {At: time.Unix(-1, 0).UTC()},
		"a hold for no length": {KeyHold: broker.HoldFor},
	} {
		j.Task = "new"
		wanted := h.s.checkNew("q", &j)
		j.Task = "known"
		if got := h.s.checkNew("q", &j); wanted == nil || got == nil || got.Error() != wanted.Error() {
			t.Errorf("%s: a known task gets %v, a new one %v", name, got, wanted)
		}
	}
	fits := broker.NewJob{Task: "known", Headers: map[string]string{"h": long[1:]}, Timeout: broker.MaxDelay}
	if err := h.s.checkNew("q", &fits); err != nil {
		t.Error(err)
	}
}
