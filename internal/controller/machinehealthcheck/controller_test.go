// SPDX-License-Identifier: Apache-2.0

package machinehealthcheck

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/builder"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/owner"
	"github.com/capstan-dev/capstan/internal/kit/writes"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

var now = time.Date(2026, 8, 1, 12, 0, 0, 0, time.UTC)

// world is a management cluster, and one workload cluster.
type world struct {
	t      *testing.T
	mgmt   client.Client
	nodes  client.Client
	health workload.Health
	clock  *testclock.FakePassiveClock
	r      *Reconciler
	events *events.FakeRecorder
	sent   []string // requests to write
	fail   map[string]error
}

// connection is the connection to the workload cluster of a world.
type connection struct {
	workload.Clusters
	w *world
}

func (c connection) Health(client.ObjectKey) workload.Health { return c.w.health }
func (c connection) Client(context.Context, client.ObjectKey) (client.Client, error) {
	if !c.w.health.Connected {
		return nil, workload.ErrNotConnected
	}
	return c.w.nodes, nil
}

func newWorld(t *testing.T, objects ...client.Object) *world {
	t.Helper()
	s := runtime.NewScheme()
	if err := errors.Join(scheme.AddToScheme(s), clusterv1.AddToScheme(s)); err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, clock: testclock.NewFakePassiveClock(now), events: events.NewFakeRecorder(100), fail: map[string]error{}}
	w.health = workload.Health{Connected: true, LastProbeSuccess: now, Answering: now.Add(-24 * time.Hour)}
	w.mgmt = fake.NewClientBuilder().WithScheme(s).WithObjects(objects...).
		WithIndex(&clusterv1.Machine{}, index.ClusterName, index.Of).WithIndex(&clusterv1.MachineHealthCheck{}, index.ClusterName, index.Of).
		WithStatusSubresource(&clusterv1.MachineHealthCheck{}, &clusterv1.Machine{}).
		WithInterceptorFuncs(writes.Before(func(verb string, obj client.Object) error {
			gvk, err := apiutil.GVKForObject(obj, s)
			line := verb + " " + gvk.Kind + " " + obj.GetName()
			w.sent = append(w.sent, line)
			return errors.Join(err, w.fail[line])
		})).Build()
	w.nodes = fake.NewClientBuilder().WithScheme(s).
		WithIndex(&corev1.Node{}, workload.NodeByProviderID, func(o client.Object) []string { return []string{o.(*corev1.Node).Spec.ProviderID} }).Build()
	w.r = &Reconciler{Deps: deps.Deps{Mgmt: w.mgmt, Providers: provider.New(w.mgmt, nil), Workload: connection{w: w}, Clock: w.clock, Recorder: w.events, Deprecated: true}}
	return w
}

// reconcile calls the reconciler once; its writes are in sent.
func (w *world) reconcile(name string) (ctrl.Result, error) {
	w.t.Helper()
	w.sent = nil
	return w.r.Reconcile(w.t.Context(), get(w, &clusterv1.MachineHealthCheck{}, name))
}

func get[T client.Object](w *world, into T, name string) T {
	w.t.Helper()
	if err := w.mgmt.Get(w.t.Context(), client.ObjectKey{Namespace: "ns", Name: name}, into); err != nil {
		w.t.Fatal(err)
	}
	return into
}

// node creates a Node in the workload cluster that has been ready, or not ready,
// for an hour.
func (w *world) node(name string, ready corev1.ConditionStatus) {
	w.t.Helper()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "x://" + name}}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour))}}
	if err := client.IgnoreNotFound(w.nodes.Delete(w.t.Context(), n)); err != nil {
		w.t.Fatal(err)
	}
	n.ResourceVersion = ""
	if err := w.nodes.Create(w.t.Context(), n); err != nil {
		w.t.Fatal(err)
	}
}

func cluster() *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo", UID: "uid-demo"}}
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: new(true), ControlPlaneInitialized: new(true)}
	return c
}

// machine returns a Machine of a pool, with a Node of its name.
func machine(name, pool string) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: name, UID: types.UID("uid-" + name), CreationTimestamp: metav1.NewTime(now.Add(-24 * time.Hour)),
		Labels: map[string]string{clusterv1.ClusterNameLabel: "demo", "pool": pool},
	}}
	m.Spec.ClusterName, m.Spec.ProviderID, m.Status.NodeRef.Name = "demo", "x://"+name, name
	return m
}

