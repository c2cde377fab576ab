package main

import "github.com/spoolq/spool/broker"

type weightCmd struct {
	List  weightListCmd  `cmd:"" help:"List the weights of tenants that are set; any other tenant has 1."`
	Set   weightSetCmd   `cmd:"" help:"Set a tenant's share of the claims, beside those of others."`
	Clear weightClearCmd `cmd:"" help:"Take a tenant's weight back: it has what a program declares again, or 1."`
}

type weightListCmd struct{ settingFlags }

// Run lists the weights.
func (c *weightListCmd) Run(a *app) error {
	return a.listSettings(&c.settingFlags, broker.WeightSetting)
}

type weightSetCmd struct {
	Tenant exact `arg:"" help:"The tenant; \"\" is that of jobs without one."`
	Weight int   `arg:"" help:"With 3, three jobs for each one of a tenant of weight 1, as long as both have ready jobs of one priority."`
	setFlags
}

// Run sets the weight.
func (c *weightSetCmd) Run(a *app) error {
	to := broker.Setting{Weight: c.Weight}
	return a.set(&c.setFlags, broker.WeightSetting, string(c.Tenant), func(*broker.Setting) broker.Setting { return to })
}

type weightClearCmd struct {
	Tenant exact `arg:"" help:"The tenant."`
	clearFlags
}

// Run clears the weight.
func (c *weightClearCmd) Run(a *app) error {
	return a.clear(&c.clearFlags, broker.WeightSetting, string(c.Tenant))
}
