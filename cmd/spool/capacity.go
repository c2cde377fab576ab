package main

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/spoolq/spool/broker"
)

type capacityCmd struct {
	List  capacityListCmd  `cmd:"" help:"List the capacities, with who set them; spool stats shows how full a queue is."`
	Set   capacitySetCmd   `cmd:"" help:"Bound how many jobs, or bytes of them, wait and run in a queue."`
	Clear capacityClearCmd `cmd:"" help:"Take an operator's capacity back: what a program declares holds again."`
}

type capacityListCmd struct{ settingFlags }

// Run lists the capacities.
func (c *capacityListCmd) Run(a *app) error {
	return a.listSettings(&c.settingFlags, broker.CapacitySetting)
}

type capacitySetCmd struct {
	Jobs       int64    `placeholder:"N" help:"So many jobs at most, scheduled, ready and leased together."`
	Bytes      byteSize `placeholder:"SIZE" help:"So many bytes of them at most, payloads and headers: 1000000, 64MiB."`
	DropOldest bool     `help:"Make room by cancelling the ready job of the lowest priority that waits longest, instead of refusing."`
	PerTenant  bool     `help:"Of each tenant by itself, instead of the queue."`
	setFlags
}

// Help is shown by spool capacity set --help.
func (*capacitySetCmd) Help() string {
	return "Enqueue to a full queue fails with exit code 6 and adds nothing, or waits with --block. A capacity below what is there drops nothing. " +
		"It wins over one that a program declares, until it is cleared."
}

// Run sets the capacity.
func (c *capacitySetCmd) Run(a *app) error {
	if c.Jobs < 0 {
		return usagef("--jobs is %d: 1 or more would do", c.Jobs)
	}
	if c.Jobs == 0 && c.Bytes == 0 {
		return usagef("a capacity is --jobs, --bytes or both, above 0; spool pause stops a queue")
	}
	to := broker.Setting{Capacity: &broker.Capacity{Jobs: c.Jobs, Bytes: int64(c.Bytes), DropOldest: c.DropOldest}}
	return a.set(&c.setFlags, broker.CapacitySetting, capacityName(c.PerTenant), func(*broker.Setting) broker.Setting { return to })
}

type capacityClearCmd struct {
	PerTenant bool `help:"That of each tenant, instead of the queue's."`
	clearFlags
}

// Run clears the capacity.
func (c *capacityClearCmd) Run(a *app) error {
	return a.clear(&c.clearFlags, broker.CapacitySetting, capacityName(c.PerTenant))
}

func capacityName(perTenant bool) string {
	if perTenant {
		return broker.TenantCapacity
	}
	return ""
}

// byteSize is a number of bytes on the command line.
type byteSize int64

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *byteSize) UnmarshalText(b []byte) error {
	number, shift := string(b), 0
	for i, unit := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if before, ok := strings.CutSuffix(number, unit); ok {
			number, shift = before, 10*(i+1)
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n < 1 || n > math.MaxInt64>>shift {
		return fmt.Errorf("%q is no size: 1000000, 512KiB, 64MiB, 2GiB and so on would do", b)
	}
	*s = byteSize(n << shift)
	return nil
}
