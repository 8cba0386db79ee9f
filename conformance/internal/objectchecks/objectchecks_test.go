// SPDX-License-Identifier: Apache-2.0

package objectchecks

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
	"github.com/capstan-dev/capstan/contract"
)

var (
	hosts    = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Host"}
	clusters = clusterv1.GroupVersion().WithKind("Cluster")
)

const finalizer = "example.com/host"

// stage is a World in memory, in virtual time, in which a function acts as the provider
// of Hosts.
type stage struct {
	*Object
	t   *testing.T
	ctx context.Context
}

// provider changes a version of an object; it is written if it differs.
type provider func(obj *unstructured.Unstructured)

// onStage runs a test with a Cluster, and an example of a Host that is not created.
func onStage(t *testing.T, react provider, use func(s *stage)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		sch := runtime.NewScheme()
		if err := corev1.AddToScheme(sch); err != nil {
			t.Fatal(err)
		}
		host := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"size": int64(1)}}}
		host.SetGroupVersionKind(hosts)
		host.SetLabels(map[string]string{testnamespace.Kept: "x"})
		mgmt := fake.NewClientBuilder().WithScheme(sch).WithStatusSubresource(host).Build()
		limits := testnamespace.Limits{Timeout: time.Minute, Soon: 5 * time.Second, Quiet: 3 * time.Second}
		w, err := testnamespace.New(t.Context(), mgmt, limits, []schema.GroupVersionKind{hosts})
		if err != nil {
			t.Fatal(err)
		}
		s := &stage{t: t, ctx: t.Context(), Object: &Object{
			World: w, Example: host, Main: testnamespace.Thing{GroupKind: hosts.GroupKind(), Name: "main"},
			Cluster: testnamespace.Thing{GroupKind: clusters.GroupKind(), Name: "prod"}, Contract: contract.V1Beta2,
			Field: func() (contract.Field[bool], error) {
				c, err := contract.InfraMachineFor(contract.V1Beta2)
				return c.Provisioned, err
			},
		}}
		w.Labels = map[string]string{testnamespace.Kept: "x"}
		s.Own = func(ctx context.Context) error { return w.Change(ctx, s.Main, setOwner) }
		s.Disown = func(ctx context.Context) error { return w.Delete(ctx, s.Main) }
		cluster := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"topology": map[string]any{"version": "v1"}}}}
		cluster.SetGroupVersionKind(clusters)
		if _, err := w.Make(t.Context(), cluster, "prod"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		if react != nil {
			s.serve(ctx, &running, react)
		}
		use(s)
		cancel()
		running.Wait()
		for _, thing := range []testnamespace.Thing{s.Main} { // what a provider that has ended does not release
			if w.Latest(thing) != nil {
				s.change(func(obj *unstructured.Unstructured) { obj.SetFinalizers(nil) })
			}
		}
		if err := w.End(t.Context()); err != nil {
			t.Errorf("end: %v", err)
		}
	})
}

// setOwner sets the owner that Cluster API sets.
func setOwner(obj *unstructured.Unstructured) {
	refs := []any{map[string]any{"apiVersion": clusterv1.GroupVersion().String(), "kind": "Machine", "name": "m", "uid": "u"}}
	_ = unstructured.SetNestedSlice(obj.Object, refs, "metadata", "ownerReferences")
}

// serve is the loop of a provider, which follows Hosts and Clusters.
func (s *stage) serve(ctx context.Context, running *sync.WaitGroup, react provider) {
	events := make([]watch.Interface, 2)
	for i, gvk := range []schema.GroupVersionKind{hosts, clusters} {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(gvk.GroupVersion().WithKind(gvk.Kind + "List"))
		var err error
		if events[i], err = s.World.Client.Watch(ctx, list, client.InNamespace(s.World.Namespace)); err != nil {
			s.t.Fatal(err)
		}
	}
	running.Go(func() {
		defer events[0].Stop()
		defer events[1].Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case e := <-events[0].ResultChan():
				if obj, ok := e.Object.(*unstructured.Unstructured); ok && e.Type != watch.Deleted {
					s.write(ctx, obj, react)
				}
			case <-events[1].ResultChan():
				if obj := s.World.Latest(s.Main); obj != nil {
					s.write(ctx, obj, react)
				}
			}
		}
	})
}

