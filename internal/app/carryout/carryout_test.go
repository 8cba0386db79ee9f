// SPDX-License-Identifier: Apache-2.0

package carryout

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

const deployment = "MachineDeployment md"

// saved is a plan that replaces Machine old and keeps Machine stays of each of some
// Clusters, by one write of a MachineDeployment for each.
func saved(t *testing.T, clusters ...string) *planv1.SavedPlan {
	t.Helper()
	s := &planv1.SavedPlan{Checksum: "0123456789abcdef", Manager: "kubectl"}
	for _, name := range clusters {
		data, err := json.Marshal(map[string]any{
			"apiVersion": clusterv1.GroupVersion().String(), "kind": "MachineDeployment",
			"metadata": map[string]any{"namespace": "ns", "name": name}, "spec": map[string]any{"paused": true},
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Writes = append(s.Writes, planv1.SavedWrite{Patch: types.MergePatchType, Object: runtime.RawExtension{Raw: data}})
		s.Plan.Clusters = append(s.Plan.Clusters, planv1.Cluster{
			Namespace: "ns", Name: name,
			Machines: []planv1.Machine{
				{Name: name + "-old", UID: types.UID(name + "-old"), Owner: deployment, Action: planv1.Replaced, Wave: 1},
				{Name: name + "-stays", UID: types.UID(name + "-stays"), Owner: deployment, Action: planv1.Kept},
			},
			Groups: []planv1.Group{{Owner: deployment, Before: 2, Then: 2}},
		})
	}
	return s
}

// world is a management cluster with Clusters as in saved, whose guards hold.
type world struct {
	*testing.T
	client.WithWatch
	guards bool // hold

	mu       sync.Mutex
	now      time.Time
	reported []string
}

func newWorld(t *testing.T, clusters ...string) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(planv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	w := &world{T: t, guards: true, now: time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)}
	w.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&planv1.PlanGuard{}).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			var o client.DeleteOptions
			if len(o.ApplyOptions(opts).DryRun) == 0 || !w.guards {
				return c.Delete(ctx, obj, opts...)
			}
			return apierrors.NewForbidden(schema.GroupResource{Resource: "machines"}, obj.GetName(), errors.New("plan 0123456789ab does not have that"))
		},
	}).Build()
	for _, name := range clusters {
		w.create(&clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name)}})
		w.create(&clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}})
		w.create(w.machine(name, name+"-old"))
		w.create(w.machine(name, name+"-stays"))
	}
	return w
}

func (w *world) machine(cluster, name string) *clusterv1.Machine {
	return &clusterv1.Machine{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: types.UID(name), Labels: map[string]string{clusterv1.ClusterNameLabel: cluster, clusterv1.MachineDeploymentNameLabel: "md"}},
		Spec:       clusterv1.MachineSpec{ClusterName: cluster},
	}
}

func (w *world) create(obj client.Object) {
	w.Helper()
	if err := w.Create(w.Context(), obj); err != nil {
		w.Fatal(err)
	}
}

func (w *world) progress(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.reported = append(w.reported, text)
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

// whenSent calls f when the change has been sent, once for each guard.
func (w *world) whenSent(f func(g *planv1.PlanGuard)) client.WithWatch {
	return interceptor.NewClient(w.WithWatch, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			err := c.SubResource(sub).Patch(ctx, obj, p, opts...)
			if g, is := obj.(*planv1.PlanGuard); is && err == nil && !g.Status.Sent.IsZero() {
				f(g.DeepCopy())
			}
			return err
		},
	})
}

// rollOut does what controllers do with the plan.
func (w *world) rollOut(cluster string) {
	w.create(w.machine(cluster, cluster+"-new"))
	if err := w.Delete(w.Context(), w.machine(cluster, cluster+"-old")); err != nil {
		w.Error(err)
	}
}

// ends does what the Cluster controller does with a guard at the end of its plan.
func (w *world) ends(g *planv1.PlanGuard) {
	if err := end(w.Context(), w.WithWatch, g); err != nil {
		w.Error(err)
	}
}

func (w *world) guardsLeft() (left []string) {
	w.Helper()
	var all planv1.PlanGuardList
	if err := w.List(w.Context(), &all); err != nil {
		w.Fatal(err)
	}
	for _, g := range all.Items {
		if g.Spec.Plan != "" {
			left = append(left, g.Name)
		}
	}
	return left
}

