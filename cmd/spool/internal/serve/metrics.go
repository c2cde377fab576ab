package serve

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/spoolprom"
)

// maxScrapes is how many scrapes are answered at a time; more get 503.
const maxScrapes = 10

// metrics is what Prometheus gets of the store and the process, and what observes
// the server's requests; no handler, when the configuration says so.
func (c *Config) metrics(client *spool.Client, version string) (scrape http.Handler, observe func(http.Handler) http.Handler) {
	if c.Metrics != nil && !*c.Metrics {
		return nil, func(h http.Handler) http.Handler { return h }
	}
	r := prometheus.NewRegistry()
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "spool_build_info", Help: "1; its label is the version of the server.", ConstLabels: prometheus.Labels{"version": version},
	})
	build.Set(1)
	r.MustRegister(spoolprom.NewCollector(client, spoolprom.Config{}), build,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	// What cannot be gathered is left out: the rest is still worth having.
	scrape = promhttp.HandlerFor(r, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes})
	return scrape, spoolprom.NewHTTP(r)
}
