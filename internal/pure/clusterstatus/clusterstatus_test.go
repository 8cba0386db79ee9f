// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func object(kind string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: fields}
	if fields == nil {
		u.Object = map[string]any{}
	}
	u.SetKind(kind)
	u.SetName("demo")
	return u
}

func refers(kind, field string) reference.Object {
	return reference.Object{Ref: clusterv1.ContractVersionedObjectReference{APIGroup: "x.io", Kind: kind, Name: "demo"}, Field: field, Obj: object(kind, nil)}
}

// facts are those of a Cluster that is on its way, with both its objects.
func facts(change ...func(*Facts)) Facts {
	f := Facts{
		Cluster: &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}, Generation: 3, Now: now,
		Infrastructure: refers("Net", "spec.infrastructureRef"), ControlPlane: refers("Brain", "spec.controlPlaneRef"),
		Connection: Connection{LastProbe: now, GraceStarts: now},
	}
	for _, c := range change {
		c(&f)
	}
	return f
}

// Changes of facts.
func provisioned(f *Facts) { f.Cluster.Status.Initialization.InfrastructureProvisioned = new(true) }
func initialized(f *Facts) { f.Cluster.Status.Initialization.ControlPlaneInitialized = new(true) }
func deleted(f *Facts)     { f.Cluster.DeletionTimestamp = &metav1.Time{Time: now} }
func reconciled(reason string) func(*Facts) {
	return func(f *Facts) {
		conditions.Set(f.Cluster, now, conditions.New(clusterv1.ClusterTopologyReconciledCondition, metav1.ConditionFalse, reason, "so it is"))
	}
}
func topology(f *Facts) { f.Cluster.Spec.Topology.ClassRef.Name = "class" }
func bare(f *Facts)     { f.Infrastructure, f.ControlPlane = reference.Object{}, reference.Object{} }
func missing(f *Facts) {
	f.Infrastructure.Obj, f.Infrastructure.Missing, f.ControlPlane.Obj, f.ControlPlane.Missing = nil, true, nil, true
}
func unread(f *Facts) { f.Infrastructure.Obj, f.ControlPlane.Obj = nil, nil }
func held(f *Facts) {
	unread(f)
	f.Infrastructure.Held, f.Infrastructure.Err, f.ControlPlane.Held, f.ControlPlane.Err = true, "held by prod", true, "held by prod"
}
func unusable(f *Facts) { f.Infrastructure.Err, f.ControlPlane.Err = "no contract", "no contract" }
func probed(message string) func(*Facts) {
	return func(f *Facts) {
		conditions.Set(f.Cluster, now, conditions.New(clusterv1.ClusterRemoteConnectionProbeCondition, metav1.ConditionFalse, clusterv1.ClusterRemoteConnectionProbeFailedReason, message))
	}
}
func was(conditionType string) func(*Facts) {
	return func(f *Facts) { conditions.Set(f.Cluster, now, conditions.New(conditionType, "True", "Was", "")) }
}

