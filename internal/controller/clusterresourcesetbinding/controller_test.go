// SPDX-License-Identifier: Apache-2.0

package clusterresourcesetbinding

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/pure/resourceset"
)

// world is a Cluster c with its binding and a workload cluster that is only
// counted.
type world struct {
	*testing.T
	reconciler Reconciler
	mgmt       client.WithWatch
	clock      *testclock.FakeClock
	events     *events.FakeRecorder

	connected bool
	writes    int                     // to the management cluster
	reads     int                     // of Secrets and ConfigMaps
	awaited   int                     // how often kinds were
	sent      []string                // to the workload cluster
	refuse    func(name string) error // of what is sent; nil accepts
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), addonsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, clock: testclock.NewFakeClock(time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)), events: events.NewFakeRecorder(20), connected: true, refuse: func(string) error { return nil }}
	cluster := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "c", Labels: map[string]string{"a": "b"}}}
	binding := &addonsv1.ClusterResourceSetBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c", UID: "b"}}
	binding.Spec.ClusterName = "c"
	w.mgmt = fake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, cluster, binding)...).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			switch obj.(type) {
			case *corev1.Secret, *corev1.ConfigMap:
				w.reads++
			}
			return c.Get(ctx, key, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			w.writes++
			return c.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	w.reconciler = Reconciler{Deps: deps.Deps{Mgmt: w.mgmt, Workload: clusters{w: w, client: w.workload(scheme)}, Clock: w.clock, Recorder: w.events}, Payloads: resourcesets.New(w.mgmt, nil)}
	return w
}

// workload is a client of a workload cluster that serves Kubernetes' kinds.
func (w *world) workload(scheme *runtime.Scheme) client.Client {
	send := func(verb, kind, name string) error {
		w.sent = append(w.sent, verb+" "+kind+" "+name)
		return w.refuse(name)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{corev1.SchemeGroupVersion})
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, _ ...client.CreateOption) error {
			name := obj.GetName()
			if name == "" {
				name = obj.GetGenerateName() + "*"
			}
			return send("create", obj.GetObjectKind().GroupVersionKind().Kind, name)
		},
		Apply: func(_ context.Context, _ client.WithWatch, obj runtime.ApplyConfiguration, _ ...client.ApplyOption) error {
			u := obj.(interface {
				GetKind() string
				GetName() string
			})
			return send("apply", u.GetKind(), u.GetName())
		},
	}).Build()
}

// clusters is one workload cluster.
type clusters struct {
	workload.Clusters
	w      *world
	client client.Client
}

func (c clusters) AwaitKinds(client.ObjectKey) { c.w.awaited++ }

func (c clusters) Client(context.Context, client.ObjectKey) (client.Client, error) {
	if !c.w.connected {
		return nil, fmt.Errorf("cluster c: %w", workload.ErrNotConnected)
	}
	return c.client, nil
}

// reconcile calls the reconciler once, and returns the requests sent, the delay of
// the next call, and the binding.
func (w *world) reconcile() (sent []string, after time.Duration, b *addonsv1.ClusterResourceSetBinding) {
	w.Helper()
	w.sent, b = nil, &addonsv1.ClusterResourceSetBinding{}
	w.get(b)
	res, err := w.reconciler.Reconcile(w.Context(), b)
	if err != nil {
		w.Fatal(err)
	}
	if err := w.mgmt.Get(w.Context(), client.ObjectKeyFromObject(b), b); client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	return w.sent, res.RequeueAfter, b
}

func (w *world) get(b client.Object) {
	w.Helper()
	if err := w.mgmt.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: "c"}, b); err != nil {
		w.Fatal(err)
	}
}

func (w *world) change(obj client.Object) {
	w.Helper()
	if err := w.mgmt.Update(w.Context(), obj); err != nil {
		w.Fatal(err)
	}
}

// told are the events so far.
func (w *world) told() (all string) {
	for len(w.events.Events) > 0 {
		all += <-w.events.Events + "\n"
	}
	return all
}

func set(name string, strategy addonsv1.ClusterResourceSetStrategy, refs ...addonsv1.ResourceRef) *addonsv1.ClusterResourceSet {
	s := &addonsv1.ClusterResourceSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "set"}}
	s.Spec = addonsv1.ClusterResourceSetSpec{ClusterSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}, Resources: refs, Strategy: strategy}
	return s
}

func ref(name string) addonsv1.ResourceRef {
	return addonsv1.ResourceRef{Kind: "ConfigMap", Name: name}
}

// config holds a ConfigMap of each of the names.
func config(name string, objects ...string) *corev1.ConfigMap {
	c := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "config"}, Data: map[string]string{}}
	for _, o := range objects {
		c.Data[o] = "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + o + "}}"
	}
	return c
}

func sends(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		t.Errorf("%s: sent %q, want %q", what, got, want)
	}
}

