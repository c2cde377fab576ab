// Package brokertest decides what package broker means. It has a naive [Model]
// of a broker, a suite of cases that every broker has to pass ([Run]), and
// random histories that are compared with the model step by step
// ([RunHistories]). It is for tests alone, and imports only the standard
// library and package broker.
//
// A broker's test says how to open it:
//
//	func TestContract(t *testing.T) {
//		brokertest.RunInBubbles(t, func(t *testing.T) brokertest.Harness {
//			store := newStore(t)
//			return brokertest.Harness{Open: func() broker.Broker { return store.Open() }}
//		})
//	}
//
// What becomes of a repeated call is asked of a broker that has Caps.Retry.
// Histories kill clients, restart the machine and step the wall clock where the
// harness can.
//
// After every case, whatever it was about, the same invariants are checked
// through the public contract: each job is in exactly one state, the counters
// and the depth of each queue equal a recount, no job had two valid leases or
// two ends, tokens grew, and attempts stayed within what the job allows.
package brokertest