func text(c *metav1.Condition) string {
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestWhatIsReferredTo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		facts                                            Facts
		infrastructure, planeAvailable, planeInitialized string
	}{
		"on its way": {facts(),
			"False NotReady: Waiting for Net demo to be provisioned", "False NotAvailable: Waiting for Brain demo to be initialized", "False NotInitialized: Waiting for Brain demo to be initialized"},
		"done": {facts(provisioned, initialized), "True Ready: ", "True Available: ", "True Initialized: "},
		"nothing, and nothing to come": {facts(bare, provisioned),
			"True Ready: ", "False NotAvailable: Waiting for the first control plane Machine to have a Node", "False NotInitialized: Waiting for the first control plane Machine to have a Node"},
		"nothing, with a control plane": {facts(bare, provisioned, initialized), "True Ready: ", "True Available: ", "True Initialized: "},
		"nothing yet, from a topology": {facts(bare, topology),
			"False ObjectDoesNotExist: Waiting for cluster topology to be reconciled", "False ObjectDoesNotExist: Waiting for cluster topology to be reconciled", "False NotInitialized: Waiting for the first control plane Machine to have a Node"},
		"what does not exist": {facts(missing),
			"False ObjectDoesNotExist: Net demo does not exist: create it, or correct spec.infrastructureRef", "False ObjectDoesNotExist: Brain demo does not exist: create it, or correct spec.controlPlaneRef", "False NotInitialized: Waiting for Brain demo to exist"},
		"what has gone": {facts(missing, provisioned, initialized),
			"False ObjectDeleted: Net demo has been deleted while the Cluster still exists", "False ObjectDeleted: Brain demo has been deleted while the Cluster still exists", "True Initialized: "},
		"deleted after deletion started": {facts(missing, provisioned, initialized, deleted),
			"False ObjectDeleted: Net demo has been deleted", "False ObjectDeleted: Brain demo has been deleted", "True Initialized: "},
		"not looked for in a deletion": {facts(unread, initialized, deleted, was(clusterv1.ClusterInfrastructureReadyCondition)),
			"True Was: ", "Unknown InternalError: Brain demo has not been read", "True Initialized: "},
		"of another owner": {facts(held), "False NotReady: held by prod", "False NotAvailable: held by prod", "False NotInitialized: held by prod"},
		"not to be used":   {facts(unusable), "Unknown InternalError: no contract", "Unknown InternalError: no contract", "Unknown InternalError: no contract"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Report(tc.facts)
			want := []string{tc.infrastructure, tc.planeAvailable, tc.planeInitialized}
			var got []string
			for _, c := range []string{clusterv1.ClusterInfrastructureReadyCondition, clusterv1.ClusterControlPlaneAvailableCondition, clusterv1.ClusterControlPlaneInitializedCondition} {
				got = append(got, text(conditions.Get(tc.facts.Cluster, c)))
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRemoteConnectionProbeNamesTheAwaitedEndpoint(t *testing.T) {
	t.Parallel()
	endpoint := func(host string, port int32) func(*Facts) {
		return func(f *Facts) {
			f.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: host, Port: port}
		}
	}
	unconnected := func(why string) func(*Facts) {
		return func(f *Facts) { f.Connection = Connection{Failing: true, Why: why} }
	}
	const both = "Remote connection not established yet: Waiting for host and port in spec.controlPlaneEndpoint of the Cluster or Net demo or Brain demo"
	for name, tc := range map[string]struct {
		facts Facts
		want  string
	}{
		"not provisioned":             {facts(unconnected("")), "Remote connection not established yet"},
		"provisioned without any":     {facts(unconnected(""), provisioned), both},
		"without a port":              {facts(unconnected(""), provisioned, endpoint("10.0.0.1", 0)), both},
		"without a host":              {facts(unconnected(""), provisioned, endpoint("", 6443)), both},
		"with another cause":          {facts(unconnected("Secret demo-kubeconfig not found"), provisioned), both},
		"after an earlier message":    {facts(unconnected(""), provisioned, probed("Remote connection not established yet: a cause")), both},
		"without objects":             {facts(bare, unconnected(""), provisioned), "Remote connection not established yet: Waiting for host and port in spec.controlPlaneEndpoint of the Cluster"},
		"complete":                    {facts(unconnected(""), provisioned, endpoint("10.0.0.1", 6443)), "Remote connection not established yet"},
		"complete, but not reachable": {facts(unconnected("a cause"), provisioned, endpoint("10.0.0.1", 6443)), "Remote connection not established yet: a cause"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Report(tc.facts)
			want := "False " + clusterv1.ClusterRemoteConnectionProbeFailedReason + ": " + tc.want
			if got := text(conditions.Get(tc.facts.Cluster, clusterv1.ClusterRemoteConnectionProbeCondition)); got != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
			if got := text(conditions.Get(tc.facts.Cluster, clusterv1.ClusterAvailableCondition)); !strings.Contains(got, tc.want) {
				t.Errorf("Available does not show it: %s", got)
			}
		})
	}
}

func TestPhase(t *testing.T) {
	t.Parallel()
	endpoint := func(f *Facts) {
		f.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "10.0.0.1", Port: 6443}
	}
	for want, f := range map[clusterv1.ClusterPhase]Facts{
		clusterv1.ClusterPhasePending:      facts(bare),
		clusterv1.ClusterPhaseProvisioning: facts(provisioned),
		clusterv1.ClusterPhaseProvisioned:  facts(provisioned, endpoint),
		clusterv1.ClusterPhaseDeleting:     facts(provisioned, endpoint, deleted),
	} {
		if Report(f); f.Cluster.Status.Phase != string(want) {
			t.Errorf("phase %s, want %s", f.Cluster.Status.Phase, want)
		}
	}
}

