// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/workload"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

func TestLifeOfAMachine(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(), config(nil), object(hostRef, nil), plane())

	m := w.settle()
	if m.Status.Phase != "Pending" || cond(m, "Ready") != "False NotReady: * BootstrapConfigReady: Waiting for Config m0 to create bootstrap data\n* InfrastructureReady: Waiting for Host m0 to be provisioned\n* NodeHealthy: Waiting for Host m0 to report spec.providerID" {
		t.Errorf("at first: phase %s, Ready %s", m.Status.Phase, cond(m, "Ready"))
	}

	update(t, w.mgmt, bootstrapped())
	m = w.settle()
	if m.Status.Phase != "Provisioning" || m.Spec.Bootstrap.DataSecretName == nil || *m.Spec.Bootstrap.DataSecretName != "m0-data" {
		t.Errorf("with bootstrap data: phase %s, secret %v", m.Status.Phase, m.Spec.Bootstrap.DataSecretName)
	}

	update(t, w.mgmt, provisioned())
	m = w.settle()
	if m.Status.Phase != "Provisioned" || m.Spec.ProviderID != "x://m0" || m.Status.FailureDomain != "a" || len(m.Status.Addresses) != 1 {
		t.Errorf("with a host: phase %s, providerID %s, failure domain %s, addresses %v", m.Status.Phase, m.Spec.ProviderID, m.Status.FailureDomain, m.Status.Addresses)
	}
	if got, want := cond(m, "NodeHealthy"), "Unknown InspectionFailed: Waiting for a Node with spec.providerID x://m0 to exist"; got != want {
		t.Errorf("NodeHealthy %s, want %s", got, want)
	}

	if err := w.nodes.Create(t.Context(), node(func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "node.cluster.x-k8s.io/uninitialized", Effect: "NoSchedule"}}
	})); err != nil {
		t.Fatal(err)
	}
	m, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Node", "patch status of Machine"}, w.writes); diff != "" {
		t.Errorf("writes when the Node comes (-want +got):\n%s", diff)
	}
	if m.Status.Phase != "Running" || m.Status.NodeRef.Name != "n0" || cond(m, "Ready") != "True Ready" || cond(m, "Available") != "True Available" {
		t.Errorf("at last: phase %s, node %s, Ready %s, Available %s", m.Status.Phase, m.Status.NodeRef.Name, cond(m, "Ready"), cond(m, "Available"))
	}
	n := &corev1.Node{}
	if err := w.nodes.Get(t.Context(), client.ObjectKey{Name: "n0"}, n); err != nil || len(n.Spec.Taints) != 0 || n.Annotations[clusterv1.MachineAnnotation] != "m0" {
		t.Errorf("Node: taints %v, annotations %v, error %v", n.Spec.Taints, n.Annotations, err)
	}
	if m, _, err := w.reconcile(); err != nil || len(w.writes) > 0 {
		t.Errorf("in steady state: writes %v, error %v, machine %v", w.writes, err, m.Status)
	}
}

func TestNodeGetsLabelsThatPatternsSelect(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(running, func(m *clusterv1.Machine) { m.Labels["team"], m.Annotations = "a", map[string]string{"team/room": "1"} }), bootstrapped(), provisioned(), node())
	if err := errors.Join(w.r.Sync.Labels.Set("^team$"), w.r.Sync.Annotations.Set("^team/")); err != nil {
		t.Fatal(err)
	}
	w.settle()
	n := &corev1.Node{}
	if err := w.nodes.Get(t.Context(), client.ObjectKey{Name: "n0"}, n); err != nil || n.Labels["team"] != "a" || n.Annotations["team/room"] != "1" || n.Labels[clusterv1.MachineSetNameLabel] != "" {
		t.Errorf("labels %v, annotations %v, error %v", n.Labels, n.Annotations, err)
	}
}

// update replaces the status and spec of a provider object.
func update(t *testing.T, c client.Client, u *unstructured.Unstructured) {
	t.Helper()
	have := u.DeepCopy()
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(u), have); err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"spec", "status"} {
		if v, ok := u.Object[part]; ok {
			have.Object[part] = v
		}
	}
	if err := c.Update(t.Context(), have); err != nil {
		t.Fatal(err)
	}
}