func (w *world) run(c client.WithWatch, s *planv1.SavedPlan) ([]Outcome, error) {
	return Run(w.Context(), Options{Mgmt: c, Now: w.clock, Progress: w.progress}, s)
}

func TestPlanIsCarriedOutUnderGuards(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one", "two")
	c := w.whenSent(func(g *planv1.PlanGuard) {
		if g.Spec.Cluster.Name != g.Name || g.OwnerReferences[0].UID != types.UID(g.Name) {
			t.Errorf("guard %+v", g)
		}
		w.rollOut(g.Name)
		w.pass(time.Minute)
		w.ends(g)
	})
	got, err := w.run(c, saved(t, "one", "two"))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range got {
		if o.End != CarriedOut || len(o.Differences) > 0 || len(o.Held) > 0 {
			t.Errorf("%+v", o)
		}
	}
	md := &clusterv1.MachineDeployment{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "two"}, md); err != nil || md.Spec.Paused == nil || !*md.Spec.Paused {
		t.Errorf("the change was not sent: %+v, %v", md.Spec, err)
	}
	if left := w.guardsLeft(); len(got) != 2 || len(left) > 0 {
		t.Errorf("%d outcomes, guards %v", len(got), left)
	}
}

func TestEndsOfAPlanAreReported(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		sent       func(w *world, g *planv1.PlanGuard)
		end        string
		difference string
		plan       func(c *planv1.Cluster)
	}{
		"expired": {func(w *world, g *planv1.PlanGuard) { w.pass(2 * time.Hour); w.ends(g) }, Expired, "Machine one-old: gone in the plan, and kept", nil},
		"released": {func(w *world, g *planv1.PlanGuard) {
			if err := w.Delete(w.Context(), g); err != nil {
				w.Error(err)
			}
		}, Released, "Machine one-old: gone in the plan, and kept", nil},
		"held back": {func(w *world, g *planv1.PlanGuard) {
			w.rollOut("one")
			w.pass(time.Minute)
			g.Status.Held = []planv1.Held{{Kind: "Machine", Name: "one-stays", What: "deleted", User: "eve"}}
			if err := w.Status().Update(w.Context(), g); err != nil {
				w.Error(err)
			}
		}, HeldBack, "", nil},
		"another Machine": {func(w *world, g *planv1.PlanGuard) {
			w.rollOut("one")
			w.create(w.machine("one", "one-more"))
			w.pass(time.Minute)
			w.ends(g)
		}, Released, "MachineDeployment md: 1 new Machines in the plan, and 2", nil},
		"blocked": {func(w *world, g *planv1.PlanGuard) {
			m := &clusterv1.Machine{}
			if err := w.Get(w.Context(), client.ObjectKey{Namespace: "ns", Name: "one-old"}, m); err != nil {
				w.Error(err)
			}
			m.Status.Conditions = []metav1.Condition{{Type: clusterv1.MachineUpToDateCondition, Status: metav1.ConditionFalse}}
			if err := w.Update(w.Context(), m); err != nil {
				w.Error(err)
			}
			w.pass(time.Minute)
			w.ends(g)
		}, EndsBlocked, "", func(c *planv1.Cluster) {
			c.Machines[0].Action, c.Machines[0].Wave = planv1.Kept, 0
			c.Groups[0].OutOfDate = 1
			c.Blocked = []planv1.Blocked{{Kind: "MachineSet", Name: "md-1", Type: "ScalingUp"}}
		}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "one")
			s := saved(t, "one")
			if tc.plan != nil {
				tc.plan(&s.Plan.Clusters[0])
			}
			got, err := w.run(w.whenSent(func(g *planv1.PlanGuard) { tc.sent(w, g) }), s)
			if err != nil {
				t.Fatal(err)
			}
			first := ""
			if len(got[0].Differences) > 0 {
				first = got[0].Differences[0]
			}
			if got[0].End != tc.end || first != tc.difference {
				t.Errorf("%q, %q, want %q, %q", got[0].End, first, tc.end, tc.difference)
			}
		})
	}
}

func TestInterruptLeavesTheGuard(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Run(ctx, Options{Mgmt: w.whenSent(func(*planv1.PlanGuard) { cancel() }), Now: w.clock, Progress: w.progress}, saved(t, "one"))
	if err == nil || !strings.Contains(err.Error(), "its guard holds until 2026-08-01T14:00:00Z") {
		t.Errorf("error %v", err)
	}
	if left := w.guardsLeft(); len(left) != 1 {
		t.Errorf("guards %v", left)
	}
}

