package jobstate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/spoolq/spool/broker"
)

func TestACheckpointWithASettingUnderAnotherNameIsRefused(t *testing.T) {
	h := newHistory(t, 1)
	h.commit(func() {
		set := []broker.Setting{{Kind: broker.CapacitySetting, Capacity: &broker.Capacity{Jobs: 1}}}
		if err := h.s.Configure(&h.w, "q", &broker.Change{Set: set}); err != nil {
			t.Fatal(err)
		}
	})
	var b bytes.Buffer
	if err := h.s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), "\x08capacity"); n != 1 {
		t.Fatalf("the kind stands there %d times, beside the setting", n)
	}
	// The kind of the record, not that of the setting in it.
	bad := strings.Replace(b.String(), "\x08capacity", "\x05limit", 1)
	err := New(nil, nil).Decode(strings.NewReader(bad))
	if err == nil || !strings.Contains(err.Error(), "another name") {
		t.Errorf("got %v", err)
	}
}
