package spool_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

func TestSteeredSaysWhatAnErrorAsksFor(t *testing.T) {
	cause := errors.New("why")
	for _, c := range []struct {
		name string
		err  error
		kind broker.SettleKind
	}{
		{"no error", nil, 0},
		{"a plain error", cause, 0},
		{"a retry", spool.RetryAfter(time.Second, cause), broker.Nack},
		{"a snooze", spool.Snooze(time.Second), broker.Snooze},
		{"a bury inside another error", fmt.Errorf("send: %w", spool.Bury(cause)), broker.Bury},
		{"a cancellation", spool.Cancel(nil), broker.Cancel},
	} {
		t.Run(c.name, func(t *testing.T) {
			if kind, ok := spool.Steered(c.err); kind != c.kind || ok != (c.kind != 0) {
				t.Errorf("got %v, %v", kind, ok)
			}
		})
	}
}