func TestReconcile(t *testing.T) {
	t.Parallel()
	without := func(ref clusterv1.ContractVersionedObjectReference) func(*clusterv1.Machine) {
		return func(m *clusterv1.Machine) {
			if ref.Kind == "Config" {
				m.Spec.Bootstrap.ConfigRef.Kind = "Nothing"
			} else {
				m.Spec.InfrastructureRef.Kind = "Nothing"
			}
		}
	}
	noCRD := "kind Nothing.infra.io: there is no CRD nothings.infra.io: install the provider that brings it, or correct apiGroup and kind"
	tests := map[string]struct {
		objects []client.Object
		want    map[string]string // conditions
		wantErr string
	}{
		"a kind without CRD names field and remedy": {
			objects: []client.Object{cluster(), machine(without(hostRef)), config(nil)},
			want:    map[string]string{"InfrastructureReady": "Unknown InternalError: spec.infrastructureRef: " + noCRD},
			wantErr: "infrastructure: spec.infrastructureRef: " + noCRD,
		},
		"objects that are not there are awaited": {
			objects: []client.Object{cluster(), machine()},
			want: map[string]string{
				"BootstrapConfigReady": "False ObjectDoesNotExist: Config m0 does not exist: create it, or correct the reference",
				"InfrastructureReady":  "False ObjectDoesNotExist: Host m0 does not exist: create it, or correct the reference",
			},
		},
		"a Cluster that is not there is awaited": {
			objects: []client.Object{machine()},
			want:    map[string]string{"InfrastructureReady": "Unknown InternalError: Waiting for Cluster demo, named by spec.clusterName, to exist"},
		},
		"a deleted host is reported": {
			objects: []client.Object{cluster(), machine(running), bootstrapped(), node()},
			want:    map[string]string{"InfrastructureReady": "False ObjectDeleted: Host m0 has been deleted while the Machine still exists: delete the Machine to replace it"},
			wantErr: "Host ns/m0 has been deleted while the Machine still exists: delete the Machine to replace it",
		},
		"a host without provider ID": {
			objects: []client.Object{cluster(), machine(), config(nil), host("", map[string]any{"initialization": map[string]any{"provisioned": true}})},
			want:    map[string]string{"InfrastructureReady": "False NotReady: Waiting for Host m0 to set spec.providerID"},
		},
		"bootstrap data without a name": {
			objects: []client.Object{cluster(), machine(), config(map[string]any{"initialization": map[string]any{"dataSecretCreated": true}}), object(hostRef, nil)},
			want:    map[string]string{"BootstrapConfigReady": "False NotReady: Waiting for Config m0 to set status.dataSecretName"},
		},
		"data that the user brings": {
			objects: []client.Object{cluster(), machine(func(m *clusterv1.Machine) { m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("mine")} }), object(hostRef, nil)},
			want:    map[string]string{"BootstrapConfigReady": "True DataSecretProvided"},
		},
		"no bootstrap at all": {
			objects: []client.Object{cluster(), machine(func(m *clusterv1.Machine) { m.Spec.Bootstrap = clusterv1.Bootstrap{} }), object(hostRef, nil)},
			want:    map[string]string{"BootstrapConfigReady": "False NotReady: spec.bootstrap has neither configRef nor dataSecretName: set one of them"},
		},
		"Ready of the provider objects is mirrored": {
			objects: []client.Object{cluster(), machine(), config(map[string]any{"conditions": "rubbish"}), object(hostRef, map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "False", "reason": "NoQuota", "message": "ask for more"}}}})},
			want: map[string]string{
				"InfrastructureReady":  "False NoQuota: ask for more",
				"BootstrapConfigReady": "Unknown InvalidConditionReported: decode conditions of Config m0: cannot restore slice from string",
			},
		},
		"an object of another owner is refused": {
			objects: []client.Object{cluster(), machine(), config(nil), object(hostRef, nil, func(u *unstructured.Unstructured) {
				u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Machine", Name: "m1", UID: "m1", Controller: new(true)}})
			})},
			want: map[string]string{"InfrastructureReady": "False NotReady: spec.infrastructureRef: Host ns/m0 is held by Machine m1: refer to another object, or remove that owner or label"},
		},
		"bootstrap data of another Cluster is refused": {
			objects: []client.Object{cluster(), machine(), object(configRef, nil, func(u *unstructured.Unstructured) {
				u.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "prod"})
			}), object(hostRef, nil)},
			want: map[string]string{"BootstrapConfigReady": "False NotReady: spec.bootstrap.configRef: Config ns/m0 is held by Cluster prod, by its label cluster.x-k8s.io/cluster-name: refer to another object, or remove that owner or label"},
		},
		"two Nodes with one provider ID": {
			objects: []client.Object{cluster(), machine(running), bootstrapped(), provisioned(), node(), node(func(n *corev1.Node) { n.Name = "n1" })},
			want:    map[string]string{"NodeHealthy": "Unknown InternalError: spec.providerID x://m0 is that of Nodes n0 and n1: delete the one that does not exist"},
			wantErr: "node: spec.providerID x://m0 is that of Nodes n0 and n1",
		},
		"fields that violate the contract are reported": {
			objects: []client.Object{cluster(), machine(), config(map[string]any{"initialization": "yes"}), host("", map[string]any{"initialization": "yes"})},
			want: map[string]string{
				"BootstrapConfigReady": "Unknown InternalError: read status.initialization.dataSecretCreated of Config m0: .status.initialization.dataSecretCreated accessor error: yes is of the type string, expected map[string]interface{}",
				"InfrastructureReady":  "Unknown InternalError: read status.initialization.provisioned of Host m0: .status.initialization.provisioned accessor error: yes is of the type string, expected map[string]interface{}",
			},
			wantErr: "infrastructure: read status.initialization.provisioned of Host m0",
		},
		"a deleted Node is reported": {
			objects: []client.Object{cluster(), machine(running), bootstrapped(), provisioned()},
			want:    map[string]string{"NodeHealthy": "False NodeDeleted: Node n0 has been deleted while the Machine still exists"},
		},
		"an annotation that is no time": {
			objects: []client.Object{cluster(), machine(running, func(m *clusterv1.Machine) {
				m.Labels[clusterv1.MachineControlPlaneLabel] = ""
				m.Annotations = map[string]string{clusterv1.MachineCertificatesExpiryDateAnnotation: "soon"}
			}), bootstrapped(), provisioned(), node()},
			wantErr: "certificates: annotation machine.cluster.x-k8s.io/certificates-expiry of the Machine must be a time as RFC 3339 has it",
		},
		"an update in place waits for its owner": {
			objects: []client.Object{cluster(), machine(running, func(m *clusterv1.Machine) {
				m.Annotations = map[string]string{clusterv1.UpdateInProgressAnnotation: ""}
			}), bootstrapped(), provisioned(), node()},
			want: map[string]string{"Updating": "True InPlaceUpdating: Waiting for MachineSet set to write the desired Machine"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tc.objects...)
			m, _, err := w.reconcile()
			if text := errText(err); (tc.wantErr == "") != (text == "") || !strings.Contains(text, tc.wantErr) {
				t.Errorf("error %q, want %q", text, tc.wantErr)
			}
			for conditionType, want := range tc.want {
				if got := cond(m, conditionType); got != want {
					t.Errorf("%s = %s\nwant %s", conditionType, got, want)
				}
			}
		})
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestFailuresThatProvidersReportAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(), config(nil), object(hostRef, map[string]any{"status": map[string]any{"failureReason": "CreateError", "failureMessage": "no quota"}}))
	m, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	want := clusterv1.MachineV1Beta1DeprecatedStatus{FailureReason: new("CreateError"), FailureMessage: new("Host m0: no quota")}
	if diff := cmp.Diff(want, v1beta1conditions.OfMachine(m), cmpopts.IgnoreFields(want, "Conditions")); diff != "" {
		t.Errorf("status (-want +got):\n%s", diff)
	}
}

func TestFinalizerIsStoredBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(func(m *clusterv1.Machine) { m.Finalizers, m.Labels, m.OwnerReferences = nil, nil, nil }), config(nil), object(hostRef, nil))
	m, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Machine"}, w.writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	wantOwner := []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "demo", UID: "cluster"}}
	if diff := cmp.Diff(wantOwner, m.OwnerReferences); diff != "" || m.Labels[clusterv1.ClusterNameLabel] != "demo" || len(m.Finalizers) != 1 {
		t.Errorf("labels %v, finalizers %v, owners (-want +got):\n%s", m.Labels, m.Finalizers, diff)
	}
}

func TestAMachineThatIsCreatedPausedHasItsFinalizer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(func(m *clusterv1.Machine) {
		m.Finalizers, m.Annotations = nil, map[string]string{clusterv1.PausedAnnotation: ""}
	}))
	m, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Machine", "patch status of Machine"}, w.writes); diff != "" || len(m.Finalizers) != 1 {
		t.Errorf("finalizers %v, writes (-want +got):\n%s", m.Finalizers, diff)
	}
}

func TestAPausedMachineIsLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(func(c *clusterv1.Cluster) { c.Spec.Paused = new(true) }), machine(deletedSince(0)), provisioned())
	m, _, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch status of Machine"}, w.writes); diff != "" || cond(m, "Paused") != "True Paused: Cluster spec.paused is set to true" {
		t.Errorf("Paused %s, writes (-want +got):\n%s", cond(m, "Paused"), diff)
	}
	if _, _, err := w.reconcile(); err != nil || len(w.writes) > 0 {
		t.Errorf("second time: writes %v, error %v", w.writes, err)
	}
}

