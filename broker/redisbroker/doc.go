// Package redisbroker keeps a queue on Redis 7 or newer, or Valkey.
package redisbroker