// write writes an object as changed by a provider, its finalizers first.
func (s *stage) write(ctx context.Context, obj *unstructured.Unstructured, change provider) {
	now, before := obj.DeepCopy(), obj.DeepCopy()
	change(now)
	status := now.Object["status"]
	before.Object["status"], now.Object["status"] = nil, nil
	if !reflect.DeepEqual(now, before) {
		_ = s.World.Client.Patch(ctx, now, client.MergeFrom(before)) // it may be deleted
	}
	if !reflect.DeepEqual(status, obj.Object["status"]) {
		now = obj.DeepCopy()
		now.Object["status"] = status
		_ = s.World.Client.Status().Patch(ctx, now, client.MergeFrom(obj))
	}
}

// change is a write of another client.
func (s *stage) change(change func(*unstructured.Unstructured)) {
	s.t.Helper()
	if err := s.World.Change(s.ctx, s.Main, change); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stage) status(fields map[string]any) {
	s.t.Helper()
	if err := s.World.ChangeStatus(s.ctx, s.Main, func(obj *unstructured.Unstructured) { obj.Object["status"] = fields }); err != nil {
		s.t.Fatal(err)
	}
}

// make creates the main object, as the first check does.
func (s *stage) make() {
	s.t.Helper()
	if _, err := s.World.Make(s.ctx, s.Example, s.Main.Name, func(obj *unstructured.Unstructured) {
		obj.SetFinalizers([]string{testnamespace.Kept})
		testnamespace.Annotate(obj, testnamespace.Kept, testnamespace.BySuite)
	}); err != nil {
		s.t.Fatal(err)
	}
}

// wants requires an outcome: "" is passed, "skipped: " with a part of the reason, or a part
// of the problem.
func (s *stage) wants(err error, want string) {
	s.t.Helper()
	r := conformance.Check{}.Evaluate(err, "")
	problem, skipped := strings.CutPrefix(want, "skipped: ")
	switch {
	case want == "" && r.Outcome != conformance.Passed, want != "" && !strings.Contains(r.Problem, problem),
		want != "" && skipped != (r.Outcome == conformance.Skipped):
		s.t.Errorf("%s: %s; want %q", r.Outcome, r.Problem, want)
	}
}

func provisioned(yes bool) map[string]any {
	return map[string]any{"initialization": map[string]any{"provisioned": yes}}
}

func isPaused(obj *unstructured.Unstructured) bool {
	_, paused := obj.GetAnnotations()[clusterv1.PausedAnnotation]
	return paused
}

func isOwned(obj *unstructured.Unstructured) bool { return len(obj.GetOwnerReferences()) > 0 }

// good is a provider that keeps the contract; the pause of the Cluster is seen by clusterPaused.
func good(clusterPaused func() bool) provider {
	return func(obj *unstructured.Unstructured) {
		switch {
		case isPaused(obj) || clusterPaused != nil && clusterPaused():
		case obj.GetDeletionTimestamp() != nil:
			obj.SetFinalizers(except(obj.GetFinalizers(), finalizer))
		case isOwned(obj):
			obj.SetFinalizers(append(except(obj.GetFinalizers(), finalizer), finalizer))
			obj.Object["status"] = provisioned(true)
		}
	}
}

func except(all []string, one string) (out []string) {
	for _, f := range all {
		if f != one {
			out = append(out, f)
		}
	}
	return out
}

