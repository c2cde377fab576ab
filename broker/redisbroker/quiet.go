package redisbroker

import "github.com/redis/go-redis/v9/logging"

// The client library writes to the standard error what Config.Logger is told in
// fewer words. Its logger is one for the whole program, and cannot be read: it is
// silenced before main begins, so that whatever a program sets, with
// redis.SetLogger or logging.Enable, stays as it is.
func init() { logging.Disable() }
