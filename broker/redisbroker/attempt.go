package redisbroker

import (
	"context"
	"crypto/sha1" //nolint:gosec // the name that Redis gives to a script
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spoolq/spool/broker"
)

// mark travels with a command as its second key. It knows whether the command
// is on its way: whether it was written to a connection on which no reply has
// come. The client gives no other sign that tells a connection that could not
// be made from one that was lost, through pools and deadlines.
type mark struct {
	key  []byte
	sent atomic.Bool
}

// MarshalBinary is called when the command is written.
func (m *mark) MarshalBinary() ([]byte, error) {
	m.sent.Store(true)
	return m.key, nil
}

type markKey struct{}

// opaque keeps an error from the cluster client, which would repeat the call
// by itself and hide that a reply was lost before.
type opaque struct{ err error }

func (o *opaque) Error() string { return o.err.Error() }

// markHook stands at each node's client. It notes on a command's mark that a
// reply came, and lets the cluster client see redirections only.
type markHook struct{}

func (markHook) DialHook(next redis.DialHook) redis.DialHook { return next }

func (markHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { return marked(ctx, next(ctx, cmd)) }
}

func (markHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { return marked(ctx, next(ctx, cmds)) }
}

func marked(ctx context.Context, err error) error {
	m, ok := ctx.Value(markKey{}).(*mark)
	if !ok || err == nil {
		return err
	}
	var said redis.Error
	if errors.As(err, &said) {
		m.sent.Store(false)
		if text := said.Error(); strings.HasPrefix(text, "MOVED ") || strings.HasPrefix(text, "ASK ") {
			return err
		}
	}
	return &opaque{err}
}

// sums keeps the hashes of scripts.
var sums sync.Map // *script → string

func (s *script) sum() string {
	if sum, ok := sums.Load(s); ok {
		return sum.(string)
	}
	raw := sha1.Sum([]byte(s.source)) //nolint:gosec // see above
	sum := hex.EncodeToString(raw[:])
	sums.Store(s, sum)
	return sum
}

// attempt brings the calls to the server once. Its error is a *failure. The
// client's timeouts end it, on the whole within a few times Config.CallTimeout.
//
// Before it repeats a call whose reply was lost, it sees that the server answers
// at all: a repeat that lay in the socket of a server that stands still would
// run when that goes on, be it after what it remembers of the call is over.
func (n *network) attempt(ctx context.Context, s *script, queue string, calls [][]byte, again bool) ([][]byte, error) {
	k := n.of(queue)
	m := &mark{key: k.absent}
	if again {
		if err := n.client.Exists(ctx, k.config).Err(); err != nil {
			f := judge(s, err, false)
			n.missed(f)
			return nil, f
		}
	}
	args := make([]any, 0, 5+len(calls))
	args = append(args, "evalsha", s.sum(), 2, k.config, m)
	for _, c := range calls {
		args = append(args, c)
	}
	cmd, err := n.send(ctx, s, m, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		args[0], args[1] = "eval", s.source
		m.sent.Store(false)
		cmd, err = n.send(ctx, s, m, args)
	}
	if err == nil {
		n.reached()
		return answersOf(s, cmd, len(calls))
	}
	var known *failure
	if !errors.As(err, &known) {
		known = judge(s, err, m.sent.Load())
	}
	if end, ok := ctx.Deadline(); !ok || time.Now().Before(end) {
		n.missed(known)
	} // else its caller left it to a leader, which says nothing of the server yet
	return nil, known
}

// send sends one command and reads its reply, and waits then for whom the
// configuration asks to wait for.
func (n *network) send(ctx context.Context, s *script, m *mark, args []any) (*redis.Cmd, error) {
	ctx = context.WithValue(ctx, markKey{}, m)
	cmd := redis.NewCmd(ctx, args...)
	cmd.SetFirstKeyPos(3)
	var err error
	if s.durable && n.waits() {
		err = n.sendAndWait(ctx, cmd)
	} else {
		err = n.client.Process(ctx, cmd)
	}
	if o, ok := errors.AsType[*opaque](err); ok {
		err = o.err
	}
	return cmd, err
}

// allOK is the answer that is OK and no more; nobody writes to an answer.
var allOK = []byte{0}

// answersOf reads the reply to a script that was given n calls.
func answersOf(s *script, cmd *redis.Cmd, n int) ([][]byte, error) {
	if ok, _ := cmd.Val().(int64); ok == int64(n) { // see brief in main.lua
		return slices.Repeat([][]byte{allOK}, n), nil
	}
	list, _ := cmd.Val().([]any)
	if len(list) != n {
		return nil, &failure{lost, fmt.Errorf("%w: script %s answered %d calls of %d", broker.ErrUnknown, s.name, len(list), n)}
	}
	answers := make([][]byte, n)
	for i, a := range list {
		text, ok := a.(string)
		if !ok {
			return nil, &failure{lost, fmt.Errorf("%w: script %s answered with %T", broker.ErrUnknown, s.name, a)}
		}
		answers[i] = []byte(text)
	}
	return answers, nil
}
