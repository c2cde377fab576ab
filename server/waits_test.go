package server

import (
	"testing"

	"github.com/spoolq/spool/broker"
)

func TestARepeatOfAWaitCanBeStoppedWhenTheFirstHasGone(t *testing.T) {
	w, id := newWaits(), broker.NewID()
	_, firstDone := w.begin(t.Context(), id)
	again, againDone := w.begin(t.Context(), id)
	firstDone()
	if !w.end(id) || again.Err() == nil {
		t.Error("the repeat waits on")
	}
	againDone()
	if w.end(id) || len(w.calls) != 0 {
		t.Errorf("%d calls are kept", len(w.calls))
	}
}
