// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	testclock "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/kit/index"
	"github.com/capstan-dev/capstan/internal/kit/kubeconfig"
)

var (
	now = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	key = client.ObjectKey{Namespace: "ns", Name: "demo"}
)

// connections is a workload.Clusters that only reports its health.
type connections struct {
	workload.Clusters
	health workload.Health
}

func (c connections) Health(client.ObjectKey) workload.Health { return c.health }

func newCluster(change ...func(*clusterv1.Cluster)) *clusterv1.Cluster {
	c := &clusterv1.Cluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "c", Generation: 1, Finalizers: []string{clusterv1.ClusterFinalizer}},
		Spec: clusterv1.ClusterSpec{
			InfrastructureRef: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Net", Name: "demo"},
			ControlPlaneRef:   clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: "Brain", Name: "demo"},
		},
	}
	for _, f := range change {
		f(c)
	}
	return c
}

// object returns an object of a provider with the given fields.
func object(kind string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	u.SetAPIVersion("x.io/v1")
	u.SetKind(kind)
	u.SetNamespace(key.Namespace)
	u.SetName(key.Name)
	return u
}

func network() *unstructured.Unstructured {
	return object("Net", map[string]any{
		"spec":   map[string]any{"controlPlaneEndpoint": map[string]any{"host": "10.0.0.1", "port": int64(6443)}},
		"status": map[string]any{"initialization": map[string]any{"provisioned": true}, "failureDomains": []any{map[string]any{"name": "a", "controlPlane": true}}},
	})
}

func brain() *unstructured.Unstructured {
	return object("Brain", map[string]any{
		"spec": map[string]any{"replicas": int64(3)},
		"status": map[string]any{
			"initialization": map[string]any{"controlPlaneInitialized": true}, "replicas": int64(3), "readyReplicas": int64(2),
			"versions": []any{map[string]any{"version": "v1.36.3", "replicas": int64(3)}},
		},
	})
}

func crd(kind string, labels map[string]string) client.Object {
	return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: strings.ToLower(kind) + "s.x.io", Labels: labels}}
}

// run reconciles once and returns the Cluster as it is stored then.
func run(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) (*clusterv1.Cluster, client.Client, error) {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), planv1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	contracted := map[string]string{"cluster.x-k8s.io/v1beta2": "v1"}
	b := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&clusterv1.Cluster{}).WithInterceptorFuncs(funcs).
		WithObjects(crd("Net", contracted), crd("Brain", contracted)).WithObjects(objects...)
	for _, kind := range index.Kinds() {
		b = b.WithIndex(kind, index.ClusterName, index.Of)
	}
	c := b.Build()
	cluster := &clusterv1.Cluster{}
	if err := c.Get(t.Context(), key, cluster); err != nil {
		t.Fatal(err)
	}
	r := &Reconciler{
		Deps: deps.Deps{Mgmt: c, Live: c, Providers: provider.New(c, nil), Clock: testclock.NewFakePassiveClock(now), Recorder: &events.FakeRecorder{}, Deprecated: true, Workload: connections{health: workload.Health{Connected: true, LastProbeSuccess: now}}},
	}
	_, err := r.Reconcile(t.Context(), cluster)
	stored := &clusterv1.Cluster{}
	if getErr := c.Get(t.Context(), key, stored); getErr != nil {
		return nil, c, err
	}
	return stored, c, err
}