func TestChecksFollowGoodProvider(t *testing.T) {
	t.Parallel()
	var s *stage
	onStage(t, good(func() bool {
		paused, _, _ := unstructured.NestedBool(s.World.Latest(s.Cluster).Object, "spec", "paused")
		return paused
	}), func(on *stage) {
		s = on
		s.World.Labels[clusterv1.WatchLabel] = "suite"
		for _, step := range []struct {
			name string
			run  func(context.Context) error
			want string
		}{
			{"LeftAlone", s.LeftAlone, ""}, {"PausedByAnnotation", s.PausedByAnnotation, ""},
			{"Unblock", s.Unblock, ""}, {"FinalizerFirst", s.FinalizerFirst, ""}, {"ConditionsWellFormed", s.ConditionsWellFormed, "skipped: has no conditions"},
			{"Resting", s.Resting, ""}, {"PausedByCluster", s.PausedByCluster, ""}, {"ResumeSaid", s.ResumeSaid, "skipped: never said"},
			{"NeverBack", s.NeverBack, ""}, {"OwnersKept", s.OwnersKept, ""}, {"KeptInPause", s.KeptInPause, ""},
			{"GoesAway", func(ctx context.Context) error {
				s.Disown = func(context.Context) error { return nil }
				return s.GoesAway(ctx)
			}, ""},
			{"OthersKept", s.OthersKept, ""},
		} {
			r := conformance.Check{}.Evaluate(step.run(s.ctx), "")
			if skip, is := strings.CutPrefix(step.want, "skipped: "); is && r.Outcome == conformance.Skipped && strings.Contains(r.Problem, skip) || step.want == "" && r.Outcome == conformance.Passed {
				continue
			}
			t.Errorf("%s %s: %s", step.name, r.Outcome, r.Problem)
		}
	})
}