func TestOwnersAreTakenOver(t *testing.T) {
	t.Parallel()
	made := func(ref clusterv1.ContractVersionedObjectReference) *unstructured.Unstructured {
		return object(ref, nil, func(u *unstructured.Unstructured) {
			u.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: "set", UID: "set"}})
		})
	}
	w := newWorld(t, cluster(), machine(), made(configRef), made(hostRef))
	w.settle()
	for _, ref := range []clusterv1.ContractVersionedObjectReference{configRef, hostRef} {
		obj, err := w.r.Providers.Get(t.Context(), "ns", ref)
		if err != nil {
			t.Fatal(err)
		}
		owners := obj.GetOwnerReferences()
		if len(owners) != 1 || owners[0].Kind != "Machine" || owners[0].UID != "machine" || !ptr.Deref(owners[0].Controller, false) {
			t.Errorf("%s: owners %v", ref.Kind, owners)
		}
	}
}

func TestConditionsOfOthersStay(t *testing.T) {
	t.Parallel()
	theirs := metav1.Condition{Type: "HealthCheckSucceeded", Status: "False", Reason: "UnhealthyNode", Message: "unhealthy", LastTransitionTime: metav1.NewTime(now)}
	w := newWorld(t, cluster(), machine(running, func(m *clusterv1.Machine) { m.Status.Conditions = []metav1.Condition{theirs} }), bootstrapped(), provisioned(), node())
	m := w.settle()
	if got := conditions.Get(m, "HealthCheckSucceeded"); got == nil || !conditions.SameState(*got, theirs) {
		t.Errorf("condition of another writer is now %v", got)
	}
	if got, want := cond(m, "Ready"), "False NotReady: * HealthCheckSucceeded: unhealthy"; got != want {
		t.Errorf("Ready %s, want %s", got, want)
	}
}

