// Package wire holds the JSON shapes of /v1: what `spool serve` answers and
// reads, and what httpbroker, its client, sends. They are those of package
// broker under the same names, with these rules:
//
//   - Ids, tokens and states are strings. A duration is a string with units, as
//     "1m30s"; a bare number is refused. A time is RFC 3339 in UTC. What is zero
//     is left out.
//   - A payload or a result that is JSON stands in "payload" as it is, byte for
//     byte; any other bytes stand in "payload_base64". Which of the two a reader
//     gets is decided by the bytes alone: JSON with a duplicate name, with bytes
//     that are not UTF-8, or with space around it is bytes like any other.
//   - Other strings are opaque bytes to spool and nearly always text. One that is
//     not UTF-8 stands in "bytes", base64, under the name of its field, and wins
//     over the field; the name of a line of a log is "log." and its number from 0.
//     A header that is not UTF-8 stands in "header_bytes".
//   - What is read is strict at the server (unknown and duplicate members, data
//     after the value and bad UTF-8 are errors that name the place), and lenient
//     at the client, which may be older than its server.
//
// The types carry doc tags: they are the descriptions of the OpenAPI document.
package wire