// TestChecksNameMisbehavior has a provider that breaks one rule.
func TestChecksNameMisbehavior(t *testing.T) {
	t.Parallel()
	eager := func(obj *unstructured.Unstructured) { obj.Object["status"] = provisioned(true) }
	always := 0
	for name, tc := range map[string]struct {
		react provider
		run   func(s *stage) error
		want  string
	}{
		"it does not wait for an owner": {eager, func(s *stage) error { return s.LeftAlone(s.ctx) }, "Host main was changed: status is"},
		"it works while it is paused":   {eager, func(s *stage) error { s.make(); return s.PausedByAnnotation(s.ctx) }, "was changed: status is"},
		"it works without the watch label": {good(nil), func(s *stage) error {
			s.World.Labels[clusterv1.WatchLabel] = "suite"
			s.make()
			s.change(setOwner)
			return s.Filtered(s.ctx)
		}, "was changed: "},
		"it is never done": {func(*unstructured.Unstructured) {}, func(s *stage) error { s.make(); return s.Unblock(s.ctx) }, "after 1m0s: status.initialization.provisioned of Host main is not true; its status is null"},
		"it reports completion as a text": {func(obj *unstructured.Unstructured) {
			obj.Object["status"] = map[string]any{"initialization": map[string]any{"provisioned": "yes"}}
		}, func(s *stage) error { s.make(); return s.Unblock(s.ctx) }, "status.initialization.provisioned of Host main"},
		"it writes again and again": {func(obj *unstructured.Unstructured) {
			always++
			<-time.After(time.Second)
			obj.Object["status"] = map[string]any{"count": int64(always)}
		}, func(s *stage) error { s.make(); return s.Resting(s.ctx) }, "is written again and again"},
		"it restores a status in a pause of the Cluster": {eager, func(s *stage) error { s.make(); return s.PausedByCluster(s.ctx) }, "was changed: status is"},
		"it does not restore a status":                   {nil, func(s *stage) error { s.make(); return s.Restored(s.ctx) }, "is not true"},
		"it does not release the object":                 {nil, func(s *stage) error { s.make(); s.change(hold); return s.GoesAway(s.ctx) }, "is still there, with finalizers example.com/host"},
		"Cluster API does not delete it": {nil, func(s *stage) error {
			s.make()
			s.Disown = func(context.Context) error { return nil }
			return s.GoesAway(s.ctx)
		}, "was not deleted by Cluster API yet"},
		"it releases the object in a pause": {func(obj *unstructured.Unstructured) {
			if obj.GetDeletionTimestamp() != nil {
				obj.SetFinalizers(except(obj.GetFinalizers(), finalizer))
			}
		}, func(s *stage) error { s.make(); s.change(hold); return s.KeptInPause(s.ctx) }, "has lost the finalizer example.com/host"},
		"it has no finalizer":            {nil, func(s *stage) error { s.make(); return s.KeptInPause(s.ctx) }, "skipped: has no finalizer"},
		"it does not report a condition": {nil, func(s *stage) error { s.make(); return Reports("Ready")(s.Object, s.ctx) }, "after 5s: Host main has no condition Ready"},
		"it does not report a pause":     {nil, func(s *stage) error { s.make(); return s.PauseSaid(s.ctx) }, "the condition Paused of Host main is not True"},
		"it never ends a pause": {nil, func(s *stage) error {
			s.make()
			s.status(map[string]any{"conditions": []any{map[string]any{"type": "Paused", "status": "True"}}})
			return errors.Join(s.PauseSaid(s.ctx), s.ResumeSaid(s.ctx))
		}, "the condition Paused of Host main is not False"},
		"a Machine that it changes": {nil, func(s *stage) error {
			cluster := s.World.Latest(s.Cluster).DeepCopy()
			_ = unstructured.SetNestedField(cluster.Object, "v2", "spec", "topology", "version")
			if err := s.World.Client.Update(s.ctx, cluster); err != nil {
				return err
			}
			synctest.Wait()
			return s.OwnersKept(s.ctx)
		}, `Cluster prod was changed: spec.topology.version is "v2"`},
		"no owner is set": {nil, func(s *stage) error {
			s.make()
			s.Own = func(context.Context) error { return nil }
			err := s.PausedByAnnotation(s.ctx)
			if s.Fault == nil {
				return errors.New("the run continues")
			}
			return err
		}, "skipped: Host main has no owner: do the core controllers run"},
		"no watch filter":     {nil, func(s *stage) error { return s.Filtered(s.ctx) }, "skipped: no watchFilter"},
		"it is not there":     {nil, func(s *stage) error { _, err := s.Now(); return err }, "skipped: Host main is not there"},
		"it never got so far": {nil, func(s *stage) error { s.make(); return s.FinalizerFirst(s.ctx) }, "skipped: never got so far"},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, tc.react, func(s *stage) { s.wants(tc.run(s), tc.want) })
		})
	}
}

// hold sets the finalizer of the provider.
func hold(obj *unstructured.Unstructured) { obj.SetFinalizers(append(obj.GetFinalizers(), finalizer)) }

