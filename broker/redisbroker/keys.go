package redisbroker

// registry stands for a queue where the transport wants one: the slot that
// holds what belongs to no queue. No queue has that name.
const registry = "*"

// namesOf says what the queues of a namespace, and parts of them, are called. What
// else a queue has begins as its config key does, without its last letter: see the
// package's doc.
func namesOf(namespace string) func(queue string) names {
	return func(queue string) names {
		tag, letter := tagOf(queue)
		p := namespace + ":{" + tag + "}:"
		return names{config: p + letter, absent: p + "0", channel: p + "m"}
	}
}