func TestAClusterTakesWhatItsProvidersSay(t *testing.T) {
	got, c, err := run(t, interceptor.Funcs{}, newCluster(), network(), brain())
	if err != nil {
		t.Fatal(err)
	}
	if got.Spec.ControlPlaneEndpoint != (clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}) {
		t.Errorf("endpoint %v", got.Spec.ControlPlaneEndpoint)
	}
	if i := got.Status.Initialization; !ptr.Deref(i.InfrastructureProvisioned, false) || !ptr.Deref(i.ControlPlaneInitialized, false) {
		t.Errorf("initialization %+v, want both", i)
	}
	if got.Status.Phase != "Provisioned" || len(got.Status.FailureDomains) != 1 {
		t.Errorf("phase %s, failure domains %v", got.Status.Phase, got.Status.FailureDomains)
	}
	want := &clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: new(int32(3)), Replicas: new(int32(3)), ReadyReplicas: new(int32(2)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 3}},
	}
	if diff := cmp.Diff(want, got.Status.ControlPlane); diff != "" {
		t.Errorf("control plane counters (-want +got):\n%s", diff)
	}
	for _, kind := range []string{"Net", "Brain"} {
		obj := object(kind, map[string]any{})
		if err := c.Get(t.Context(), key, obj); err != nil {
			t.Fatal(err)
		}
		if refs := obj.GetOwnerReferences(); len(refs) != 1 || refs[0].Name != "demo" || refs[0].Controller != nil || obj.GetLabels()[clusterv1.ClusterNameLabel] != "demo" {
			t.Errorf("%s: owners %v, labels %v", kind, refs, obj.GetLabels())
		}
	}
}

func TestReconcileRemovesUnreportedFailureDomains(t *testing.T) {
	bare := network()
	delete(bare.Object["status"].(map[string]any), "failureDomains")
	had := newCluster(func(c *clusterv1.Cluster) { c.Status.FailureDomains = []clusterv1.FailureDomain{{Name: "a"}} })
	got, _, err := run(t, interceptor.Funcs{}, had, bare, brain())
	if err != nil || len(got.Status.FailureDomains) > 0 {
		t.Errorf("failure domains %v, error %v, want none", got.Status.FailureDomains, err)
	}
}

func TestFailuresThatProvidersReportAreShown(t *testing.T) {
	failing := network()
	failing.Object["status"].(map[string]any)["failureReason"] = "CreateError"
	failing.Object["status"].(map[string]any)["failureMessage"] = "no quota\x1b[2J"
	odd := brain()
	odd.Object["status"].(map[string]any)["failureReason"] = []any{"no text"}
	kept := newCluster(func(c *clusterv1.Cluster) {
		c.Status.Deprecated = &clusterv1.ClusterDeprecatedStatus{V1Beta1: &clusterv1.ClusterV1Beta1DeprecatedStatus{FailureReason: new("Earlier")}}
	})
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		infra   *unstructured.Unstructured
		want    *clusterv1.ClusterV1Beta1DeprecatedStatus
	}{
		"reported":           {newCluster(), failing, &clusterv1.ClusterV1Beta1DeprecatedStatus{FailureReason: new("CreateError"), FailureMessage: new(`Net demo: no quota\x1b[2J`)}},
		"no longer reported": {kept, network(), &clusterv1.ClusterV1Beta1DeprecatedStatus{FailureReason: new("Earlier")}},
		"never reported":     {newCluster(), network(), &clusterv1.ClusterV1Beta1DeprecatedStatus{}},
	} {
		got, _, err := run(t, interceptor.Funcs{}, tc.cluster, tc.infra, odd)
		if err != nil {
			t.Fatal(err)
		}
		var shown *clusterv1.ClusterV1Beta1DeprecatedStatus
		if got.Status.Deprecated != nil {
			shown = got.Status.Deprecated.V1Beta1
		}
		if diff := cmp.Diff(tc.want, shown, cmpopts.IgnoreFields(*tc.want, "Conditions")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestControlPlaneMayReportOnlyVersion(t *testing.T) {
	for name, tc := range map[string]struct {
		status map[string]any
		want   *clusterv1.ClusterControlPlaneStatus
	}{
		"without a number": {map[string]any{"version": "v1.36.3"}, &clusterv1.ClusterControlPlaneStatus{Versions: []clusterv1.StatusVersion{{Version: "v1.36.3"}}}},
		"of as many as there are": {map[string]any{"version": "v1.36.3", "replicas": int64(3)},
			&clusterv1.ClusterControlPlaneStatus{Replicas: new(int32(3)), Versions: []clusterv1.StatusVersion{{Version: "v1.36.3", Replicas: 3}}}},
		"of none": {map[string]any{"version": "v1.36.3", "replicas": int64(0)}, &clusterv1.ClusterControlPlaneStatus{Replicas: new(int32(0))}},
	} {
		got, _, err := run(t, interceptor.Funcs{}, newCluster(), network(), object("Brain", map[string]any{"status": tc.status}))
		if diff := cmp.Diff(tc.want, got.Status.ControlPlane); diff != "" || err != nil {
			t.Errorf("%s: error %v, control plane (-want +got):\n%s", name, err, diff)
		}
	}
}

func TestASecondReconcileWritesNothing(t *testing.T) {
	got, c, err := run(t, interceptor.Funcs{}, newCluster(), network(), brain())
	if err != nil {
		t.Fatal(err)
	}
	got.Generation = 2 // the endpoint was set; an API server counts, the fake one does not
	var all []client.Object
	for _, kind := range []string{"Net", "Brain"} {
		obj := object(kind, map[string]any{})
		if err := c.Get(t.Context(), key, obj); err != nil {
			t.Fatal(err)
		}
		all = append(all, obj)
	}
	writes := 0
	_, _, err = run(t, interceptor.Funcs{
		Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
			writes++
			return nil
		},
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			writes++
			return nil
		},
	}, append(all, got)...)
	if err != nil || writes != 0 {
		t.Errorf("%d writes, error %v; want none", writes, err)
	}
}

