package wire

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/spoolq/spool/broker"
)

// Settlement ends one lease.
type Settlement struct {
	Queue        string         `json:"queue"`
	ID           broker.ID      `json:"id"`
	Token        broker.Token   `json:"token,omitzero" doc:"The lease's; without it the lease counts as lost."`
	Kind         string         `json:"kind" enum:"ack,nack,snooze,release,bury,cancel" doc:"Ack: finished. Nack: failed, again after delay, or dead when attempts are used up. Snooze: again after delay, the attempt does not count. Release: given back as it was. Bury: dead at once. Cancel: cancelled."`
	Delay        Duration       `json:"delay,omitzero" doc:"Of nack and snooze." example:"10s"`
	Result       jsontext.Value `json:"result,omitzero" doc:"Of an ack: any JSON value, kept with the job byte for byte."`
	ResultBase64 []byte         `json:"result_base64,omitzero" doc:"Any bytes, in place of result."`
	Error        string         `json:"error,omitzero" doc:"Of nack, bury and cancel: the cause; cut at 8 KiB."`
	FollowUps    []FollowUp     `json:"follow_ups,omitzero" doc:"Of an ack: jobs to enqueue in the same commit."`
	Bytes        Bytes          `json:"bytes,omitzero" doc:"Strings that are not UTF-8, base64, by the names of their fields."`
}

// FollowUp is a job enqueued by another's ack.
type FollowUp struct {
	Queue string `json:"queue"`
	Job   NewJob `json:"job"`
}

// SettleRequest ends leases. Each is judged alone; the call is one commit.
type SettleRequest struct {
	Settlements []Settlement `json:"settlements"`
}

var settleKinds = [...]string{"", "ack", "nack", "snooze", "release", "bury", "cancel"}

// SettleRequestOf is the shape of settlements, whose bytes it shares.
func SettleRequestOf(list []broker.Settlement) SettleRequest {
	v := SettleRequest{make([]Settlement, len(list))}
	for i := range list {
		s := &list[i]
		o := &v.Settlements[i]
		*o = Settlement{Queue: s.Ref.Queue, ID: s.Ref.ID, Token: s.Token, Kind: s.Kind.String(), Delay: Duration(s.Delay), Error: s.Error}
		if o.Result, o.ResultBase64 = forms(s.Result); s.Result != nil && len(s.Result) == 0 {
			o.ResultBase64 = []byte{}
		}
		for k := range s.FollowUps {
			f := &s.FollowUps[k]
			o.FollowUps = append(o.FollowUps, FollowUp{f.Queue, NewJobOf(&f.Job)})
		}
	}
	return v
}

// Settlement returns what v is the shape of, sharing its bytes.
func (v *Settlement) Settlement() (s broker.Settlement, err error) {
	kind, err := valueOf("kind", settleKinds[:], v.Kind)
	if err != nil {
		return s, err
	}
	if err := v.Bytes.into(map[string]*string{"error": &v.Error}); err != nil {
		return s, err
	}
	s = broker.Settlement{
		Ref: broker.Ref{Queue: v.Queue, ID: v.ID}, Token: v.Token, Kind: broker.SettleKind(kind),
		Delay: time.Duration(v.Delay), Error: v.Error,
	}
	if s.Result, err = bodyOf("result", v.Result, v.ResultBase64); err != nil {
		return s, err
	}
	for i := range v.FollowUps {
		job, err := v.FollowUps[i].Job.NewJob()
		if err != nil {
			return s, err
		}
		s.FollowUps = append(s.FollowUps, broker.FollowUp{Queue: v.FollowUps[i].Queue, Job: job})
	}
	return s, nil
}

func (v SettleRequest) appendTo(b []byte) []byte {
	o := open(b)
	array(&o, "settlements", v.Settlements, func(b []byte, s *Settlement) []byte {
		o := open(b)
		o.ref(s.Queue, s.ID, s.Token)
		o.text("kind", s.Kind)
		o.duration("delay", s.Delay)
		o.body("result", s.Result, s.ResultBase64)
		o.text("error", s.Error)
		if len(s.FollowUps) > 0 {
			array(&o, "follow_ups", s.FollowUps, func(b []byte, f *FollowUp) []byte {
				o := open(b)
				o.text("queue", f.Queue)
				o.name("job")
				o.b = appendNewJob(o.b, &f.Job)
				return o.close()
			})
		}
		return o.close()
	})
	return o.close()
}

// Settled answers one Settlement.
type Settled struct {
	State     string     `json:"state,omitzero" enum:"scheduled,ready,leased,done,dead,cancelled" doc:"Where the job is now."`
	FollowUps []Enqueued `json:"follow_ups,omitzero" doc:"In the order of the settlement's."`
	Error     *Problem   `json:"error,omitzero" doc:"Why this settlement was refused; the others of the call are not affected."`
}

// SettleAnswer answers a SettleRequest, in its order.
type SettleAnswer struct {
	Settlements []Settled `json:"settlements"`
}

// SettleAnswerOf is the shape of answers.
func SettleAnswerOf(answers []broker.Settled) SettleAnswer {
	v := SettleAnswer{make([]Settled, len(answers))}
	for i := range answers {
		s := &answers[i]
		o := &v.Settlements[i]
		if s.State != 0 {
			o.State = s.State.String()
		}
		if s.FollowUps != nil {
			o.FollowUps = EnqueuedOf(s.FollowUps)
		}
		if s.Err != nil {
			o.Error = ProblemOf(s.Err)
		}
	}
	return v
}

// Settled returns what v is the shape of.
func (v *SettleAnswer) Settled() ([]broker.Settled, error) {
	all := make([]broker.Settled, len(v.Settlements))
	for i := range v.Settlements {
		s := &v.Settlements[i]
		o := &all[i]
		if s.State != "" {
			state, err := broker.ParseState(s.State)
			if err != nil {
				return nil, err
			}
			o.State = state
		}
		o.FollowUps = EnqueueAnswer{s.FollowUps}.Enqueued()
		if s.Error != nil {
			o.Err = s.Error.Err()
		}
	}
	return all, nil
}