func TestWhatAHealthCheckHasSaidGoesWithIt(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*world, *clusterv1.MachineHealthCheck) error{
		"deleted": func(w *world, check *clusterv1.MachineHealthCheck) error { return w.mgmt.Delete(t.Context(), check) },
		"reporting": func(w *world, check *clusterv1.MachineHealthCheck) error {
			check.Annotations = map[string]string{clusterv1.RemediationModeAnnotation: clusterv1.RemediationModeReport}
			return w.mgmt.Update(t.Context(), check)
		},
		"of others": func(w *world, check *clusterv1.MachineHealthCheck) error {
			check.Spec.Selector.MatchLabels = map[string]string{"pool": "other"}
			return w.mgmt.Update(t.Context(), check)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := func(m *clusterv1.Machine) {
				for _, c := range []string{"HealthCheckSucceeded", "OwnerRemediated"} {
					conditions.Set(m, now, metav1.Condition{Type: c, Status: "False", Reason: "R", Message: "No Node (MachineHealthCheck check)"})
				}
			}
			check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "check"}}
			check.Spec.ClusterName, check.Spec.Selector.MatchLabels = "demo", map[string]string{clusterv1.ClusterNameLabel: "demo"}
			w := newWorld(t, cluster(), check, machine(running, said), bootstrapped(), provisioned(), node())
			if m := w.settle(); !conditions.IsFalse(m, "Ready") {
				t.Errorf("Ready %s", cond(m, "Ready"))
			}
			if err := leave(w, check); err != nil {
				t.Fatal(err)
			}
			if m := w.settle(); conditions.Has(m, "HealthCheckSucceeded") || conditions.Has(m, "OwnerRemediated") || !conditions.IsTrue(m, "Ready") {
				t.Errorf("conditions %v", m.Status.Conditions)
			}
		})
	}
}

func TestStatusIsWrittenUnderLock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(running), bootstrapped(), provisioned(), node())
	stale := &clusterv1.Machine{}
	if err := w.mgmt.Get(t.Context(), machineKey, stale); err != nil {
		t.Fatal(err)
	}
	other := stale.DeepCopy()
	conditions.Set(other, now, metav1.Condition{Type: "OwnerRemediated", Status: "False", Reason: "WaitingForRemediation"})
	if err := w.mgmt.Status().Update(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	if _, err := w.r.Reconcile(t.Context(), stale); !apierrors.IsConflict(err) {
		t.Errorf("error %v, want a conflict", err)
	}
}

func TestConnection(t *testing.T) {
	t.Parallel()
	healthy := &metav1.Condition{Status: "True", Reason: "NodeHealthy"}
	down := &metav1.Condition{Status: "Unknown", Reason: "ConnectionDown", Message: "Last successful probe at 2026-03-01T07:55:00Z"}
	const (
		waiting = "Unknown ConnectionDown: Waiting for a connection to the workload cluster of Cluster demo"
		lost    = "Unknown ConnectionDown: Last successful probe at 2026-03-02T07:55:00Z"
	)
	tests := map[string]struct {
		health      workload.Health
		err         error
		was         *metav1.Condition
		comingUp    bool // the Cluster
		want        string
		wantErr     string
		wantRequeue time.Duration
	}{
		"never connected":                               {want: waiting},
		"within the grace time":                         {health: workload.Health{LastProbeSuccess: now.Add(-time.Minute)}, was: healthy, want: "True NodeHealthy", wantRequeue: 4 * time.Minute},
		"after the grace time":                          {health: workload.Health{LastProbeSuccess: now.Add(-5 * time.Minute)}, was: healthy, want: lost},
		"after a restart":                               {health: workload.Health{Since: now.Add(-time.Minute)}, was: healthy, want: "True NodeHealthy", wantRequeue: 4 * time.Minute},
		"after a restart, not connected for long":       {health: workload.Health{Since: now.Add(-5 * time.Minute)}, was: healthy, want: waiting},
		"after a restart, not connected before it":      {health: workload.Health{Since: now.Add(-time.Hour)}, was: down, want: "Unknown ConnectionDown: " + down.Message},
		"after a restart, while the Cluster comes up":   {health: workload.Health{Since: now.Add(-time.Minute)}, was: healthy, comingUp: true, want: waiting},
		"connected since the restart, and not any more": {health: workload.Health{Since: now.Add(-time.Hour), LastProbeSuccess: now.Add(-5 * time.Minute)}, was: down, want: lost},
		"a cluster that answers":                        {health: workload.Health{Connected: true, LastProbeSuccess: now}, was: healthy, want: "True NodeHealthy"},
		"a client that fails":                           {err: errors.New("boom"), want: "Unknown InternalError: boom", wantErr: "node: boom"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := machine(running)
			if tc.was != nil {
				for _, c := range []string{"NodeReady", "NodeHealthy"} {
					was := *tc.was
					was.Type = c
					conditions.Set(m, now, was)
				}
			}
			in := cluster(func(c *clusterv1.Cluster) { c.Status.Initialization.ControlPlaneInitialized = new(!tc.comingUp) })
			w := newWorld(t, in, m, bootstrapped(), provisioned(), node())
			w.workload.health, w.workload.err = tc.health, tc.err
			got, res, err := w.reconcile()
			if errText(err) != tc.wantErr {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			if c := cond(got, "NodeHealthy"); c != tc.want {
				t.Errorf("NodeHealthy = %s, want %s", c, tc.want)
			}
			if res.RequeueAfter != tc.wantRequeue {
				t.Errorf("requeue after %s, want %s", res.RequeueAfter, tc.wantRequeue)
			}
		})
	}
}