// TestNothingIsSentWithoutGuards holds that a plan that cannot be guarded, or whose first
// write is refused, leaves neither a change nor a guard.
func TestNothingIsSentWithoutGuards(t *testing.T) {
	t.Parallel()
	other := func(w *world) {
		w.create(&planv1.PlanGuard{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "two"}, Spec: planv1.PlanGuardSpec{Plan: "p2", Deadline: metav1.NewTime(w.now), Cluster: &planv1.Cluster{}}})
	}
	fails := func(kind string, refused int, failure error) func(w *world) client.WithWatch {
		return func(w *world) client.WithWatch {
			n := 0
			return interceptor.NewClient(w.WithWatch, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
					if kind == "create" {
						return failure
					}
					return c.Create(ctx, obj, opts...)
				},
				Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
					if obj.GetObjectKind().GroupVersionKind().Kind == "MachineDeployment" {
						if n++; n > refused && kind == "patch" {
							return failure
						}
					}
					return c.Patch(ctx, obj, p, opts...)
				},
			})
		}
	}
	same := func(w *world) client.WithWatch { return w.WithWatch }
	tests := map[string]struct {
		before func(*world)
		client func(*world) client.WithWatch
		plan   func(*planv1.SavedPlan)
		want   string
		left   string
	}{
		"a guard that does not hold": {func(w *world) { w.guards = false }, same, nil, "does not hold", "[]"},
		"two plans":                  {other, same, nil, "plan p2 of Cluster ns/two is being carried out", "[two]"},
		"no such kind":               {nil, fails("create", 0, &meta.NoKindMatchError{}), nil, "has no PlanGuards", "[]"},
		"a refused write":            {nil, fails("patch", 0, errors.New("no")), nil, "nothing was changed: MachineDeployment ns/one: no", "[]"},
		"not predicted": {nil, same, func(s *planv1.SavedPlan) {
			s.Plan.Clusters[1].NotPredicted = &planv1.NotPredicted{Reason: planv1.NotAtRest, Message: "It changes."}
		}, "Cluster ns/two was not predicted (NotAtRest): It changes.", "[]"},
		"a pool that is not predicted": {nil, same, func(s *planv1.SavedPlan) {
			s.Plan.Clusters[1].Pools = []planv1.Pool{{Name: "p"}, {Name: "q", NotPredicted: "its provider decides."}}
		}, "MachinePool q of Cluster ns/two was not predicted: its provider decides.", "[]"},
		"without an end": {nil, same, func(s *planv1.SavedPlan) { s.Plan.Clusters[0].Unending = &planv1.Unending{} }, "the change of Cluster ns/one never ends", "[]"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "one", "two")
			if tc.before != nil {
				tc.before(w)
			}
			s := saved(t, "one", "two")
			if tc.plan != nil {
				tc.plan(s)
			}
			_, err := w.run(tc.client(w), s)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
			if left := fmt.Sprint(w.guardsLeft()); left != tc.left {
				t.Errorf("guards %s, want %s", left, tc.left)
			}
		})
	}
}

