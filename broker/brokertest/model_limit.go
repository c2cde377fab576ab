package brokertest

import (
	"cmp"
	"math/big"
	"slices"
	"strings"
	"time"

	"github.com/spoolq/spool/broker"
)

// block is something that keeps a ready job from being claimed.
type block struct {
	reason  string    // WhyLimit or WhyRate
	limit   string    // the name of the limit; "" for an ordered group
	holders []*job    // of a limit on running jobs, or of the group
	until   time.Time // of a rate
}

// blocks lists what keeps j from being claimed now, nil for nothing: its ordered
// group, limits on running jobs, rates, the one that lasts longest first.
func (s *store) blocks(j *job) (all []block) {
	if j.Ordered {
		for _, o := range s.jobs {
			if o != j && s.rules.holds(o, j) {
				all = append(all, block{reason: broker.WhyLimit, holders: []*job{o}})
			}
		}
	}
	var rates []block
	for name, l := range s.limits(j) {
		if l.Running == 0 {
			if b := s.rateBlock(name, l, j); b != nil {
				rates = append(rates, *b)
			}
			continue
		}
		var holders []*job
		for _, o := range s.jobs {
			if o.State == broker.Leased && o.Queue == j.Queue && s.rules.counts(l, o, j) {
				holders = append(holders, o)
			}
		}
		if len(holders) >= l.Running {
			all = append(all, block{reason: broker.WhyLimit, limit: name, holders: holders})
		}
	}
	slices.SortFunc(all, func(a, b block) int { return strings.Compare(a.limit, b.limit) })
	slices.SortFunc(rates, func(a, b block) int { return cmp.Or(b.until.Compare(a.until), strings.Compare(a.limit, b.limit)) })
	return append(all, rates...)
}

// limits returns the limits in force that bind j, by name.
func (s *store) limits(j *job) map[string]*broker.Limit {
	bind := map[string]*broker.Limit{}
	for name, l := range s.flow(j.Queue).settings {
		if set := l.inForce(); set.Kind == broker.LimitSetting && slices.Contains(set.Limit.Tasks, j.Task) {
			bind[name.Name] = set.Limit
		}
	}
	return bind
}

// scopeValue is what l counts j by.
func scopeValue(l *broker.Limit, j *job) string {
	switch l.Per {
	case broker.PerTenant:
		return j.Tenant
	case broker.PerGroup:
		return j.group()
	}
	return ""
}

// group is j's group; a job without one is of its tenant's.
func (j *job) group() string {
	if j.Group == "" {
		return j.Tenant
	}
	return j.Group
}

// countsHere reports whether the lease of o counts where j wants one.
func countsHere(l *broker.Limit, o, j *job) bool {
	return slices.Contains(l.Tasks, o.Task) && scopeValue(l, o) == scopeValue(l, j)
}

// bucketName names what a rate keeps for one value of its scope.
type bucketName struct{ limit, value string }

// rate is the exact arithmetic of a limit's rate (GCRA). Times are in
// nanoseconds on the store's clock. A bucket is a time too: when the interval
// of its last claim would end if all its claims had been made one by one.
type rate struct {
	interval *big.Rat // from one claim to the next
	burst    int64
}

func newRate(l *broker.Limit) rate {
	r := rate{interval: big.NewRat(int64(l.Every), l.Count), burst: l.Burst}
	if r.burst == 0 {
		r.burst = l.Count
	}
	return r
}

// ahead is how far the bucket may be ahead of the claim.
func (r rate) ahead() *big.Rat {
	return new(big.Rat).Mul(r.interval, big.NewRat(r.burst-1, 1))
}

// full is how far a bucket is ahead from which the whole burst was just claimed.
func (r rate) full() *big.Rat { return new(big.Rat).Mul(r.interval, big.NewRat(r.burst, 1)) }

// earliest is when the bucket tat allows a claim.
func (r rate) earliest(tat, now *big.Rat) *big.Rat {
	return new(big.Rat).Sub(later(tat, now), r.ahead())
}

// spend is what a claim now makes of the bucket tat.
func (r rate) spend(tat, now *big.Rat) *big.Rat {
	return new(big.Rat).Add(later(tat, now), r.interval)
}

func later(a, b *big.Rat) *big.Rat {
	if a.Cmp(b) > 0 {
		return a
	}
	return b
}

// clockRat is the time that rates are counted in.
func (s *store) clockRat() *big.Rat { return big.NewRat(int64(s.now().Sub(s.base)), 1) }

// bucket returns what a rate has kept for j. In a new epoch it is as if the whole
// burst had been claimed when the epoch began: it may have been, and forgotten.
func (s *store) bucket(name string, l *broker.Limit, j *job) *big.Rat {
	tat, bucket := new(big.Rat), bucketName{name, scopeValue(l, j)}
	if kept := s.flow(j.Queue).rates[bucket]; kept != nil {
		// A rate that was changed meanwhile finds its bucket empty at worst.
		tat = kept
		if most := new(big.Rat).Add(s.flow(j.Queue).rated[bucket], newRate(l).full()); tat.Cmp(most) > 0 {
			tat = most
		}
	}
	if s.epoch != nil {
		tat = later(tat, new(big.Rat).Add(s.epoch, newRate(l).full()))
	}
	return tat
}

// openEpoch begins an epoch with the first claim after a restart of the machine.
func (s *store) openEpoch() {
	if s.reboot {
		s.reboot, s.epoch = false, s.clockRat()
	}
}

// rateBlock says until when the rate l keeps j from being claimed, nil for not.
func (s *store) rateBlock(name string, l *broker.Limit, j *job) *block {
	now := s.clockRat()
	earliest := s.rules.earliest(newRate(l), s.bucket(name, l, j), now)
	if now.Cmp(earliest) >= 0 {
		return nil
	}
	nanos := new(big.Int).Div(earliest.Num(), earliest.Denom()).Int64()
	if !earliest.IsInt() {
		nanos++
	}
	return &block{reason: broker.WhyRate, limit: name, until: s.base.Add(time.Duration(nanos))}
}

// chargeRates charges the claim of j to every rate that binds it.
func (s *store) chargeRates(j *job) {
	for name, l := range s.limits(j) {
		if l.Running == 0 {
			f, bucket := s.flow(j.Queue), bucketName{name, scopeValue(l, j)}
			f.rates[bucket] = s.rules.spend(newRate(l), s.bucket(name, l, j), s.clockRat())
			f.rated[bucket] = s.clockRat()
		}
	}
}

// forgetRates forgets the buckets of rates that are gone in what comes next.
func (f *flow) forgetRates(next map[broker.SettingName]layers) {
	for b := range f.rates {
		if is := next[broker.SettingName{Kind: broker.LimitSetting, Name: b.limit}].inForce(); is == nil || is.Limit.Running > 0 {
			delete(f.rates, b)
		}
	}
}