func TestWhatIsWrongWithAReferenceIsSaid(t *testing.T) {
	other := func(kind string) func(*clusterv1.Cluster) {
		return func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.Kind = kind }
	}
	provisioned := func(c *clusterv1.Cluster) { c.Status.Initialization.InfrastructureProvisioned = new(true) }
	foreign := network()
	foreign.Object["status"] = map[string]any{"initialization": "yes"}
	tests := map[string]struct {
		cluster *clusterv1.Cluster
		objects []client.Object
		want    metav1.Condition
		wantErr bool
	}{
		"an object that does not exist": {
			newCluster(), []client.Object{brain()},
			metav1.Condition{Status: "False", Reason: "ObjectDoesNotExist", Message: "Net demo does not exist: create it, or correct spec.infrastructureRef"}, false,
		},
		"an object that has gone": {
			newCluster(provisioned), []client.Object{brain()},
			metav1.Condition{Status: "False", Reason: "ObjectDeleted", Message: "Net demo has been deleted while the Cluster still exists"}, true,
		},
		"a kind without CRD": {
			newCluster(other("Lake")), []client.Object{brain()},
			metav1.Condition{Status: "Unknown", Reason: "InternalError", Message: "spec.infrastructureRef: kind Lake.x.io: there is no CRD lakes.x.io: install the provider that brings it, or correct apiGroup and kind"}, true,
		},
		"a CRD without contract label": {
			newCluster(other("Lake")), []client.Object{brain(), crd("Lake", nil)},
			metav1.Condition{Status: "Unknown", Reason: "InternalError", Message: "spec.infrastructureRef: kind Lake.x.io: CRD lakes.x.io: no label cluster.x-k8s.io/v1beta2 or cluster.x-k8s.io/v1beta1 lists the API versions that follow the contract: install the provider's CRDs with their labels, or set one by: kubectl label crd NAME cluster.x-k8s.io/v1beta2=VERSION"}, true,
		},
		"an object of another Cluster": {
			newCluster(), []client.Object{brain(), heldByProd(network())},
			metav1.Condition{Status: "False", Reason: "NotReady", Message: "spec.infrastructureRef: Net ns/demo is held by Cluster prod: refer to another object, or remove that owner or label"}, false,
		},
		"a kind that is no provider's": {
			newCluster(func(c *clusterv1.Cluster) { c.Spec.InfrastructureRef.APIGroup = clusterv1.GroupVersion().Group }), []client.Object{brain()},
			metav1.Condition{Status: "Unknown", Reason: "InternalError", Message: "spec.infrastructureRef: kind Net.cluster.x-k8s.io: group cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be the infrastructure of a Cluster"}, true,
		},
		"rubbish in the status": {
			newCluster(), []client.Object{brain(), foreign},
			metav1.Condition{Status: "Unknown", Reason: "InternalError", Message: "read status.initialization.provisioned of Net demo: .status.initialization.provisioned accessor error: yes is of the type string, expected map[string]interface{}"}, true,
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := run(t, interceptor.Funcs{}, append(tc.objects, tc.cluster)...)
			if (err != nil) != tc.wantErr {
				t.Errorf("error %v, want one: %v", err, tc.wantErr)
			}
			c := conditions.Get(got, clusterv1.InfrastructureReadyCondition)
			if c == nil || !conditions.SameState(*c, metav1.Condition{Type: c.Type, ObservedGeneration: 1, Status: tc.want.Status, Reason: tc.want.Reason, Message: tc.want.Message}) {
				t.Errorf("condition %+v, want %+v", c, tc.want)
			}
			if cp := conditions.Get(got, clusterv1.ClusterControlPlaneInitializedCondition); cp == nil || cp.Status != metav1.ConditionTrue {
				t.Errorf("the control plane was not checked: %+v", cp)
			}
		})
	}
}