func TestAnObjectIsSentOnceForEachContentOfItsResource(t *testing.T) {
	t.Parallel()
	payload := config("x", "one", "two")
	w := newWorld(t, set("keep", addonsv1.ClusterResourceSetStrategyReconcile, ref("x")), set("once", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x")), payload)
	sent, after, b := w.reconcile()
	sends(t, "at first", sent, "apply ConfigMap one", "apply ConfigMap two", "create ConfigMap one", "create ConfigMap two")
	if after != 0 || len(b.Spec.Bindings) != 2 || !resourceset.Applied(b.Spec.Bindings[0].Resources[0]) || b.Spec.Bindings[0].Resources[0].Hash == "" {
		t.Errorf("again in %s, bindings %+v", after, b.Spec.Bindings)
	}
	if len(b.OwnerReferences) != 2 {
		t.Errorf("owners %+v", b.OwnerReferences)
	}
	version := b.ResourceVersion
	sent, after, b = w.reconcile()
	sends(t, "in steady state", sent)
	if after != 0 || b.ResourceVersion != version {
		t.Errorf("in steady state: again in %s, version %s, was %s", after, b.ResourceVersion, version)
	}
	payload.Data["three"] = strings.ReplaceAll(payload.Data["one"], "one", "three")
	w.change(payload)
	sent, _, _ = w.reconcile()
	sends(t, "after a change", sent, "apply ConfigMap one", "apply ConfigMap three", "apply ConfigMap two")
}

func TestAHundredAddonsTakeOneWriteOfTheBinding(t *testing.T) {
	t.Parallel()
	var objects []client.Object
	for i := range resourceset.MaxSets {
		name := fmt.Sprintf("s%02d", i)
		objects = append(objects, set(name, addonsv1.ClusterResourceSetStrategyReconcile, ref(name)), config(name, name))
	}
	w := newWorld(t, objects...)
	sent, after, b := w.reconcile()
	if len(sent) != resourceset.MaxSets || w.writes != 1 || after != 0 || len(b.Spec.Bindings) != resourceset.MaxSets {
		t.Errorf("sent %d objects, wrote %d times, again in %s, %d entries", len(sent), w.writes, after, len(b.Spec.Bindings))
	}
	if sent, _, _ := w.reconcile(); len(sent) != 0 || w.writes != 1 {
		t.Errorf("in steady state: sent %d objects, wrote %d times", len(sent), w.writes-1)
	}
}

func TestWhatIsRefusedIsTriedAgainAloneAndEverLater(t *testing.T) {
	t.Parallel()
	w := newWorld(t, set("s", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x")), config("x", "bad", "good"))
	var bad error = apierrors.NewForbidden(schema.GroupResource{Resource: "configmaps"}, "bad", errors.New("quota"))
	w.refuse = func(name string) error {
		if name == "bad" {
			return bad
		}
		return nil
	}
	sent, after, b := w.reconcile()
	sends(t, "at first", sent, "create ConfigMap bad", "create ConfigMap good")
	want := resourceset.Failure{Set: "s", ResourceRef: ref("x"), Message: `ConfigMap bad: the API server refuses it: Forbidden: configmaps "bad" is forbidden: quota`}
	if got := resourceset.Failures(b); len(got) != 1 || got[0] != want {
		t.Errorf("failures %+v, want %+v", got, want)
	}
	version, waited := b.ResourceVersion, time.Duration(0)
	for range 12 {
		w.clock.Step(after - time.Millisecond)
		sent, rest, _ := w.reconcile()
		sends(t, "too early", sent)
		if rest != time.Millisecond {
			t.Errorf("reconciled %s too early: again in %s", time.Millisecond, rest)
		}
		w.clock.Step(time.Millisecond)
		sent, after, b = w.reconcile()
		sends(t, "when it is due", sent, "create ConfigMap bad")
		if after < waited || b.ResourceVersion != version {
			t.Errorf("again in %s after %s, version %s, was %s", after, waited, b.ResourceVersion, version)
		}
		waited = after
	}
	if waited != lastRetry {
		t.Errorf("again in %s, want %s in the end", waited, lastRetry)
	}
	w.clock.Step(after)
	bad = nil
	sent, after, b = w.reconcile()
	sends(t, "when it is let in", sent, "create ConfigMap bad")
	if after != 0 || len(b.Annotations) != 0 || !resourceset.Applied(b.Spec.Bindings[0].Resources[0]) {
		t.Errorf("again in %s, binding %+v", after, b)
	}
	if got := w.told(); strings.Count(got, "\n") != 2 {
		t.Errorf("events %q, want one of the refusal and one of the end", got)
	}
}

// TestAnObjectWithAGeneratedNameIsCreatedOnce: by ApplyOnce alone, as upstream; what
// is applied again has to be found again.
func TestAnObjectWithAGeneratedNameIsCreatedOnce(t *testing.T) {
	t.Parallel()
	payload := config("x", "one")
	payload.Data["two"] = "{apiVersion: v1, kind: ConfigMap, metadata: {generateName: two-}}"
	w := newWorld(t, set("keep", addonsv1.ClusterResourceSetStrategyReconcile, ref("x")), set("once", addonsv1.ClusterResourceSetStrategyApplyOnce, ref("x")), payload)
	sent, _, b := w.reconcile()
	sends(t, "at first", sent, "create ConfigMap one", "create ConfigMap two-*")
	want := []resourceset.Failure{{Set: "keep", ResourceRef: ref("x"), Message: "key two: ConfigMap two-* has no metadata.name, by which strategy Reconcile applies it again: set one, or use ApplyOnce"}}
	if diff := cmp.Diff(want, resourceset.Failures(b)); diff != "" || !resourceset.Applied(b.Spec.Bindings[1].Resources[0]) {
		t.Errorf("bindings %+v, failures (-want +got):\n%s", b.Spec.Bindings, diff)
	}
	sent, after, _ := w.reconcile()
	if sends(t, "in steady state", sent); after != 0 {
		t.Errorf("in steady state: again in %s", after)
	}
}