// check returns the check of a pool that allows a Node to be unready for five
// minutes.
func check(pool string) *clusterv1.MachineHealthCheck {
	c := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{
		Namespace: "ns", Name: pool, UID: types.UID("uid-" + pool), Generation: 2, Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"},
		OwnerReferences: []metav1.OwnerReference{owner.OfCluster(cluster())},
	}}
	c.Spec.ClusterName, c.Spec.Selector.MatchLabels = "demo", map[string]string{"pool": pool}
	c.Spec.Checks.UnhealthyNodeConditions = []clusterv1.UnhealthyNodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse, TimeoutSeconds: new(int32(300))}}
	return c
}

// fixed returns a check that remediates Machines by requests created from the
// template fix.
func fixed(pool string) *clusterv1.MachineHealthCheck {
	c := check(pool)
	c.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: "x.io/v1", Kind: "FixTemplate", Name: "fix"}
	return c
}

func thing(kind, name string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	if fields == nil {
		u.Object = map[string]any{}
	}
	u.SetAPIVersion("x.io/v1")
	u.SetKind(kind)
	u.SetNamespace("ns")
	u.SetName(name)
	return u
}

func template() *unstructured.Unstructured {
	return thing("FixTemplate", "fix", map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": "reboot"}}}})
}

// said returns the conditions of a Machine that health checks write.
func (w *world) said(name string) string {
	w.t.Helper()
	var all []string
	m := get(w, &clusterv1.Machine{}, name)
	for _, t := range []string{"HealthCheckSucceeded", "OwnerRemediated", "ExternallyRemediated"} {
		if c := conditions.Get(m, t); c != nil {
			all = append(all, fmt.Sprintf("%s %s %s", t, c.Status, c.Reason))
		}
	}
	return strings.Join(all, ", ")
}

func TestACheckIsGivenToItsClusterFirst(t *testing.T) {
	t.Parallel()
	c := check("a")
	c.Labels, c.OwnerReferences = nil, nil
	w := newWorld(t, cluster(), c, machine("m", "a"))
	w.node("m", "True")
	for _, want := range [][]string{{"patch MachineHealthCheck a"}, {"patch status of Machine m", "patch status of MachineHealthCheck a"}, nil} {
		if _, err := w.reconcile("a"); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, w.sent); diff != "" {
			t.Errorf("writes (-want +got):\n%s", diff)
		}
	}
	st := get(w, &clusterv1.MachineHealthCheck{}, "a").Status
	if st.ObservedGeneration != 2 || *st.ExpectedMachines != 1 || *st.CurrentHealthy != 1 || *st.RemediationsAllowed != 1 ||
		!cmp.Equal(st.Targets, []string{"m"}) || conditions.Reason(&clusterv1.MachineHealthCheck{Status: st}, clusterv1.PausedCondition) != clusterv1.NotPausedReason {
		t.Errorf("status %+v", st)
	}
	m := get(w, &clusterv1.Machine{}, "m")
	if diff := cmp.Diff([]string{"HealthCheckSucceeded True"}, builder.Deprecated(v1beta1conditions.OfMachine(m).Conditions)); diff != "" {
		t.Errorf("conditions of the Machine for clients of v1beta1 (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"RemediationAllowed True"}, builder.Deprecated(st.Deprecated.V1Beta1.Conditions)); diff != "" {
		t.Errorf("conditions for clients of v1beta1 (-want +got):\n%s", diff)
	}
}

func TestAnExternalControllerIsAskedOnceAndNoLonger(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), fixed("a"), machine("m", "a"), template())
	w.node("m", "False")
	if _, err := w.reconcile("a"); err != nil {
		t.Fatal(err)
	}
	want := []string{"create Fix m", "patch status of Machine m", "patch status of MachineHealthCheck a"}
	if diff := cmp.Diff(want, w.sent); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	request := get(w, thing("Fix", "", nil), "m")
	wantOwner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: "m", UID: "uid-m"}}
	if strategy, _, _ := unstructured.NestedString(request.Object, "spec", "strategy"); strategy != "reboot" || !cmp.Equal(request.GetOwnerReferences(), wantOwner) ||
		request.GetLabels()[clusterv1.ClusterNameLabel] != "demo" || request.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation] != "fix" {
		t.Errorf("request %v", request.Object)
	}
	if got := w.said("m"); got != "HealthCheckSucceeded False UnhealthyNode, ExternallyRemediated False WaitingForRemediation" {
		t.Error(got)
	}
	if _, err := w.reconcile("a"); err != nil || len(w.sent) > 0 {
		t.Errorf("again: %v, %v", w.sent, err)
	}
	w.node("m", "True")
	if _, err := w.reconcile("a"); err != nil {
		t.Fatal(err)
	}
	want = []string{"delete Fix m", "patch status of Machine m", "patch status of MachineHealthCheck a"}
	if diff := cmp.Diff(want, w.sent); diff != "" || w.said("m") != "HealthCheckSucceeded True HealthCheckSucceeded" {
		t.Errorf("%s, writes (-want +got):\n%s", w.said("m"), diff)
	}
}

