// SPDX-License-Identifier: Apache-2.0

package decisions

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"path"
	"reflect"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

type (
	recorderKey struct{}
	scopeKey    struct{}
)

// scope is what the decisions of one reconcile have in common.
type scope struct {
	recorder   *Recorder
	controller string
	object     Object
	generation int64
	now        time.Time
}

// reconciled is the part of an object that decisions name.
type reconciled interface {
	GetNamespace() string
	GetName() string
	GetUID() types.UID
	GetGeneration() int64
}

// Into returns a context whose reconciles record their decisions.
func Into(ctx context.Context, r *Recorder) context.Context {
	if r == nil {
		return ctx
	}
	return context.WithValue(ctx, recorderKey{}, r)
}

// Of returns the context of one reconcile of an object.
func Of(ctx context.Context, controller string, obj reconciled, now time.Time) context.Context {
	r, _ := ctx.Value(recorderKey{}).(*Recorder)
	if r == nil {
		return ctx
	}
	of := Object{reflect.TypeOf(obj).Elem().Name(), obj.GetNamespace(), obj.GetName(), obj.GetUID()}
	return context.WithValue(ctx, scopeKey{}, &scope{r, controller, of, obj.GetGeneration(), now})
}

// Make makes a plan as planner.Make does, and records it.
func Make[F any, Q comparable, A, P any](ctx context.Context, planner questions.Planner[F, Q, A, P], facts F, answer func(Q) (A, error)) (questions.Record[F, Q, A, P], error) {
	made, err := planner.Make(facts, answer)
	if s, _ := ctx.Value(scopeKey{}).(*scope); s != nil {
		d := outcome{plan: made.Plan, err: err}
		if len(made.Answers) > 0 {
			d.answers = made.Answers
		}
		if made.Unanswered != nil {
			d.unanswered = made.Unanswered
		}
		s.record(facts, d)
	}
	return made, err
}

// Add records the plan of a planner that asks no questions.
func Add(ctx context.Context, facts, plan any) {
	if s, _ := ctx.Value(scopeKey{}).(*scope); s != nil {
		s.record(facts, outcome{plan: plan})
	}
}

// outcome is a decision without its facts.
type outcome struct {
	plan, answers, unanswered any
	err                       error
}

// Naming are facts with names for objects that may be created. Each reconcile generates other
// names, which make no difference: else an object that cannot be created would be recorded
// with each retry.
type Naming interface{ NewNames() []string }

// unnamed returns the JSON of a plan with numbers in place of generated names.
func unnamed(plan json.RawMessage, names []string) json.RawMessage {
	for i, name := range names {
		if name != "" {
			plan = bytes.ReplaceAll(plan, []byte(name), []byte("name"+strconv.Itoa(i)))
		}
	}
	return plan
}

// Planner returns the name of the planner with these types: that of the plan or, if that
// has none, of the facts.
func Planner(facts, plan reflect.Type) string {
	if plan.Kind() == reflect.Pointer {
		plan = plan.Elem()
	}
	if plan.Name() != "" {
		facts = plan
	}
	return path.Base(facts.PkgPath()) + "." + facts.Name()
}

// seed is that of all exact hashes of this process.
var seed = maphash.MakeSeed()

// record stores the decision if it differs from the last one.
func (s *scope) record(facts any, o outcome) {
	planner := Planner(reflect.TypeOf(facts), reflect.TypeOf(o.plan))
	var names []string
	if n, is := facts.(Naming); is {
		names = n.NewNames()
	}
	parts := make([]json.RawMessage, 0, 3) // as many as there are below
	var exact maphash.Hash
	exact.SetSeed(seed)
	for _, part := range []any{Plain(o.plan), o.answers, o.unanswered} {
		text, err := Encode(part)
		if err != nil {
			text, _ = json.Marshal(fmt.Sprintf("not recorded: %v", err)) // a string can be encoded
		}
		parts = append(parts, text)
		_, _ = exact.Write(append(unnamed(text, names), 0)) // it never returns an error
	}
	failure := ""
	if o.err != nil {
		failure = s.recorder.text(sanitize.Line(o.err.Error(), maxError), maxError)
		_, _ = exact.WriteString(failure)
	}
	now := last{exact: max(exact.Sum64(), 1)}
	nothing := len(parts[0]) <= len("{}") && len(parts[1]) == 0 && len(parts[2]) == 0 && failure == ""
	if s.recorder.unchanged(s.object, planner, now.exact, nothing) {
		return
	}
	d := Decision{Time: s.now.UTC(), Controller: s.controller, Planner: planner, Object: s.object, Generation: s.generation, Error: failure}
	d.Plan, d.Answers, d.Unanswered = s.recorder.Redact(parts[0]), s.recorder.Redact(parts[1]), s.recorder.Redact(parts[2])
	now.digest = d.digest(names)
	if s.recorder.repeats(s.object, planner, now) {
		return
	}
	text, err := Encode(facts)
	if err != nil {
		d.Omitted = fmt.Sprintf("the facts cannot be encoded: %v", err)
	}
	d.Facts = s.recorder.Redact(text)
	d.limit()
	s.recorder.add(d, now)
}

// limit omits what is too large.
func (d *Decision) limit() {
	if n := len(d.Facts) + len(d.Answers) + len(d.Unanswered); n > maxInputs {
		d.Facts, d.Answers, d.Unanswered = nil, nil, nil
		d.Omitted = fmt.Sprintf("facts and answers have %d bytes, the limit is %d", n, maxInputs)
	}
	if n := len(d.Plan); n > maxPlan {
		d.Plan = nil
		d.Omitted = fmt.Sprintf("the plan has %d bytes, the limit is %d", n, maxPlan)
	}
}

// digest identifies the parts of a decision that a later one must differ in; names are
// generated.
func (d *Decision) digest(names []string) (sum [32]byte) {
	h := sha256.New()
	for _, part := range []json.RawMessage{unnamed(d.Plan, names), d.Answers, d.Unanswered} {
		h.Write(append(Lasting(part), 0))
	}
	h.Write([]byte(d.Error))
	h.Sum(sum[:0])
	return sum
}

// Encode returns the JSON of a value; nil of nothing.
func Encode(v any) ([]byte, error) {
	if v == nil {
		return nil, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // texts are for people
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSpace(b.Bytes()), nil
}
