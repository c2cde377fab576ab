package server

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/spoolq/spool/broker"
)

// watched is a broker of which only the watches count.
type watched struct {
	broker.Broker
	open   int
	source chan broker.Event
}

func (b *watched) Watch(ctx context.Context, _ broker.Filter) (<-chan broker.Event, error) {
	b.open++
	source := b.source
	context.AfterFunc(ctx, func() { b.open--; close(source) })
	return source, nil
}

func TestStreamsThatAskForTheSameShareOneWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &watched{source: make(chan broker.Event)}
		f := newFeeds(b)
		var streams [2]<-chan []byte
		var leave [2]func()
		for i := range streams {
			var err error
			if streams[i], leave[i], err = f.join("all", broker.Filter{}); err != nil {
				t.Fatal(err)
			}
		}
		for range backlog + 10 { // nobody reads: nobody waits
			b.source <- broker.Event{Queue: "q", State: broker.Ready}
		}
		synctest.Wait()
		for i, s := range streams {
			if one := string(<-s); len(s) != backlog-1 || !strings.HasPrefix(one, "event: job\ndata: {\"queue\":\"q\"") || !strings.HasSuffix(one, "}\n\n") {
				t.Errorf("stream %d is %d behind, and got %q", i, len(s), one)
			}
		}
		if b.open != 1 {
			t.Errorf("%d watches", b.open)
		}
		leave[0]()
		synctest.Wait()
		if b.open != 1 {
			t.Error("the watch ended with the first")
		}
		leave[1]()
		synctest.Wait()
		if b.open != 0 || len(f.open) != 0 {
			t.Errorf("%d watches, %d feeds after the last has gone", b.open, len(f.open))
		}
	})
}

func TestStreamsEndWithTheirWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &watched{source: make(chan broker.Event)}
		f := newFeeds(b)
		s, leave, err := f.join("all", broker.Filter{})
		if err != nil {
			t.Fatal(err)
		}
		b.source <- broker.Event{Queue: "q", Setting: &broker.SettingName{Kind: broker.LimitSetting, Name: "l"}}
		f.open["all"].stop() // as when the store has lost its clients
		synctest.Wait()
		if got, open := <-s; !open || !strings.HasPrefix(string(got), "event: setting\n") {
			t.Errorf("got %q, %v", got, open)
		}
		if _, open := <-s; open {
			t.Error("the stream goes on")
		}
		leave()
		b.source = make(chan broker.Event)
		if _, leave, err = f.join("all", broker.Filter{}); err != nil || len(f.open) != 1 {
			t.Errorf("joining anew: %v, %d feeds", err, len(f.open))
		}
		leave()
		synctest.Wait()
	})
}