func TestARequestThatCannotBeMadeIsAConditionByName(t *testing.T) {
	t.Parallel()
	const notFound = "HealthCheckSucceeded False UnhealthyNode, ExternallyRemediated False RemediationTemplateNotFound"
	core, stolen := fixed("a"), template()
	core.Spec.Remediation.TemplateRef.APIVersion, core.Spec.Remediation.TemplateRef.Kind = clusterv1.GroupVersion().String(), "MachineTemplate"
	stolen.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "prod", UID: "p"}})
	tests := map[string]struct {
		check   *clusterv1.MachineHealthCheck
		objects []client.Object
		fail    string // a write
		want    string
		allowed string // the message of RemediationAllowed has
		wantErr string
	}{
		"no template":                  {check: fixed("a"), want: notFound, allowed: "FixTemplate fix, named by spec.remediation.templateRef, does not exist: create it, or correct the reference"},
		"a template of another":        {check: fixed("a"), objects: []client.Object{stolen}, want: notFound, allowed: "spec.remediation.templateRef: FixTemplate ns/fix is held by Cluster prod"},
		"a kind of Cluster API":        {check: core, want: notFound, allowed: "group cluster.x-k8s.io is Cluster API's own, and not a provider's"},
		"a server that says no":        {check: fixed("a"), objects: []client.Object{template()}, fail: "create Fix m", want: "HealthCheckSucceeded False UnhealthyNode, ExternallyRemediated False RemediationRequestCreationFailed", wantErr: "create Fix ns/m: quota"},
		"another's object of the name": {check: fixed("a"), objects: []client.Object{template(), thing("Fix", "m", nil)}, want: "HealthCheckSucceeded False UnhealthyNode, ExternallyRemediated False RemediationRequestCreationFailed", wantErr: "is not owned by the Machine: remove it"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(tc.objects, cluster(), tc.check, machine("m", "a"))...)
			w.node("m", "False")
			w.fail[tc.fail] = errors.New("quota")
			_, err := w.reconcile("a")
			if text := fmt.Sprint(err); (err == nil) != (tc.wantErr == "") || !strings.Contains(text, tc.wantErr) {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			if got := w.said("m"); got != tc.want {
				t.Errorf("got %s\nwant %s", got, tc.want)
			}
			allowed := conditions.Message(get(w, &clusterv1.MachineHealthCheck{}, "a"), clusterv1.MachineHealthCheckRemediationAllowedCondition)
			if !strings.Contains(allowed, tc.allowed) {
				t.Errorf("RemediationAllowed says %q, want %q", allowed, tc.allowed)
			}
			if tc.fail == "" && strings.Contains(tc.want, "Failed") {
				w.node("m", "True") // and conditions of others stay
				if _, err := w.reconcile("a"); err != nil || strings.Contains(strings.Join(w.sent, " "), "delete") {
					t.Errorf("healthy: %v, %v", w.sent, err)
				}
			}
		})
	}
}

func TestANodeThatComesBackIsFound(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), check("a"), machine("m", "a"))
	for range 3 {
		if _, err := w.reconcile("a"); err != nil || !strings.HasPrefix(w.said("m"), "HealthCheckSucceeded False NodeDeleted") {
			t.Fatalf("%s, %v", w.said("m"), err)
		}
	}
	w.node("m", "True") // it registers again
	if _, err := w.reconcile("a"); err != nil || w.said("m") != "HealthCheckSucceeded True HealthCheckSucceeded" {
		t.Errorf("%s, %v", w.said("m"), err)
	}
}

// TestSteadyFleetSendsNoRequests checks the cost of 500 Machines under 50 checks in
// steady state: no write, and no timer that would trigger a reconcile.
func TestSteadyFleetSendsNoRequests(t *testing.T) {
	t.Parallel()
	objects := []client.Object{cluster()}
	for p := range 50 {
		pool := fmt.Sprintf("p%02d", p)
		objects = append(objects, check(pool))
		for i := range 10 {
			objects = append(objects, machine(fmt.Sprintf("%s-%d", pool, i), pool))
		}
	}
	w := newWorld(t, objects...)
	for _, o := range objects {
		if m, ok := o.(*clusterv1.Machine); ok {
			w.node(m.Name, "True")
		}
	}
	for round := range 3 {
		for p := range 50 {
			res, err := w.reconcile(fmt.Sprintf("p%02d", p))
			if err != nil {
				t.Fatal(err)
			}
			if round > 0 && (len(w.sent) > 0 || !res.IsZero()) {
				t.Fatalf("in steady state: writes %v, comes back %v", w.sent, res)
			}
		}
		w.clock.SetTime(w.clock.Now().Add(10 * time.Minute))
	}
}