func heldByProd(obj *unstructured.Unstructured) *unstructured.Unstructured {
	obj.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "prod", UID: "p", Controller: new(true)}})
	return obj
}

func TestDeletionGoesInOrder(t *testing.T) {
	gone := func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: now} }
	deployment := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "w"}, Spec: clusterv1.MachineDeploymentSpec{ClusterName: "demo"}}
	held := func(obj *unstructured.Unstructured) *unstructured.Unstructured {
		obj.SetFinalizers([]string{"x.io/held"})
		return obj
	}
	lone := func(name string, labels map[string]string) *clusterv1.Machine {
		return &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: labels}, Spec: clusterv1.MachineSpec{ClusterName: "demo"}}
	}
	tests := map[string]struct {
		objects []client.Object
		deleted []string
		reason  string // of Deleting; "" if the Cluster was deleted
	}{
		"workers first": {
			[]client.Object{deployment, lone("m", nil), brain(), network()},
			[]string{"MachineDeployment w", "Machine m"}, "WaitingForWorkersDeletion",
		},
		"then the control plane":   {[]client.Object{held(brain()), network()}, []string{"Brain demo"}, "WaitingForControlPlaneDeletion"},
		"then the infrastructure":  {[]client.Object{held(network())}, []string{"Net demo"}, "WaitingForInfrastructureDeletion"},
		"and then nothing is left": {nil, nil, ""},
		"what is another's stays":  {[]client.Object{heldByProd(brain()), heldByProd(network())}, nil, ""},
		"but not control plane Machines of its own": {
			[]client.Object{heldByProd(brain()), network(), lone("m", map[string]string{clusterv1.MachineControlPlaneLabel: ""})},
			[]string{"Machine m"}, "WaitingForControlPlaneDeletion",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			var deleted []string
			got, _, err := run(t, interceptor.Funcs{Delete: func(_ context.Context, c client.WithWatch, obj client.Object, _ ...client.DeleteOption) error {
				gvk, err := c.GroupVersionKindFor(obj)
				deleted = append(deleted, gvk.Kind+" "+obj.GetName())
				return err
			}}, append(tc.objects, newCluster(gone))...)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.deleted, deleted); diff != "" {
				t.Errorf("deleted (-want +got):\n%s", diff)
			}
			reason := ""
			if got != nil {
				reason = conditions.Reason(got, clusterv1.DeletingCondition)
			}
			if reason != tc.reason {
				t.Errorf("Deleting is %q, want %q", reason, tc.reason)
			}
		})
	}
}