// TestChecksReadAllVersions has objects that are right in the end.
func TestChecksReadAllVersions(t *testing.T) {
	t.Parallel()
	badCondition := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "Maybe"}}}
	goodCondition := map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True"}}}
	for name, tc := range map[string]struct {
		play func(s *stage)
		run  func(*Object, context.Context) error
		want string
	}{
		"done with a finalizer":       {func(s *stage) { s.change(hold); s.status(provisioned(true)) }, (*Object).FinalizerFirst, ""},
		"done before the finalizer":   {func(s *stage) { s.status(provisioned(true)); s.change(hold) }, (*Object).FinalizerFirst, "had no finalizer when it was done"},
		"a malformed condition once":  {func(s *stage) { s.status(badCondition); s.status(goodCondition) }, (*Object).ConditionsWellFormed, `has status "Maybe"`},
		"well-formed conditions":      {func(s *stage) { s.status(goodCondition) }, (*Object).ConditionsWellFormed, ""},
		"conditions that are no list": {func(s *stage) { s.status(map[string]any{"conditions": "none"}) }, (*Object).ConditionsWellFormed, "is no list"},
		"a condition":                 {func(s *stage) { s.status(goodCondition) }, Reports("Ready"), ""},
		"always done":                 {func(s *stage) { s.status(provisioned(false)); s.status(provisioned(true)) }, (*Object).NeverBack, ""},
		"done, and no longer":         {func(s *stage) { s.status(provisioned(true)); s.status(provisioned(false)); s.status(provisioned(true)) }, (*Object).NeverBack, "was done, and is not in version"},
		"done, until the suite removed the status": {func(s *stage) {
			s.status(provisioned(true))
			all, _ := s.World.History(s.Main)
			s.mark = len(all)
			s.status(nil)
			s.status(provisioned(false))
		}, (*Object).NeverBack, ""},
		"an older contract": {func(s *stage) { s.Contract = contract.V1Beta1 }, (*Object).NeverBack, "skipped: v1beta1"},
		"by any contract": {func(s *stage) {
			s.Either = func(*unstructured.Unstructured) (bool, error) { return true, nil }
		}, func(o *Object, ctx context.Context) error { return o.AwaitDone(ctx) }, ""},
		"a field that is not of the contract": {func(s *stage) {
			s.Field = func() (f contract.Field[bool], err error) { return f, errors.New("no such contract") }
		}, func(o *Object, ctx context.Context) error { return o.AwaitDone(ctx) }, "no such contract"},
		"all is kept":         {func(s *stage) { s.change(setOwner); s.change(hold) }, (*Object).OthersKept, ""},
		"a finalizer is lost": {func(s *stage) { s.change(testnamespace.Release); s.change(hold) }, (*Object).OthersKept, "has lost the finalizer " + testnamespace.Kept},
		"a label is lost once": {func(s *stage) {
			s.change(func(obj *unstructured.Unstructured) { obj.SetLabels(nil) })
			s.change(func(obj *unstructured.Unstructured) { obj.SetLabels(map[string]string{testnamespace.Kept: "x"}) })
		}, (*Object).OthersKept, "has lost the annotation or the label"},
		"an annotation is lost": {func(s *stage) {
			s.change(func(obj *unstructured.Unstructured) { testnamespace.Annotate(obj, testnamespace.Kept, "") })
		}, (*Object).OthersKept, "has lost the annotation or the label"},
		"an owner is lost": {func(s *stage) {
			s.change(setOwner)
			s.change(func(obj *unstructured.Unstructured) { obj.SetOwnerReferences(nil) })
		}, (*Object).OthersKept, "has lost its owner"},
		"it is gone": {func(s *stage) {
			s.wants(s.World.Delete(s.ctx, s.Main), "")
			s.change(testnamespace.Release)
		}, func(o *Object, ctx context.Context) error { return o.AwaitGone(ctx, o.Main) }, ""},
		"the suite released it": {func(s *stage) { s.wants(s.GoesAway(s.ctx), "") }, (*Object).OthersKept, ""},
	} {
		t.Run(name, func(t *testing.T) {
			onStage(t, nil, func(s *stage) {
				s.make()
				tc.play(s)
				s.wants(tc.run(s.Object, s.ctx), tc.want)
			})
		})
	}
}

// TestBrokenKeepsTheCause of the end of a run.
func TestBrokenKeepsTheCause(t *testing.T) {
	t.Parallel()
	o, cause := &Object{}, errors.New("refused")
	err := o.Broken(fmt.Errorf("create: %w", cause))
	if r := (conformance.Check{}).Evaluate(err, ""); r.Outcome != conformance.Skipped || r.Problem != "create: refused" || !errors.Is(o.Fault, cause) {
		t.Errorf("%+v, fault %v", r, o.Fault)
	}
}