// TestChangeThatIsWrittenInPartNamesItsObjects has a server that refuses the second of
// three objects. The guards stay until the plan is released.
func TestChangeThatIsWrittenInPartNamesItsObjects(t *testing.T) {
	t.Parallel()
	const names = "MachineDeployment ns/two was refused: no; written: MachineDeployment ns/one; not written: MachineDeployment ns/two, MachineDeployment ns/three"
	for _, unguarded := range []bool{false, true} {
		w := newWorld(t, "one", "two", "three")
		refusing := interceptor.NewClient(w.WithWatch, interceptor.Funcs{
			Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, p client.Patch, opts ...client.PatchOption) error {
				if obj.GetName() == "two" && obj.GetObjectKind().GroupVersionKind().Kind == "MachineDeployment" {
					return errors.New("no")
				}
				return c.Patch(ctx, obj, p, opts...)
			},
		})
		s := saved(t, "one", "two", "three")
		want, left := names, "[]"
		if !unguarded {
			want, left = names+"; the guard stays until 2026-08-01T14:00:00Z: repair that, end the plan with --release, and make it again", "[one three two]"
		}
		_, err := Run(t.Context(), Options{Mgmt: refusing, Now: w.clock, Progress: w.progress, Unguarded: unguarded}, s)
		if err == nil || err.Error() != want || fmt.Sprint(w.guardsLeft()) != left || fmt.Sprint(w.reported) != "[MachineDeployment ns/one is written]" {
			t.Errorf("unguarded %t: error %v, guards %v, reported %q", unguarded, err, w.guardsLeft(), w.reported)
		}
		if unguarded {
			continue
		}
		if _, err := w.run(w, s); err == nil || !strings.Contains(err.Error(), "apply --release cluster/one -n ns") {
			t.Errorf("again: %v", err)
		}
		for _, name := range []string{"one", "two", "three"} {
			if _, err := Release(t.Context(), w, client.ObjectKey{Namespace: "ns", Name: name}); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestGuardOfAClusterThatRequiresPlansGetsThePlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one")
	cluster := &clusterv1.Cluster{}
	if err := w.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "one"}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Annotations = map[string]string{planv1.RequirePlanAnnotation: "true"}
	if err := w.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	standing := &planv1.PlanGuard{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}, Spec: planv1.PlanGuardSpec{Required: true}}
	w.create(standing)
	standing.Status.Held = []planv1.Held{{Kind: "Machine", Name: "one-old", What: "deleted", User: "eve"}}
	standing.Status.Sent = metav1.NewTime(w.now.Add(-time.Hour)) // of an earlier plan
	if err := w.Status().Update(t.Context(), standing); err != nil {
		t.Fatal(err)
	}
	guarding := interceptor.NewClient(w.WithWatch, interceptor.Funcs{
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			stored := &planv1.PlanGuard{}
			if err := c.Get(ctx, client.ObjectKeyFromObject(obj), stored); err != nil || !stored.Status.Sent.IsZero() {
				t.Errorf("the guard gets a plan that was sent at %s, error %v", stored.Status.Sent, err)
			}
			return c.Update(ctx, obj, opts...)
		},
	})
	w.WithWatch = guarding
	got, err := w.run(w.whenSent(func(g *planv1.PlanGuard) {
		if !g.Spec.Required || g.Spec.Plan != "0123456789ab" || len(g.Status.Held) > 0 {
			t.Errorf("guard %+v %+v", g.Spec, g.Status)
		}
		w.rollOut("one")
		w.pass(time.Minute)
		w.ends(g)
	}), saved(t, "one"))
	if err != nil || got[0].End != CarriedOut {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestReleaseEndsAPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one", "two")
	key := client.ObjectKey{Namespace: "ns", Name: "one"}
	if _, err := Release(t.Context(), w, key); err == nil || !strings.Contains(err.Error(), "no plan of Cluster ns/one is being carried out") {
		t.Errorf("without a guard: %v", err)
	}
	w.create(&planv1.PlanGuard{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "two"}, Spec: planv1.PlanGuardSpec{Required: true}})
	if _, err := Release(t.Context(), w, client.ObjectKey{Namespace: "ns", Name: "two"}); err == nil || !strings.Contains(err.Error(), "kubectl annotate cluster two -n ns capstan.dev/require-plan-") {
		t.Errorf("without a plan: %v", err)
	}
	w.create(&planv1.PlanGuard{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "one"}, Spec: planv1.PlanGuardSpec{Plan: "p1"}})
	if g, err := Release(t.Context(), w, key); err != nil || g.Spec.Plan != "p1" || len(w.guardsLeft()) > 0 {
		t.Errorf("%v, guards %v", err, w.guardsLeft())
	}
}

func TestGuardsAreSettledWhenTheLastIs(t *testing.T) {
	t.Parallel()
	f := &follower{clusters: map[client.ObjectKey]*followed{}}
	sent := time.Date(2026, 8, 1, 13, 0, 0, 0, time.UTC)
	for i := range 8 {
		g := &planv1.PlanGuard{Status: planv1.PlanGuardStatus{Sent: metav1.NewTime(sent.Add(time.Duration(i) * time.Second))}}
		f.clusters[client.ObjectKey{Name: fmt.Sprint(i)}] = &followed{guard: g}
	}
	for range 8 { // the order of a map is random
		if got := f.settled(); !got.Equal(sent.Add(37 * time.Second)) {
			t.Errorf("settled at %s", got)
		}
	}
}

func TestUnguardedChangeIsSentAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "one")
	got, err := Run(t.Context(), Options{Mgmt: w, Now: w.clock, Progress: w.progress, Unguarded: true}, saved(t, "one"))
	if err != nil || len(got) > 0 || len(w.guardsLeft()) > 0 || len(w.reported) != 1 {
		t.Errorf("%+v, %v, %v", got, err, w.reported)
	}
}
