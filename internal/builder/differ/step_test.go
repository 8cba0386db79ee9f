// SPDX-License-Identifier: Apache-2.0

package differ

import (
	"context"
	"fmt"
	"net/http"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/capstan-dev/capstan/internal/pure/ssadiff"
)

// try is one apply of an intent, and the prediction before it.
type try struct {
	version int
	wanted  map[string]any
	live    map[string]any
	after   map[string]any
	in      *ssadiff.Intent // nil if it was refused here
	result  ssadiff.Comparison
	did     string // what others did before
}

func (t try) example(note any) example {
	return example{wanted: t.wanted, live: t.live, after: t.after, note: fmt.Sprintf("%s; %v", t.did, note)}
}

// step lets others interfere, changes the intent or not, predicts what an apply
// will do, and applies.
func (l *trial) step(ctx context.Context) error {
	t := try{did: l.disturb(ctx)}
	next := l.wanted
	if l.r.IntN(2) == 0 {
		next = l.sub.source.change(l.r, l.wanted)
	}
	if len(l.sub.types) > 1 && l.r.IntN(15) == 0 {
		t.version = 1
	}
	var err error
	if t.live, err = l.get(ctx, t.version); err != nil {
		return err
	}
	t.wanted = l.stamp(t.version, next)
	sent := runtime.DeepCopyJSON(t.wanted)
	in, refused := l.sub.types[t.version].Intend(Manager, t.wanted)
	if refused == nil {
		t.in, sent = in, runtime.DeepCopyJSON(in.Object())
		if ok, err := l.predict(ctx, &t); !ok || err != nil {
			return err
		}
	}
	if t.result.Reason == ssadiff.Misfit {
		l.report.fault(l.sub.kind+": a live object is not read", t.example(t.result.Problem))
		return nil
	}
	sent["metadata"].(map[string]any)["resourceVersion"] = resourceVersion(t.live) // refused after another write in between
	answer, code, err := l.apply(ctx, t.version, sent)
	switch {
	case err != nil:
		return err
	case code == http.StatusConflict:
		l.interrupted()
	case code > http.StatusCreated && refused != nil:
		l.report.Counts["refused by both"]++
	case code > http.StatusCreated && !t.result.Changed() && t.in.Against(t.live, nil).Changed():
		l.report.Counts["settled: would be refused now"]++
	case code > http.StatusCreated && !t.result.Changed():
		l.report.fault(l.sub.kind+": unchanged, and refused", t.example(answer["message"]))
	case code == http.StatusInternalServerError:
		l.report.fault(l.sub.kind+": refused by the merge of the server alone", t.example(answer["message"]))
	case code > http.StatusCreated:
		l.report.Counts["changed, refused by a rule"]++
	case refused != nil:
		l.report.fault(l.sub.kind+": refused here alone", t.example(refused))
	default:
		t.after, l.wanted, l.seen, l.at = answer, next, answer, t.version
		l.compare(t)
		return l.settle(ctx, t, sent)
	}
	return nil
}

// interrupted records that another client wrote since the object was read, such as
// the controllers of the server when they see that it is paused.
func (l *trial) interrupted() {
	l.seen = nil
	l.report.Counts["interrupted"]++
}

// predict predicts what an apply will do. If managedFields were lost it first records
// ours again, as a writer does; it is not ok if another client wrote before.
func (l *trial) predict(ctx context.Context, t *try) (ok bool, err error) {
	if t.result = t.in.Against(t.live, l.settled); t.result.Reason != ssadiff.FieldsLost {
		return true, nil
	}
	body := map[string]any{"metadata": map[string]any{"resourceVersion": resourceVersion(t.live), "managedFields": t.in.Seed(t.live)}}
	answer, code, err := l.send(ctx, t.version, Request{Method: http.MethodPatch, Type: asMerge, Query: "fieldManager=" + Manager, Body: body})
	switch {
	case err != nil:
		return false, err
	case code == http.StatusConflict:
		l.interrupted()
		return false, nil
	case code != http.StatusOK:
		return false, fmt.Errorf("managedFields cannot be written: %d, %v", code, answer["message"])
	}
	l.report.Counts["managedFields rewritten"]++
	l.settled = nil
	t.live, l.seen, l.at = answer, answer, t.version
	t.result = t.in.Against(t.live, nil)
	return true, nil
}

