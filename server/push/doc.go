// Package push delivers jobs to a URL, for people without a worker: a target is
// bound to a queue, or to some of its tasks, and each of its jobs becomes an HTTP
// request. What is answered settles the job.
//
// The request is a POST whose body is the payload, byte for byte. It is signed as
// the Standard Webhooks specification has it (webhook-id, webhook-timestamp,
// webhook-signature), for which there are libraries in most languages; the id is
// the job's, the same for each attempt. Beside that it carries Spool-Queue,
// Spool-Task, Spool-Attempt and the job's trace context.
package push
