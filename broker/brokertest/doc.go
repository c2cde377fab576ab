// Package brokertest decides what package broker means. It has a naive [Model]
// of a broker and a suite that every broker has to pass. It is for tests alone,
// and imports only the standard library and package broker.
package brokertest