func TestARestartWritesNothing(t *testing.T) {
	t.Parallel()
	for name, nodes := range map[string][]client.Object{"with a Node": {node()}, "while the Node is awaited": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, append(nodes, cluster(), machine(), bootstrapped(), provisioned())...)
			w.settle()
			started := now.Add(time.Hour)
			w.clock.SetTime(started.Add(time.Second))
			w.workload.health = workload.Health{Since: started, Failures: 1, Err: errors.New("connection refused")}
			_, res, err := w.reconcile()
			if err != nil || len(w.writes) > 0 || res.RequeueAfter != remoteGrace-time.Second {
				t.Errorf("writes %v, requeue after %s, error %v; want none, and a requeue when the grace ends", w.writes, res.RequeueAfter, err)
			}
		})
	}
}

func TestAvailableAfterMinReadySeconds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machine(running, func(m *clusterv1.Machine) { m.Spec.MinReadySeconds = new(int32(30)) }), bootstrapped(), provisioned(), node())
	m, res, err := w.reconcile()
	if err != nil || cond(m, "Available") != "False WaitingForMinReadySeconds" || res.RequeueAfter != 30*time.Second {
		t.Errorf("at first: Available %s, requeue %s, error %v", cond(m, "Available"), res.RequeueAfter, err)
	}
	w.clock.SetTime(now.Add(30 * time.Second))
	m, res, err = w.reconcile()
	if err != nil || cond(m, "Available") != "True Available" || res.RequeueAfter != 0 {
		t.Errorf("30 s later: Available %s, requeue %s, error %v", cond(m, "Available"), res.RequeueAfter, err)
	}
}

