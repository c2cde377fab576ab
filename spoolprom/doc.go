// Package spoolprom gives Prometheus what there is to know of a store and of the
// workers of this process.
//
//   - [NewCollector] reads a store whenever it is scraped: depth, states, totals,
//     ages, limits, schedules, workers, health. Nothing is added up from events,
//     so that every process says the same, after any restart.
//   - [NewHooks] observes the runs of a worker: how long a job waited and ran,
//     how it ended.
//   - [NewHTTP] observes the requests of a server, by the pattern of their route.
//
// No tenant, group, key, id or error text is ever a label. docs/metrics.md lists
// every metric.
package spoolprom