// TestADeletionThatOrphansKeepsEverything is kubectl delete --cascade=orphan.
func TestADeletionThatOrphansKeepsEverything(t *testing.T) {
	got, c, err := run(t, interceptor.Funcs{}, network(), brain(), newCluster(func(c *clusterv1.Cluster) {
		c.DeletionTimestamp, c.Finalizers = &metav1.Time{Time: now}, append(c.Finalizers, metav1.FinalizerOrphanDependents)
	}))
	if err != nil || len(got.Finalizers) != 1 {
		t.Errorf("finalizers %v, error %v", got.Finalizers, err)
	}
	for _, obj := range []client.Object{network(), brain()} {
		if err := c.Get(t.Context(), key, obj); err != nil {
			t.Error(err)
		}
	}
}

// TestDeletionOfATopologyWaitsForItsHook checks that the deletion does not wait for
// its class, which may be deleted or not readable by this manager.
func TestDeletionOfATopologyWaitsForItsHook(t *testing.T) {
	for wait, annotations := range map[string]map[string]string{
		"WaitingForBeforeDeleteHook":     nil,
		"WaitingForControlPlaneDeletion": {runtimev1.OkToDeleteAnnotation: ""},
	} {
		plane := brain()
		plane.SetFinalizers([]string{"x.io/held"})
		unread := interceptor.Funcs{Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, is := obj.(*clusterv1.ClusterClass); is {
				return errors.New("not in this namespace")
			}
			return c.Get(ctx, key, obj, opts...)
		}}
		got, _, err := run(t, unread, plane, network(), newCluster(func(c *clusterv1.Cluster) {
			c.DeletionTimestamp, c.Annotations = &metav1.Time{Time: now}, annotations
			c.Spec.Topology.ClassRef.Name = "gone"
		}))
		if reason := conditions.Reason(got, clusterv1.DeletingCondition); err != nil || reason != wait {
			t.Errorf("annotations %v: Deleting is %q, error %v, want %s", annotations, reason, err, wait)
		}
	}
}

// TestAClassSaysWhatAClusterIsAvailableBy also checks that a missing class adds no
// gate.
func TestAClassSaysWhatAClusterIsAvailableBy(t *testing.T) {
	class := &clusterv1.ClusterClass{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "class"}}
	class.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "Backup"}}
	for name, want := range map[string]bool{"class": true, "gone": false} {
		got, _, err := run(t, interceptor.Funcs{}, class, network(), brain(), newCluster(func(c *clusterv1.Cluster) { c.Spec.Topology.ClassRef.Name = name }))
		if err != nil {
			t.Fatal(err)
		}
		if told := conditions.Get(got, clusterv1.ClusterAvailableCondition); strings.Contains(told.Message, "Backup") != want {
			t.Errorf("class %s: Available says %q", name, told.Message)
		}
	}
}

func TestDeletionOfAKindThatCannotBeUsed(t *testing.T) {
	tests := map[string]struct {
		crd   []client.Object
		want  string // message of Deleting; "" if the Cluster was deleted
		group string
	}{
		"no CRD, hence no object": {},
		"no kind of a provider":   {group: "runtime.cluster.x-k8s.io"},
		"a CRD without contract": {crd: []client.Object{crd("Moon", nil)},
			want: "Waiting for Moon demo to be deleted: spec.infrastructureRef: kind Moon.x.io: CRD moons.x.io: no label cluster.x-k8s.io/v1beta2"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			cluster := newCluster(func(c *clusterv1.Cluster) { c.DeletionTimestamp = &metav1.Time{Time: now} })
			cluster.Spec.InfrastructureRef.Kind = "Moon"
			if tc.group != "" {
				cluster.Spec.InfrastructureRef.APIGroup = tc.group
			}
			got, _, err := run(t, interceptor.Funcs{}, append(tc.crd, cluster)...)
			if tc.want == "" {
				if got != nil || err != nil {
					t.Errorf("Cluster %v, error %v; want none", got, err)
				}
				return
			}
			if m := conditions.Message(got, clusterv1.DeletingCondition); err == nil || !strings.HasPrefix(m, tc.want) {
				t.Errorf("Deleting says %q, want %q; error %v", m, tc.want, err)
			}
		})
	}
}

