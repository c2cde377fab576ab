package redisbroker

import "github.com/spoolq/spool/broker"

// Broker stands here until the transitions are merged. DELETE THIS FILE THEN.
type Broker struct {
	broker.Broker
	t transport
}

func newBroker(t transport, _ Config) (*Broker, error) { return &Broker{t: t}, nil }

// Close closes the transport.
func (b *Broker) Close() error { return b.t.close() }

func namesOf(namespace string) func(queue string) names {
	return func(queue string) names {
		tag := "{" + namespace + ":" + queue + "}"
		return names{config: tag + ":config", absent: tag + ":absent", channel: tag + ":channel"}
	}
}
