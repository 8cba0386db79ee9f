// SPDX-License-Identifier: Apache-2.0

package machineset

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/builder"
)

func TestReconcileMakesAMachineAfterWhatItRefersTo(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machineSet(1), template("BootTemplate", "bt"), template("HostTemplate", "ht"))
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"create Boot ms-n1", "create Host ms-n1", "create Machine ms-n1", "patch status of MachineSet ms"}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	m := get(w, &clusterv1.Machine{}, "ms-n1")
	wantMeta := machine("ms-n1").ObjectMeta
	wantMeta.ResourceVersion, wantMeta.ManagedFields = m.ResourceVersion, m.ManagedFields
	if diff := cmp.Diff(wantMeta, m.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(machine("ms-n1").Spec, m.Spec); diff != "" {
		t.Errorf("spec (-want +got):\n%s", diff)
	}
	host := get(w, thing("Host", "", nil), "ms-n1")
	if owners := host.GetOwnerReferences(); len(owners) != 1 || owners[0].Kind != "MachineSet" || owners[0].Controller != nil {
		t.Errorf("owners of the host %v, want the MachineSet, not as controller", owners)
	}
	if host.GetLabels()["app"] != "x" || host.GetAnnotations()["note"] != "1" {
		t.Errorf("the host has labels %v and annotations %v, want those of the template too", host.GetLabels(), host.GetAnnotations())
	}
	st := w.set().Status
	if *st.Replicas != 1 || *st.ReadyReplicas != 0 || st.Selector != "app=x" || st.ObservedGeneration != 3 {
		t.Errorf("status = %+v", st)
	}
	if diff := cmp.Diff([]clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 1}}, st.Versions); diff != "" {
		t.Errorf("versions (-want +got):\n%s", diff)
	}
	if got := <-w.events.Events; got != "Normal SuccessfulCreate create ms-n1: have 0, want 1" {
		t.Errorf("event %q", got)
	}
}

func TestReconcileNamesMachinesByTheTemplate(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ template, wantEvent, wantErr string }{
		"a good one": {template: "{{ .cluster.name }}-of-{{ .random }}", wantEvent: "Normal SuccessfulCreate create c-of-n1: have 0, want 1"},
		"a bad one":  {template: "{{", wantErr: "scale: read spec.machineNaming.template: is no Go template: template: name:1: unclosed action"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			set := machineSet(1)
			set.Spec.MachineNaming.Template = tc.template
			w := newWorld(t, cluster(), set, template("BootTemplate", "bt"), template("HostTemplate", "ht"))
			_, err := w.reconcile()
			if (err == nil) != (tc.wantErr == "") || err != nil && err.Error() != tc.wantErr {
				t.Errorf("error %v, want %q", err, tc.wantErr)
			}
			if tc.wantErr == "" {
				get(w, &clusterv1.Machine{}, "c-of-n1")
				if got := <-w.events.Events; got != tc.wantEvent {
					t.Errorf("event %q, want %q", got, tc.wantEvent)
				}
			}
		})
	}
}

func TestReconcileWritesNothingInSteadyState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withPlane(), plane("v1.36.0", "v1.36.0"), machineSet(2), template("BootTemplate", "bt"), template("HostTemplate", "ht"))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if writes, err := w.reconcile(); err != nil || len(writes) > 0 {
			t.Fatalf("writes %v, error %v, want none", writes, err)
		}
	}
}

func TestReconcileStoresTheFinalizerBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	set := machineSet(1)
	set.Finalizers, set.OwnerReferences, set.Labels = nil, nil, nil
	w := newWorld(t, cluster(), set, template("BootTemplate", "bt"), template("HostTemplate", "ht"))
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	got := w.set()
	if len(got.Finalizers) != 1 || len(got.OwnerReferences) != 1 || got.OwnerReferences[0].UID != "uid-c" || got.Labels[clusterv1.ClusterNameLabel] != "c" {
		t.Errorf("metadata = %+v", got.ObjectMeta)
	}
	writes, err = w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"patch BootTemplate bt", "patch HostTemplate ht", "create Boot ms-n1", "create Host ms-n1", "create Machine ms-n1", "patch status of MachineSet ms"}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestReconcileLeavesNothingBehindWhenACreationFails(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		fail    string
		writes  []string
		wantErr string
		wantOld string // reported to clients of v1beta1
	}{
		"of the Machine": {
			fail:    "create Machine ms-n1",
			writes:  []string{"create Boot ms-n1", "create Host ms-n1", "create Machine ms-n1", "delete Host ms-n1", "delete Boot ms-n1", "patch status of MachineSet ms"},
			wantErr: "scale: create ms-n1: have 0, want 2: create Machine ns/ms-n1: quota",
			wantOld: "MachinesCreated False Error MachineCreationFailed: create Machine ns/*: quota",
		},
		"of the infrastructure": {
			fail:    "create Host ms-n1",
			writes:  []string{"create Boot ms-n1", "create Host ms-n1", "delete Boot ms-n1", "patch status of MachineSet ms"},
			wantErr: "scale: create ms-n1: have 0, want 2: create Host ns/ms-n1: quota",
			wantOld: "MachinesCreated False Error InfrastructureTemplateCloningFailed: create Host ns/*: quota",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), machineSet(2), template("BootTemplate", "bt"), template("HostTemplate", "ht"))
			w.fail[tc.fail] = errors.New("quota")
			writes, err := w.reconcile()
			if err == nil || err.Error() != tc.wantErr {
				t.Errorf("error %v, want %s", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.writes, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
			st := w.set().Status
			if st.Replicas == nil || *st.Replicas != 0 || st.ObservedGeneration != 0 {
				t.Errorf("status = %+v, want no replicas, and the generation not yet observed", st)
			}
			if old := builder.Deprecated(w.set().Status.Deprecated.V1Beta1.Conditions); !slices.Contains(old, tc.wantOld) {
				t.Errorf("conditions for clients of v1beta1 %q, want %q among them", old, tc.wantOld)
			}
		})
	}
}