func TestAClusterWithoutControlPlaneObjectGetsAKubeconfig(t *testing.T) {
	authority, err := certs.New(certs.CA, "", now, 0)
	if err != nil {
		t.Fatal(err)
	}
	cluster := newCluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} })
	_, c, err := run(t, interceptor.Funcs{}, cluster, network(), authority.Secret(key, certs.CA, nil))
	if err != nil {
		t.Fatal(err)
	}
	secret := &corev1.Secret{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: "ns", Name: "demo-kubeconfig"}, secret); err != nil {
		t.Fatal(err)
	}
	cfg, err := kubeconfig.FromSecret(secret)
	if err != nil || cfg.Host != "https://10.0.0.1:6443" {
		t.Errorf("host %v, error %v", cfg, err)
	}
}

func TestAKubeconfigThatAUserBringsWithoutALabelIsFound(t *testing.T) {
	cluster := newCluster(func(c *clusterv1.Cluster) { c.Spec.ControlPlaneRef = clusterv1.ContractVersionedObjectReference{} })
	brought := kubeconfig.Secret(key, []byte("theirs"), nil)
	brought.Labels = nil
	_, c, err := run(t, interceptor.Funcs{}, cluster, network(), brought)
	if err != nil {
		t.Fatal(err)
	}
	var secret corev1.Secret
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(brought), &secret); err != nil || secret.Labels[clusterv1.ClusterNameLabel] != "demo" || string(secret.Data["value"]) != "theirs" {
		t.Errorf("labels %v, %v: the cache, by which clusters are connected to, does not show it", secret.Labels, err)
	}
}

func TestAPausedClusterIsLeftAlone(t *testing.T) {
	got, c, err := run(t, interceptor.Funcs{}, newCluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }), network(), brain())
	if err != nil {
		t.Fatal(err)
	}
	if !conditions.IsTrue(got, clusterv1.PausedCondition) || len(got.Status.Conditions) != 1 {
		t.Errorf("conditions %v, want Paused alone", got.Status.Conditions)
	}
	obj := object("Net", map[string]any{})
	if err := c.Get(t.Context(), key, obj); err != nil || len(obj.GetOwnerReferences()) != 0 {
		t.Errorf("owners %v, error %v; want none", obj.GetOwnerReferences(), err)
	}
}

func TestAPausedClusterIsHeldUntilItsObjectsCanGo(t *testing.T) {
	got, _, err := run(t, interceptor.Funcs{}, newCluster(func(c *clusterv1.Cluster) { c.Spec.Paused, c.Finalizers = new(true), nil }), network())
	if err != nil || !slices.Contains(got.Finalizers, clusterv1.ClusterFinalizer) || !conditions.IsTrue(got, clusterv1.PausedCondition) {
		t.Errorf("finalizers %v, conditions %v, error %v; want the finalizer and Paused", got.Finalizers, got.Status.Conditions, err)
	}
}

func TestTheFinalizerIsStoredBeforeAnythingElse(t *testing.T) {
	got, c, err := run(t, interceptor.Funcs{}, newCluster(func(c *clusterv1.Cluster) { c.Finalizers = nil }), network(), brain())
	if err != nil {
		t.Fatal(err)
	}
	obj := object("Net", map[string]any{})
	if err := c.Get(t.Context(), key, obj); err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(got.Finalizers, clusterv1.ClusterFinalizer) || len(obj.GetOwnerReferences()) != 0 {
		t.Errorf("finalizers %v, owners of the network %v; want the finalizer alone", got.Finalizers, obj.GetOwnerReferences())
	}
}
