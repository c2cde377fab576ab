package fuzztest

import (
	"fmt"
	"testing"
)

// listener keeps what a test would have failed with.
type listener struct {
	testing.TB
	said string
}

func (l *listener) Helper() {}

func (l *listener) Errorf(format string, args ...any) { l.said = fmt.Sprintf(format, args...) }

var sink []byte

func TestBoundNoticesWhatIsTooLarge(t *testing.T) {
	for _, c := range []struct {
		name string
		size int
		many int
		bad  bool
	}{
		{"one piece above the room", Room + 1, 1, true},
		{"pieces that are freed again", Room / 8, 9, true},
		{"less than the room", Room / 2, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := &listener{}
			Bound(l, func() {
				for range c.many {
					sink = make([]byte, c.size)
				}
			})
			sink = nil
			if (l.said != "") != c.bad {
				t.Errorf("it said %q", l.said)
			}
		})
	}
}
