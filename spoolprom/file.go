package spoolprom

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spoolq/spool/broker/filebroker"
)

// fileBroker is a store in a directory.
type fileBroker interface {
	Stats() *filebroker.Stats
	Usage(ctx context.Context) (filebroker.Usage, error)
}

// file sends what this process did to a store in a directory, and how large that
// is.
func (s *scrape) file(b fileBroker) error {
	stats := b.Stats()
	s.durations(commitDesc, &stats.Commits)
	s.durations(syncDesc, &stats.Syncs)
	s.counter(loadsDesc, stats.Loads.Load())
	s.counter(compactionsDesc, stats.Compactions.Load())
	u, err := b.Usage(s.ctx)
	if err != nil {
		return err
	}
	s.gauge(diskDesc, float64(u.Disk))
	s.gauge(usedBytesDesc, float64(u.Used))
	s.gauge(logBytesDesc, float64(u.Log))
	s.gauge(liveBytesDesc, float64(u.Live))
	return nil
}

func (s *scrape) durations(d *prometheus.Desc, of *filebroker.Durations) {
	upTo := map[float64]uint64{}
	for bound, n := range of.Buckets {
		upTo[bound.Seconds()] = uint64(n)
	}
	s.out = append(s.out, prometheus.MustNewConstHistogram(d, uint64(of.Load()), of.Sum().Seconds(), upTo))
}