func (l *trial) apply(ctx context.Context, version int, body map[string]any) (map[string]any, int, error) {
	return l.send(ctx, version, Request{Method: http.MethodPatch, Type: asApply, Query: "force=true&fieldManager=" + Manager, Body: body})
}

// compare compares a prediction with what the apply did. A write that changes no
// field of ours does not count: it moves times in managedFields, or drops what
// others had stored and no client can read.
func (l *trial) compare(t try) {
	l.report.Steps++
	wrote := resourceVersion(t.after) != resourceVersion(t.live)
	switch {
	case t.result.Changed() && wrote:
		l.report.Counts["applied: "+string(t.result.Reason)]++
	case !t.result.Changed() && !wrote:
		l.report.Counts["unchanged"]++
	case t.result.Changed():
		l.report.fault(l.sub.kind+": needless apply, "+string(t.result.Reason), t.example(fmt.Sprint("added ", t.result.Added, " removed ", t.result.Removed)))
	case ours(t.in, t.live, t.after):
		l.report.fault(l.sub.kind+": missed", t.example(""))
	default:
		l.report.Counts["written, yet no field of ours"]++
	}
	l.comparePrediction(t)
	l.remains(t)
}

// comparePrediction compares the predicted result of an apply with the result, where
// webhooks did not change it.
func (l *trial) comparePrediction(t try) {
	predicted, err := t.in.After(t.live, t.result)
	if err != nil {
		l.report.fault(l.sub.kind+": the outcome is not predicted", t.example(err))
		return
	}
	same := value.Equals(value.NewValueInterface(predicted["spec"]), value.NewValueInterface(t.after["spec"]))
	switch {
	case same:
		l.report.Counts["outcome predicted"]++
	case l.webhooks || t.in.Against(t.after, nil).Changed():
		l.report.Counts["outcome not predicted: not stored as sent"]++
	default:
		t.wanted = predicted
		l.report.fault(l.sub.kind+": another outcome", t.example("wanted is the prediction"))
	}
}

// ours reports whether fields of the intent, or their owners, differ.
func ours(in *ssadiff.Intent, before, after map[string]any) bool {
	return in.Against(before, nil).Reason != in.Against(after, nil).Reason || !reflect.DeepEqual(before["spec"], after["spec"])
}

// remains checks the prediction for fields that are no longer in the intent.
func (l *trial) remains(t try) {
	if t.result.Removed == nil || t.result.Removed.Empty() {
		return
	}
	remains, err := t.in.Remains(t.live, t.result)
	if err != nil {
		l.report.fault(l.sub.kind+": what remains is not known", t.example(err))
		return
	}
	for _, r := range remains {
		if r.By == "" || !t.result.Removed.Has(r.Path) {
			l.report.fault(l.sub.kind+": the rest was not released", t.example(r))
		}
	}
	l.report.Counts[fmt.Sprintf("released, and all removed: %t", len(remains) == 0)]++
}

// settle applies again what does not look applied, as a writer does, and keeps the
// answer: after that it must look applied.
func (l *trial) settle(ctx context.Context, t try, sent map[string]any) error {
	l.settled = nil
	if t.in.Against(t.after, nil).Changed() {
		l.report.Counts["applied again"]++
		sent["metadata"].(map[string]any)["resourceVersion"] = resourceVersion(t.after)
		answer, code, err := l.apply(ctx, t.version, sent)
		if err != nil {
			return err
		}
		if code <= http.StatusCreated {
			t.after, l.seen = answer, answer
		}
		l.settled = t.in.Settle(t.after)
	}
	if v := t.in.Against(t.after, l.settled); v.Changed() {
		l.report.fault(l.sub.kind+": applied, and does not look so", t.example(fmt.Sprint(v.Reason, " added ", v.Added, " removed ", v.Removed)))
	}
	return nil
}

func resourceVersion(object map[string]any) string {
	meta, _ := object["metadata"].(map[string]any)
	version, _ := meta["resourceVersion"].(string)
	return version
}