func TestTheStatusIsOfTheGenerationUnlessAPhaseFailed(t *testing.T) {
	t.Parallel()
	for want, failed := range map[int64]bool{3: false, 0: true} {
		f := facts(func(f *Facts) { f.Failed = failed })
		Report(f)
		if got := f.Cluster.Status.ObservedGeneration; got != want {
			t.Errorf("failed %v: observed generation %d, want %d", failed, got, want)
		}
	}
}

// machine is a worker, or one of the control plane, that runs a version.
func machine(name, version string, change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(now)}}
	if version != "" {
		m.Status.NodeInfo = &corev1.NodeSystemInfo{KubeletVersion: version}
	}
	for _, c := range change {
		c(m)
	}
	return m
}

func is(conditionType string, status metav1.ConditionStatus, message string) func(*clusterv1.Machine) {
	return func(m *clusterv1.Machine) {
		conditions.Set(m, now, conditions.New(conditionType, status, "R", message))
	}
}

func owned(m *clusterv1.Machine) {
	m.OwnerReferences = []metav1.OwnerReference{{Kind: "MachineSet", Name: "set", Controller: new(true)}}
}

func TestReplicas(t *testing.T) {
	t.Parallel()
	replicas := func(want, have int32) (spec, all, ready, available, upToDate *int32) {
		return &want, &have, &have, &have, &have
	}
	deployment := &clusterv1.MachineDeployment{}
	st := &deployment.Status
	deployment.Spec.Replicas, st.Replicas, st.ReadyReplicas, st.AvailableReplicas, st.UpToDateReplicas = replicas(3, 2)
	st.Versions = []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 2}}
	lone, of := &clusterv1.MachineSet{}, &clusterv1.MachineSet{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{{Controller: new(true)}}}}
	lone.Spec.Replicas, lone.Status.Replicas, _, _, _ = replicas(1, 1)
	of.Spec.Replicas = new(int32(3))
	pool := &clusterv1.MachinePool{}
	pool.Spec.Replicas, pool.Status.Replicas, pool.Status.ReadyReplicas, _, _ = replicas(5, 4)
	ready := is(clusterv1.MachineReadyCondition, "True", "")

	f := facts(bare, func(f *Facts) {
		f.Members = Members{
			Deployments: []*clusterv1.MachineDeployment{deployment}, Sets: []*clusterv1.MachineSet{lone, of}, Pools: []*clusterv1.MachinePool{pool},
			Workers:              []*clusterv1.Machine{machine("w0", "v1.35.0", ready), machine("w1", "v1.35.0", owned)},
			ControlPlaneMachines: []*clusterv1.Machine{machine("cp0", "v1.36.0", ready, owned), machine("cp1", "")},
		}
	})
	Report(f)
	if diff := cmp.Diff(&clusterv1.WorkersStatus{
		DesiredReplicas: new(int32(10)), Replicas: new(int32(8)), ReadyReplicas: new(int32(7)), AvailableReplicas: new(int32(2)), UpToDateReplicas: new(int32(2)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.35.0", Replicas: 1}, {Version: "v1.36.0", Replicas: 2}},
	}, f.Cluster.Status.Workers); diff != "" {
		t.Errorf("workers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&clusterv1.ClusterControlPlaneStatus{
		DesiredReplicas: new(int32(2)), Replicas: new(int32(2)), ReadyReplicas: new(int32(1)), AvailableReplicas: new(int32(0)), UpToDateReplicas: new(int32(0)),
		Versions: []clusterv1.StatusVersion{{Version: "v1.36.0", Replicas: 1}},
	}, f.Cluster.Status.ControlPlane); diff != "" {
		t.Errorf("control plane (-want +got):\n%s", diff)
	}
}

