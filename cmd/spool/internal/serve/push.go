package serve

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spoolq/spool"
	"github.com/spoolq/spool/internal/wire"
	"github.com/spoolq/spool/server/push"
)

// Push is push.Target as the file has it.
type Push struct {
	Name         string        `json:"name,omitzero" doc:"Of the worker that delivers; push- and the queue when left out."`
	Queue        string        `json:"queue" doc:"Whose jobs are delivered."`
	Tasks        []string      `json:"tasks,omitzero" doc:"Of these tasks; every one when left out."`
	URL          string        `json:"url" example:"https://example.com/hooks"`
	SecretEnv    string        `json:"secret_env,omitzero" doc:"Environment variable with the secret that signs the requests: whsec_ and base64."`
	Timeout      wire.Duration `json:"timeout,omitzero" doc:"Of one request; 30s when left out." example:"30s"`
	Concurrency  int           `json:"concurrency,omitzero" doc:"Requests at a time; 10 when left out."`
	Rate         string        `json:"rate,omitzero" doc:"Deliveries in all, of all servers together. It needs tasks." example:"10/s"`
	ClientError  string        `json:"client_error,omitzero" enum:"bury,retry" doc:"What becomes of a job that is answered with 4xx; bury when left out."`
	AllowPrivate bool          `json:"allow_private,omitzero" doc:"Lets the URL lead to this machine and to private networks."`
}

// targets are those of the file, in the form of package push.
func (c *Config) targets() (list []push.Target, err error) {
	names := map[string]bool{}
	for i := range c.Push {
		p := &c.Push[i]
		t := push.Target{
			Name: p.Name, Queue: p.Queue, Tasks: p.Tasks, URL: p.URL, Timeout: time.Duration(p.Timeout), Concurrency: p.Concurrency,
			Rate: p.Rate, ClientError: push.Policy(p.ClientError), AllowPrivate: p.AllowPrivate,
		}
		if t.Name == "" {
			t.Name = "push-" + t.Queue
		}
		if p.SecretEnv != "" {
			if t.Secret = os.Getenv(p.SecretEnv); t.Secret == "" {
				return nil, fmt.Errorf("push[%d]: secret_env: the variable %s is not set", i, p.SecretEnv)
			}
		}
		if err := t.Check(); err != nil {
			return nil, fmt.Errorf("push[%d]: %w", i, err)
		}
		if names[t.Name] {
			return nil, fmt.Errorf("push[%d]: there are two of the name %s: give each its own", i, t.Name)
		}
		names[t.Name] = true
		list = append(list, t)
	}
	return list, nil
}

// deliver runs the workers that push, until ctx ends. What they run when it does
// has its time, as with any worker.
func (c *Config) deliver(ctx context.Context, client *spool.Client) (wait func() error, err error) {
	targets, err := c.targets()
	if err != nil {
		return nil, err
	}
	workers := make([]*spool.Worker, len(targets))
	for i := range targets {
		if workers[i], err = push.NewWorker(client, targets[i]); err != nil {
			return nil, fmt.Errorf("push[%d]: %w", i, err)
		}
	}
	ended := make(chan error, len(workers))
	for _, w := range workers {
		go func() { ended <- w.Run(ctx) }()
	}
	return func() (err error) {
		for range workers {
			err = errors.Join(err, <-ended)
		}
		return err
	}, nil
}