func TestCertificatesExpiry(t *testing.T) {
	t.Parallel()
	expiry := func(at string) map[string]string {
		return map[string]string{clusterv1.MachineCertificatesExpiryDateAnnotation: at}
	}
	bootConfig := bootstrapped()
	bootConfig.SetAnnotations(expiry("2027-01-01T00:00:00Z"))
	w := newWorld(t, cluster(), machine(running, func(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" }), bootConfig, provisioned(), node())
	if got := w.settle().Status.CertificatesExpiryDate; !got.Equal(new(metav1.Date(2027, 1, 1, 0, 0, 0, 0, time.UTC))) {
		t.Errorf("from the bootstrap config: %s", got)
	}
	m := &clusterv1.Machine{}
	if err := w.mgmt.Get(t.Context(), machineKey, m); err != nil {
		t.Fatal(err)
	}
	m.Annotations = expiry("2026-06-01T00:00:00Z")
	if err := w.mgmt.Update(t.Context(), m); err != nil {
		t.Fatal(err)
	}
	if got := w.settle().Status.CertificatesExpiryDate; !got.Equal(new(metav1.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC))) {
		t.Errorf("from the Machine: %s", got)
	}
}

func TestNodeEventsTriggerOnlyTheirMachine(t *testing.T) {
	t.Parallel()
	r := &Reconciler{Deps: deps.Deps{Mgmt: indexed(t, machine(running), controlPlaneMachine())}}
	key := client.ObjectKey{Namespace: "ns", Name: "demo"}
	for name, tc := range map[string]struct {
		cluster client.ObjectKey
		node    *corev1.Node
		want    int
	}{
		"by name":                {key, node(func(n *corev1.Node) { n.Spec.ProviderID = "" }), 1},
		"by provider ID":         {key, node(func(n *corev1.Node) { n.Name = "other" }), 1},
		"not of another cluster": {client.ObjectKey{Namespace: "ns", Name: "else"}, node(), 0},
		"not by the annotation of the Node": {key, node(func(n *corev1.Node) {
			n.Name, n.Spec.ProviderID, n.Annotations = "x", "", map[string]string{clusterv1.MachineAnnotation: "m0"}
		}), 0},
	} {
		if got := r.ofNode(t.Context(), tc.cluster, tc.node); len(got) != tc.want {
			t.Errorf("%s: reconciled %v, want %d", name, got, tc.want)
		}
	}
}

func TestClusterTriggersOnlyItsMachines(t *testing.T) {
	t.Parallel()
	elsewhere := machine(func(m *clusterv1.Machine) { m.Name, m.Spec.ClusterName = "m9", "else" })
	r := &Reconciler{Deps: deps.Deps{Mgmt: indexed(t, machine(), controlPlaneMachine(), elsewhere)}}
	if got := r.ofCluster(t.Context(), cluster()); len(got) != 2 {
		t.Errorf("by a Cluster: %v", got)
	}
	if got := r.ofConnection(t.Context(), client.ObjectKey{Namespace: "ns", Name: "else"}, nil); len(got) != 1 || got[0].Name != "m9" {
		t.Errorf("by a connection: %v", got)
	}
	set := &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "set"}, Spec: clusterv1.MachineSetSpec{ClusterName: "demo"}}
	if got := r.ofLabel(clusterv1.MachineSetNameLabel)(t.Context(), set); len(got) != 1 || got[0].Name != "m0" {
		t.Errorf("by a MachineSet: %v", got)
	}
}

func TestStandaloneMachineHasNoUpToDateCondition(t *testing.T) {
	t.Parallel()
	s := &state{machine: machine(), set: &clusterv1.MachineSet{}, now: now}
	if report(s, nil); conditions.Has(s.machine, clusterv1.MachineUpToDateCondition) {
		t.Error("a Machine without MachineDeployment got the condition")
	}
}

// pooled changes a Machine to one of a pool.
func pooled(m *clusterv1.Machine) {
	m.Labels = map[string]string{clusterv1.ClusterNameLabel: "demo", clusterv1.MachinePoolNameLabel: "p"}
	m.OwnerReferences = []metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachinePool", Name: "p", UID: "p", Controller: new(true)}}
	m.Spec.Bootstrap = clusterv1.Bootstrap{DataSecretName: new("")}
}

func TestAMachineOfAPoolFollowsItsKubelet(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		kubelet, wantVersion, wantUpToDate string
	}{
		"as the pool asks":         {"v1.36.0", "v1.36.0", "True UpToDate"},
		"with what a vendor added": {"v1.36.0-eks-1", "v1.36.0-eks-1", "True UpToDate"},
		"newer":                    {"v1.37.1", "v1.37.1", "True UpToDate"},
		"older":                    {"v1.35.9", "v1.35.9", "False NotUpToDate: * Kubelet version v1.35.9, v1.36.0 required"},
		"nonsense":                 {"latest", "v1.36.0", "True UpToDate"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "p"}}
			p.Spec.Template.Spec.Version = "v1.36.0"
			w := newWorld(t, cluster(), p, machine(running, pooled), host("x://m0", map[string]any{"initialization": map[string]any{"provisioned": true}}), node(func(n *corev1.Node) { n.Status.NodeInfo.KubeletVersion = tc.kubelet }))
			m := w.settle()
			if m.Spec.Version != tc.wantVersion || cond(m, clusterv1.MachineUpToDateCondition) != tc.wantUpToDate {
				t.Errorf("version %s, UpToDate %s, want %s, %s", m.Spec.Version, cond(m, clusterv1.MachineUpToDateCondition), tc.wantVersion, tc.wantUpToDate)
			}
			if got := cond(m, clusterv1.MachineBootstrapConfigReadyCondition); got != "True DataSecretProvided" {
				t.Errorf("BootstrapConfigReady %s", got)
			}
		})
	}
}