// TestThePlanOfAnUpgradeStays when replicas are counted: it is another controller's.
func TestThePlanOfAnUpgradeStays(t *testing.T) {
	t.Parallel()
	f := facts()
	f.ControlPlane.Obj = object("Brain", map[string]any{})
	plan := []clusterv1.StatusUpgradePlanVersion{{Version: "v1.37.0"}}
	f.Cluster.Status.ControlPlane = &clusterv1.ClusterControlPlaneStatus{UpgradePlan: plan}
	f.Cluster.Status.Workers = &clusterv1.WorkersStatus{UpgradePlan: plan}
	Report(f)
	got := [][]clusterv1.StatusUpgradePlanVersion{f.Cluster.Status.ControlPlane.UpgradePlan, f.Cluster.Status.Workers.UpgradePlan}
	if diff := cmp.Diff([][]clusterv1.StatusUpgradePlanVersion{plan, plan}, got); diff != "" {
		t.Errorf("plans (-want +got):\n%s", diff)
	}
}

func TestReplicasOfAControlPlaneObjectStayWhenItIsNotRead(t *testing.T) {
	t.Parallel()
	known := &clusterv1.ClusterControlPlaneStatus{Replicas: new(int32(3))}
	for name, tc := range map[string]struct {
		change func(*Facts)
		want   *clusterv1.ClusterControlPlaneStatus
	}{
		"not read":        {unread, known},
		"reports nothing": {func(*Facts) {}, nil},
		"there is none":   {bare, nil},
	} {
		f := facts(tc.change, func(f *Facts) { f.Cluster.Status.ControlPlane = known })
		Report(f)
		if diff := cmp.Diff(tc.want, f.Cluster.Status.ControlPlane); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestConditionsOfMembers(t *testing.T) {
	t.Parallel()
	unhealthy := is(clusterv1.MachineHealthCheckSucceededCondition, "False", "")
	replaced := is(clusterv1.MachineOwnerRemediatedCondition, "False", "Waiting for its deletion")
	reporting := func(condition string) reference.Object {
		return reference.Object{
			Ref: clusterv1.ContractVersionedObjectReference{Kind: "Brain", Name: "demo"},
			Obj: object("Brain", map[string]any{"status": map[string]any{"conditions": []any{map[string]any{"type": condition, "status": "True", "reason": condition, "message": "one to go"}}}}),
		}
	}
	old := machine("old", "")
	old.CreationTimestamp = metav1.NewTime(now.Add(-youngMachine))
	for name, tc := range map[string]struct {
		change    func(*Facts)
		condition string
		want      string
	}{
		"no workers are available": {func(*Facts) {}, clusterv1.ClusterWorkersAvailableCondition, "True NoWorkers: "},
		"a worker that is not ready": {func(f *Facts) {
			f.Workers = []*clusterv1.Machine{machine("w0", "", is(clusterv1.MachineReadyCondition, "False", "no Node"))}
		}, clusterv1.ClusterWorkerMachinesReadyCondition, "False NotReady: * Machine w0: no Node"},
		"a Machine that was just made":      {func(f *Facts) { f.Workers = []*clusterv1.Machine{machine("w0", "")} }, clusterv1.ClusterWorkerMachinesUpToDateCondition, "True NoReplicas: "},
		"a Machine without a health check":  {func(f *Facts) { f.Workers = []*clusterv1.Machine{old} }, clusterv1.ClusterWorkerMachinesUpToDateCondition, "Unknown UpToDateUnknown: * Machine old: Condition UpToDate not yet reported"},
		"a control plane that rolls out":    {func(f *Facts) { f.ControlPlane = reporting("RollingOut") }, clusterv1.ClusterRollingOutCondition, "True RollingOut: * Brain demo: one to go"},
		"one that reports only its scaling": {func(f *Facts) { f.ControlPlane = reporting("ScalingUp") }, clusterv1.ClusterScalingUpCondition, "True ScalingUp: * Brain demo: one to go"},
		"one that does not report that":     {func(f *Facts) { f.ControlPlane = reporting("RollingOut") }, clusterv1.ClusterScalingUpCondition, "False NotScalingUp: "},
		"one without a report":              {func(*Facts) {}, clusterv1.ClusterRollingOutCondition, "False NotRollingOut: "},
		"a Machine that is being replaced": {func(f *Facts) {
			f.Workers = []*clusterv1.Machine{machine("w0", "", unhealthy, replaced), machine("w1", "", unhealthy)}
		}, clusterv1.ClusterRemediatingCondition, "True Remediating: * Machine w0: Waiting for its deletion"},
		"an unhealthy one that is not": {func(f *Facts) { f.Workers = []*clusterv1.Machine{machine("w1", "", unhealthy)} }, clusterv1.ClusterRemediatingCondition, "False NotRemediating: Not healthy, and not to be replaced: w1"},
		"a Cluster that is deleted":    {func(f *Facts) { deleted(f); f.Deletion = Stage{"Waiting", "for workers"} }, clusterv1.ClusterDeletingCondition, "True Waiting: for workers"},
		"and one that is not":          {func(*Facts) {}, clusterv1.ClusterDeletingCondition, "False NotDeleting: "},
		"all of it together":           {func(f *Facts) { provisioned(f); initialized(f) }, clusterv1.ClusterAvailableCondition, "True Available: "},
		"all of it, except a gate": {func(f *Facts) {
			provisioned(f)
			initialized(f)
			f.Cluster.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "Backup"}}
		}, clusterv1.ClusterAvailableCondition, "Unknown AvailableUnknown: * Backup: Condition Backup not yet reported"},
		"a gate that must not be": {func(f *Facts) {
			provisioned(f)
			initialized(f)
			was("Broken")(f)
			f.Cluster.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "Broken", Polarity: clusterv1.NegativePolarityCondition}}
		}, clusterv1.ClusterAvailableCondition, "False NotAvailable: * Broken: No additional info provided"},
		"except a gate of its class": {func(f *Facts) {
			provisioned(f)
			initialized(f)
			f.ClassGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "Backup"}}
		}, clusterv1.ClusterAvailableCondition, "Unknown AvailableUnknown: * Backup: Condition Backup not yet reported"},
		"its own gates replace those of its class": {func(f *Facts) {
			provisioned(f)
			initialized(f)
			was("Fine")(f)
			f.Cluster.Spec.AvailabilityGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "Fine"}}
			f.ClassGates = []clusterv1.ClusterAvailabilityGate{{ConditionType: "Backup"}}
		}, clusterv1.ClusterAvailableCondition, "True Available: "},
		"a topology that is upgraded": {func(f *Facts) { provisioned(f); initialized(f); topology(f); reconciled("ClusterUpgrading")(f) },
			clusterv1.ClusterAvailableCondition, "True Available: * TopologyReconciled: so it is"},
		"a topology that failed": {func(f *Facts) { provisioned(f); initialized(f); topology(f); reconciled("ReconcileFailed")(f) },
			clusterv1.ClusterAvailableCondition, "False NotAvailable: * TopologyReconciled: so it is"},
		"a class that is not ready": {func(f *Facts) {
			provisioned(f)
			initialized(f)
			topology(f)
			reconciled("ClusterClassNotReconciled")(f)
		}, clusterv1.ClusterAvailableCondition, "False NotAvailable: * TopologyReconciled: so it is"},
		"a topology has one condition more": {func(f *Facts) { provisioned(f); initialized(f); topology(f) }, clusterv1.ClusterAvailableCondition, "Unknown AvailableUnknown: * TopologyReconciled: Condition TopologyReconciled not yet reported"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := facts(tc.change)
			Report(f)
			if diff := cmp.Diff(tc.want, text(conditions.Get(f.Cluster, tc.condition))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.condition, diff)
			}
		})
	}
}

func TestStatusLimitsListedVersions(t *testing.T) {
	t.Parallel()
	var many []clusterv1.StatusVersion
	for i := range 40 {
		many = append(many, clusterv1.StatusVersion{Version: fmt.Sprintf("v1.%d.0", i), Replicas: 1})
	}
	f := facts(func(f *Facts) { f.Versions = many })
	f.Deployments = []*clusterv1.MachineDeployment{{Status: clusterv1.MachineDeploymentStatus{Versions: many}}}
	Report(f)
	st := f.Cluster.Status
	for name, got := range map[string][]clusterv1.StatusVersion{"control plane": st.ControlPlane.Versions, "workers": st.Workers.Versions} {
		if len(got) != 32 {
			t.Errorf("%s: %d versions, want 32: the API refuses the whole status with more", name, len(got))
		}
	}
}