func TestReconcileDeletesWhatAnInterruptedCreationLeft(t *testing.T) {
	t.Parallel()
	left := func() *unstructured.Unstructured {
		host := thing("Host", "ms-lost", nil)
		host.SetLabels(machine("").Labels)
		host.SetUID("uid-lost")
		host.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "MachineSet", Name: "ms", UID: "uid-ms"}})
		return host
	}
	taken := thing("Host", "other", nil)
	taken.SetLabels(machine("").Labels)
	taken.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Machine", Name: "other", UID: "m", Controller: new(true)}})
	settled := machineSet(0)
	settled.Status.ObservedGeneration = settled.Generation
	tests := map[string]struct {
		w    *world
		want []string
	}{
		"before it creates again": {
			w:    newWorld(t, cluster(), machineSet(1), left(), taken, template("BootTemplate", "bt"), template("HostTemplate", "ht")),
			want: []string{"delete Host ms-lost", "create Boot ms-n1", "create Host ms-n1", "create Machine ms-n1"},
		},
		"when nothing can be created":                {w: newWorld(t, cluster(), machineSet(1), left()), want: []string{"delete Host ms-lost"}},
		"when none is wanted any more":               {w: newWorld(t, cluster(), machineSet(0), left()), want: []string{"delete Host ms-lost"}},
		"and does not search for it in steady state": {w: newWorld(t, cluster(), settled, left())},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes, err := tc.w.reconcile()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(append(tc.want, "patch status of MachineSet ms"), writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReconcileSaysWhatBlocksCreation(t *testing.T) {
	t.Parallel()
	disabled := machineSet(1)
	disabled.Annotations = map[string]string{clusterv1.DisableMachineCreateAnnotation: "true"}
	skipping := template("BootTemplate", "bt")
	skipping.SetAnnotations(map[string]string{clusterv1.MachineSetSkipPreflightChecksAnnotation: "ControlPlaneIsStable"})
	bootless := machineSet(1)
	bootless.Spec.Template.Spec.Bootstrap.ConfigRef = clusterv1.ContractVersionedObjectReference{}
	foreign, stolen := machineSet(1), template("HostTemplate", "ht")
	foreign.Spec.Template.Spec.Bootstrap.ConfigRef.APIGroup = clusterv1.GroupVersion().Group
	stolen.SetOwnerReferences([]metav1.OwnerReference{{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster", Name: "prod", UID: "p"}})
	const head = "Scaling up from 0 to 1 replicas is blocked because:\n* "
	tests := map[string]struct {
		w       *world
		want    string // message of ScalingUp
		wantErr string
	}{
		"no Cluster": {w: newWorld(t, machineSet(1)), want: head + "Cluster c, named by spec.clusterName, does not exist: create it, or correct the field"},
		"an annotation": {
			w:    newWorld(t, cluster(), disabled),
			want: head + "annotation cluster.x-k8s.io/disable-machine-create is set",
		},
		"templates that do not exist": {
			w: newWorld(t, cluster(), machineSet(1)),
			want: head + "BootTemplate bt, named by spec.template.spec.bootstrap.configRef, does not exist: create it, or correct the reference\n" +
				"* HostTemplate ht, named by spec.template.spec.infrastructureRef, does not exist: create it, or correct the reference",
		},
		"templates of another Cluster, or of no provider": {
			w: newWorld(t, cluster(), foreign, stolen),
			want: head + "spec.template.spec.bootstrap.configRef: kind BootTemplate.cluster.x-k8s.io: group cluster.x-k8s.io is Cluster API's own, and not a provider's, so it cannot be the bootstrap configuration of a Machine\n" +
				"* spec.template.spec.infrastructureRef: HostTemplate ns/ht is held by Cluster prod: refer to another object, or remove that owner or label",
		},
		"no bootstrap at all": {
			w:    newWorld(t, cluster(), bootless, template("HostTemplate", "ht")),
			want: head + "spec.template.spec.bootstrap has neither configRef nor dataSecretName",
		},
		"a control plane being made": {
			w:    newWorld(t, withPlane(), plane("v1.36.0"), machineSet(1), template("BootTemplate", "bt"), template("HostTemplate", "ht")),
			want: head + "Plane cp is provisioning (\"ControlPlaneIsStable\" preflight check failed)",
		},
		"a control plane that is not there": {
			w:    newWorld(t, withPlane(), machineSet(1), template("BootTemplate", "bt"), template("HostTemplate", "ht")),
			want: head + "Plane cp, the control plane of Cluster c, does not exist: create it, or correct spec.controlPlaneRef of the Cluster",
		},
		"a control plane being upgraded": {
			w:    newWorld(t, withPlane(), plane("v1.36.0", "v1.35.0"), machineSet(1), template("BootTemplate", "bt"), template("HostTemplate", "ht")),
			want: head + "Plane cp is upgrading (\"ControlPlaneIsStable\" preflight check failed)",
		},
		"nothing, because the check is skipped": {w: newWorld(t, withPlane(), plane("v1.36.0"), machineSet(1), skipping, template("HostTemplate", "ht"))},
		"a control plane that talks nonsense": {
			w:       newWorld(t, withPlane(), plane("latest"), machineSet(1), template("BootTemplate", "bt"), template("HostTemplate", "ht")),
			wantErr: "preflight: read spec.version of Plane cp",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			writes, err := tc.w.reconcile()
			if (err == nil) != (tc.wantErr == "") || err != nil && !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("got error %v, want %q", err, tc.wantErr)
			}
			blocked := tc.want != "" || tc.wantErr != ""
			if blocked && len(writes) != 1 {
				t.Errorf("writes %v, want only the status", writes)
			}
			if got := conditions.Message(tc.w.set(), clusterv1.MachineSetScalingUpCondition); tc.wantErr == "" && got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestControlPlaneTriggersWaitingSets(t *testing.T) {
	t.Parallel()
	set := func(name string, have *int32) *clusterv1.MachineSet {
		s := machineSet(1)
		s.Name, s.Status.Replicas = name, have
		return s
	}
	mends, foreign := set("repairs", new(int32(1))), set("foreign", nil)
	conditions.Set(mends, time.Now(), metav1.Condition{Type: clusterv1.MachineSetRemediatingCondition, Status: metav1.ConditionTrue, Reason: "R"})
	foreign.Spec.ClusterName = "d"
	updates := set("updates", new(int32(1)))
	updates.Annotations = map[string]string{clusterv1.AcknowledgedMoveAnnotation: "m"}
	w := newWorld(t, set("grows", new(int32(0))), mends, set("new", nil), set("rests", new(int32(1))), set("shrinks", new(int32(2))), updates, foreign)
	cp := plane("v1.36.0")
	cp.SetLabels(map[string]string{clusterv1.ClusterNameLabel: "c"})
	var got []string
	for _, req := range w.r.ofControlPlane(t.Context(), cp) {
		got = append(got, req.Name)
	}
	if diff := cmp.Diff([]string{"grows", "new", "repairs", "updates"}, got); diff != "" {
		t.Errorf("reconciled (-want +got):\n%s", diff)
	}
}

func TestReconcileScalesDown(t *testing.T) {
	t.Parallel()
	healthy := machine("b")
	healthy.Status.NodeRef.Name = "b"
	w := newWorld(t, cluster(), machineSet(1), machine("a"), healthy)
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete Machine a", "patch status of MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c := conditions.Get(w.set(), clusterv1.MachineSetScalingDownCondition)
	if c.Status != metav1.ConditionTrue || c.Message != "Scaling down from 2 to 1 replicas" {
		t.Errorf("condition %+v", c)
	}
	if writes, err = w.reconcile(); err != nil || len(writes) > 0 {
		t.Errorf("writes %v, error %v: want nothing while the Machine is going", writes, err)
	}
}

// TestADeletionThatOrphansKeepsTheMachines is kubectl delete --cascade=orphan.
func TestADeletionThatOrphansKeepsTheMachines(t *testing.T) {
	t.Parallel()
	set := machineSet(1)
	set.Finalizers = append(set.Finalizers, metav1.FinalizerOrphanDependents)
	w := newWorld(t, cluster(), set, machine("a"))
	if err := w.c.Delete(t.Context(), w.set()); err != nil {
		t.Fatal(err)
	}
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{metav1.FinalizerOrphanDependents}, w.set().Finalizers); diff != "" {
		t.Errorf("finalizers (-want +got):\n%s", diff)
	}
}

func TestReconcileDeletesItsMachinesBeforeItGoes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machineSet(1), machine("a"))
	if err := w.c.Delete(t.Context(), w.set()); err != nil {
		t.Fatal(err)
	}
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"delete Machine a", "patch status of MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	c := conditions.Get(w.set(), clusterv1.MachineSetDeletingCondition)
	if c.Status != metav1.ConditionTrue || c.Message != "Waiting for 1 Machine to be deleted: a" {
		t.Errorf("condition %+v", c)
	}
	m := get(w, &clusterv1.Machine{}, "a")
	m.Finalizers = nil
	w.update(m)
	if writes, err = w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if err := w.c.Get(t.Context(), keyOf("ms"), &clusterv1.MachineSet{}); err == nil {
		t.Error("the MachineSet is still there")
	}
}

// TestReconcileRequeuesAfterEachBatch checks that a corrected number of replicas
// takes effect before the mistyped one is reached.
func TestReconcileRequeuesAfterEachBatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machineSet(1_000_000), template("BootTemplate", "bt"), template("HostTemplate", "ht"))
	w.r.Recorder = events.NewFakeRecorder(1000)
	batch := func(verb string) {
		t.Helper()
		writes, err := w.reconcile()
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, line := range writes {
			if strings.HasPrefix(line, verb+" Machine ") {
				n++
			}
		}
		if n != 10 {
			t.Errorf("%d times %s in one reconcile, want 10", n, verb)
		}
	}
	batch("create")
	batch("create")
	set := w.set()
	set.Spec.Template.Labels["team"] = "red"
	w.update(set)
	batch("patch")
	set = w.set()
	set.Spec.Replicas = new(int32(0))
	w.update(set)
	batch("delete")
	if err := w.c.Delete(t.Context(), w.set()); err != nil {
		t.Fatal(err)
	}
	batch("delete")
}

func TestReconcileAdoptsOrphans(t *testing.T) {
	t.Parallel()
	orphan, foreign, other := machine("a"), machine("f"), machine("o")
	orphan.OwnerReferences, foreign.Spec.ClusterName, foreign.OwnerReferences = nil, "d", nil
	other.OwnerReferences[0].UID = "another"
	w := newWorld(t, cluster(), machineSet(1), orphan, foreign, other)
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Machine a", "patch status of MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if !metav1.IsControlledBy(get(w, &clusterv1.Machine{}, "a"), w.set()) {
		t.Error("the orphan has no controller")
	}
}

// TestReconcileCreatesNoMachineNextToAnOrphan has a write that is refused for now: the
// Machine counts as soon as it is adopted, and another one would be too many.
func TestReconcileCreatesNoMachineNextToAnOrphan(t *testing.T) {
	t.Parallel()
	a, b := machine("a"), machine("b")
	a.OwnerReferences, b.OwnerReferences = nil, nil
	w := newWorld(t, cluster(), machineSet(2), template("HostTemplate", "ht"), template("BootTemplate", "bt"), a, b)
	w.fail["patch Machine a"] = errors.New("no")
	writes, err := w.reconcile()
	if err == nil {
		t.Error("no error: the adoption would not be tried again")
	}
	if diff := cmp.Diff([]string{"patch Machine a", "patch Machine b", "patch status of MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
}

func TestReconcileBringsInPlaceChangesToMachines(t *testing.T) {
	t.Parallel()
	w := newWorld(t, cluster(), machineSet(1), template("BootTemplate", "bt"), template("HostTemplate", "ht"))
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	set := w.set()
	set.Spec.Template.Labels["team"] = "red"
	set.Spec.Template.Annotations = nil
	set.Spec.Template.Spec.MinReadySeconds = new(int32(7))
	set.Spec.Template.Spec.Deletion.NodeDrainTimeoutSeconds = new(int32(60))
	set.Spec.Template.Spec.ReadinessGates = []clusterv1.MachineReadinessGate{{ConditionType: "Gate"}}
	set.Spec.Template.Spec.Version = "v1.99.0" // not in place
	w.update(set)
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch Boot ms-n1", "patch Host ms-n1", "patch Machine ms-n1"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	m := get(w, &clusterv1.Machine{}, "ms-n1")
	if m.Labels["team"] != "red" || m.Annotations["note"] != "" || *m.Spec.MinReadySeconds != 7 || *m.Spec.Deletion.NodeDrainTimeoutSeconds != 60 || len(m.Spec.ReadinessGates) != 1 {
		t.Errorf("Machine %+v %+v", m.ObjectMeta, m.Spec)
	}
	if m.Spec.Version != "v1.36.0" {
		t.Errorf("version %s: it must not change in place", m.Spec.Version)
	}
	host := get(w, thing("Host", "", nil), "ms-n1")
	if _, stays := host.GetAnnotations()["note"]; stays || host.GetLabels()["team"] != "red" || host.GetAnnotations()[clusterv1.TemplateClonedFromNameAnnotation] != "ht" {
		t.Errorf("host labels %v annotations %v", host.GetLabels(), host.GetAnnotations())
	}
	if writes, err = w.reconcile(); err != nil || len(writes) > 0 {
		t.Errorf("writes %v, error %v, want none", writes, err)
	}
}

func TestReconcileReplacesUnhealthyMachines(t *testing.T) {
	t.Parallel()
	sick := func(name string) *clusterv1.Machine {
		m := withCondition(withCondition(machine(name), clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
		m.CreationTimestamp = metav1.NewTime(time.Unix(int64(name[0]), 0))
		return m
	}
	md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md"}}
	md.Spec.Remediation.MaxInFlight = new(intstr.FromInt32(1))
	w := newWorld(t, cluster(), md, machineSet(2), sick("a"), sick("b"), template("BootTemplate", "bt"), template("HostTemplate", "ht"))
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"patch status of Machine b", "delete Machine b", "patch status of Machine a", "patch status of MachineSet ms"}
	if diff := cmp.Diff(want, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if got := conditions.Reason(get(w, &clusterv1.Machine{}, "b"), clusterv1.MachineOwnerRemediatedCondition); got != clusterv1.MachineSetMachineRemediationMachineDeletingReason {
		t.Errorf("reason %s", got)
	}
	if got := conditions.Reason(get(w, &clusterv1.Machine{}, "a"), clusterv1.MachineOwnerRemediatedCondition); got != clusterv1.MachineSetMachineRemediationDeferredReason {
		t.Errorf("reason %s", got)
	}
	if !conditions.IsTrue(w.set(), clusterv1.MachineSetRemediatingCondition) {
		t.Error("Remediating is not True")
	}
}

// TestReconcileReplacesInTheSetThatIsNewest checks that remediation does not leave
// the Machines of a set that a rollout has just created to that rollout, although
// its MachineDeployment has not recorded the revision yet.
func TestReconcileReplacesInTheSetThatIsNewest(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		revision string // of the MachineDeployment; the set is the second
		want     string
	}{
		"before that is noted":    {"1", clusterv1.MachineSetMachineRemediationMachineDeletingReason},
		"when it is":              {"2", clusterv1.MachineSetMachineRemediationMachineDeletingReason},
		"but not in an older one": {"3", clusterv1.MachineSetMachineCannotBeRemediatedReason},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			md := &clusterv1.MachineDeployment{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "md", Annotations: map[string]string{clusterv1.RevisionAnnotation: tc.revision}}}
			set := machineSet(1)
			set.Annotations = map[string]string{clusterv1.RevisionAnnotation: "2"}
			sick := withCondition(withCondition(machine("a"), clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
			w := newWorld(t, cluster(), md, set, sick, template("BootTemplate", "bt"), template("HostTemplate", "ht"))
			if _, err := w.reconcile(); err != nil {
				t.Fatal(err)
			}
			if got := conditions.Reason(get(w, &clusterv1.Machine{}, "a"), clusterv1.MachineOwnerRemediatedCondition); got != tc.want {
				t.Errorf("reason %s, want %s", got, tc.want)
			}
		})
	}
}

func TestReconcileLeavesAPausedSetAlone(t *testing.T) {
	t.Parallel()
	c := cluster()
	c.Spec.Paused = new(true)
	set := machineSet(1)
	set.Finalizers = nil
	w := newWorld(t, c, set)
	writes, err := w.reconcile()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"patch MachineSet ms", "patch status of MachineSet ms"}, writes); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}
	if set := w.set(); !conditions.IsTrue(set, clusterv1.PausedCondition) || len(set.Finalizers) != 1 {
		t.Errorf("finalizers %v, conditions %v; want one, and Paused", set.Finalizers, set.Status.Conditions)
	}
}

func TestReconcileIgnoresHealthReportedBeforeConnection(t *testing.T) {
	t.Parallel()
	sick := withCondition(withCondition(machine("a"), clusterv1.MachineHealthCheckSucceededCondition, metav1.ConditionFalse), clusterv1.MachineOwnerRemediatedCondition, metav1.ConditionFalse)
	sick.Status.NodeRef.Name = "n"
	w := newWorld(t, cluster(), machineSet(1), sick, template("BootTemplate", "bt"), template("HostTemplate", "ht"))
	said := conditions.Get(sick, clusterv1.MachineHealthCheckSucceededCondition).LastTransitionTime
	for _, answering := range []time.Time{{}, said.Add(time.Minute)} {
		w.workload.health.Answering = answering
		if _, err := w.reconcile(); err != nil {
			t.Fatal(err)
		}
		if m := get(w, &clusterv1.Machine{}, "a"); !m.DeletionTimestamp.IsZero() {
			t.Errorf("the cluster answers since %s: Machine a is deleted", answering)
		}
	}
	w.workload.health.Answering = said.Time
	if _, err := w.reconcile(); err != nil {
		t.Fatal(err)
	}
	if m := get(w, &clusterv1.Machine{}, "a"); m.DeletionTimestamp.IsZero() {
		t.Error("by a health check of this connection Machine a is not deleted")
	}
}

// BenchmarkSynchronise synchronizes a thousand Machines that are up to date.
func BenchmarkSynchronise(b *testing.B) {
	s := &state{set: machineSet(1000)}
	for range 1000 {
		s.machines = append(s.machines, machine("m"))
	}
	r := &Reconciler{} // with nothing that could write
	b.ReportAllocs()
	for b.Loop() {
		if _, err := r.synchronise(b.Context(), s); err != nil {
			b.Fatal(err)
		}
	}
}

func TestReconcileContinuesAfterOneFailure(t *testing.T) {
	t.Parallel()
	late := machineSet(2)
	late.Spec.Template.Spec.MinReadySeconds = new(int32(5))
	tests := map[string]struct {
		set     *clusterv1.MachineSet
		fail    string
		want    []string
		wantErr string
	}{
		"a patch": {
			set: late, fail: "patch Machine a",
			want:    []string{"patch Machine a", "patch Machine b", "patch status of MachineSet ms"},
			wantErr: "synchronise: Machine a: patch *v1beta2.Machine ns/a: no",
		},
		"a deletion": {
			set: machineSet(0), fail: "delete Machine a",
			want:    []string{"delete Machine a", "delete Machine b", "patch status of MachineSet ms"},
			wantErr: "scale: delete a: have 2, want 0: no",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, cluster(), tc.set, machine("a"), machine("b"))
			w.fail[tc.fail] = errors.New("no")
			writes, err := w.reconcile()
			if err == nil || err.Error() != tc.wantErr {
				t.Errorf("error %v, want %s", err, tc.wantErr)
			}
			if diff := cmp.Diff(tc.want, writes); diff != "" {
				t.Errorf("writes (-want +got):\n%s", diff)
			}
		})
	}
}
