package push

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/broker"
)

// Defaults of a target.
const (
	DefaultTimeout     = 30 * time.Second
	DefaultConcurrency = 10
)

// Policy says what becomes of a job that is answered with 4xx, 408, 425 and 429
// excepted.
type Policy string

// The policies. The zero one is Bury: the request will not get better by being
// repeated.
const (
	Bury  Policy = "bury"
	Retry Policy = "retry"
)

// Target is where the jobs of a queue go.
type Target struct {
	Name  string   // of the worker that delivers, for people
	Queue string   // whose jobs are delivered
	Tasks []string // of these tasks; nil means every task of the queue
	URL   string   // http:// or https://, without a user in it
	// Secret signs the requests: "whsec_" and base64, at least 24 bytes of it; ""
	// means that they are not signed.
	Secret      string
	Timeout     time.Duration // of one request; 0 means DefaultTimeout
	Concurrency int           // requests at a time; 0 means DefaultConcurrency
	// Rate bounds the deliveries, like "10/s", in the store: for all servers
	// together. It needs Tasks.
	Rate        string
	ClientError Policy
	// AllowPrivate lets the URL lead to addresses of this machine and of private
	// networks.
	AllowPrivate bool
}

// Check says what is wrong with t.
func (t *Target) Check() error {
	u, err := url.Parse(t.URL)
	switch {
	case t.Queue == "":
		return errors.New("queue is missing")
	case broker.ValidName(t.Queue) != nil:
		return fmt.Errorf("queue %w", broker.ValidName(t.Queue))
	case t.Name != "" && broker.ValidName(t.Name) != nil:
		return fmt.Errorf("name %w", broker.ValidName(t.Name))
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "":
		return errors.New("url is not one of http:// or https://")
	case u.User != nil:
		return errors.New("url has a user in it: what authenticates a delivery is its signature")
	case t.Timeout < 0:
		return fmt.Errorf("timeout %v is negative", t.Timeout)
	case t.Concurrency < 0:
		return fmt.Errorf("concurrency %d is negative", t.Concurrency)
	case !t.AllowPrivate && private(u.Hostname()):
		return fmt.Errorf("url leads to %s, which is not of the public Internet: every delivery would fail; allow_private lets it", u.Hostname())
	case t.ClientError != "" && t.ClientError != Bury && t.ClientError != Retry:
		return fmt.Errorf("client_error is %.32q: allowed are bury and retry", t.ClientError)
	case t.Rate != "" && len(t.Tasks) == 0:
		return errors.New("rate needs tasks: a limit binds tasks, by name")
	}
	for _, name := range t.Tasks {
		if err := broker.ValidName(name); err != nil {
			return fmt.Errorf("task %w", err)
		}
	}
	if t.Secret != "" {
		if _, err := webhooks.NewWebhook(t.Secret); err != nil {
			return errors.New("secret is not base64, with or without whsec_ before it")
		}
	}
	return nil
}

// NewWorker returns a worker of c that delivers the jobs of t: run it. It returns
// an error when t cannot be.
func NewWorker(c *spool.Client, t Target) (w *spool.Worker, err error) {
	if err := t.Check(); err != nil {
		return nil, err
	}
	defer func() { // a rate that cannot be read
		if p := recover(); p != nil {
			w, err = nil, fmt.Errorf("%v", p)
		}
	}()
	t.Timeout, t.Concurrency = cmp.Or(t.Timeout, DefaultTimeout), cmp.Or(t.Concurrency, DefaultConcurrency)
	t.Name = cmp.Or(t.Name, "push-"+t.Queue)
	d := &delivery{target: t, client: &http.Client{Transport: transport(&t), CheckRedirect: noRedirect}}
	if t.Secret != "" {
		if d.sign, err = webhooks.NewWebhook(t.Secret); err != nil {
			return nil, err
		}
	}
	w = spool.NewWorker(c, spool.WorkerConfig{
		Name: t.Name, Concurrency: t.Concurrency, Queues: []spool.QueueConfig{{Name: t.Queue}}, NoScheduler: true,
	})
	w.Use(func(spool.Handler) spool.Handler { return d.deliver }) // the payload is not ours to decode
	if t.Tasks == nil {
		w.HandleAny(d.deliver)
	}
	var options []spool.TaskOption
	if t.Rate != "" {
		options = append(options, spool.RateLimit(t.Rate, spool.Bucket(t.Name)))
	}
	for _, name := range slices.Compact(slices.Sorted(slices.Values(t.Tasks))) {
		spool.Define[[]byte](name, append(options, spool.Queue(t.Queue))...).Handle(w, unreached)
	}
	return w, nil
}

// unreached stands where a handler has to: deliver stands before it.
func unreached(context.Context, []byte) error { return errors.New("push: not reached") }
