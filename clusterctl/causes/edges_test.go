// SPDX-License-Identifier: Apache-2.0

package causes

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	ofCore      = "group: cluster.x-k8s.io, namespace: fleet"
	ofInfra     = "group: infrastructure.example.com, namespace: fleet"
	ofBootstrap = "group: bootstrap.example.com, namespace: fleet"
	ofPlane     = "group: controlplane.example.com, namespace: fleet"
)

// objectsOf reads objects in the form of the recordings.
func objectsOf(t *testing.T, lines ...string) (objects []Object) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte("- "+strings.Join(lines, "\n- ")), &objects); err != nil {
		t.Fatal(err)
	}
	return objects
}

// object is an object of a kind in a group with further fields.
func object(of, kind, name, fields string) string {
	return fmt.Sprintf("{%s, kind: %s, name: %s, uid: %[3]s, %[4]s}", of, kind, name, fields)
}

// failing is the field with one condition.
func failing(conditionType, status, reason, message string) string {
	return fmt.Sprintf("conditions: [{type: %s, status: '%s', reason: %s, message: '%s'}]", conditionType, status, reason, message)
}

// refs is the field with references, each a field, a group and KIND/NAME.
func refs(all ...[3]string) string {
	var out []string
	for _, r := range all {
		kind, name, _ := strings.Cut(r[2], "/")
		out = append(out, fmt.Sprintf("{field: %s, to: {%s, kind: %s, name: %s}}", r[0], r[1], kind, name))
	}
	return "refs: [" + strings.Join(out, ", ") + "]"
}

func TestFindFollowsWhatAConditionDependsOn(t *testing.T) {
	t.Parallel()
	machine := object(ofCore, "Machine", "m", failing("InfrastructureReady", "False", "NotReady", "")[:len(failing("InfrastructureReady", "False", "NotReady", ""))-1]+
		", {type: BootstrapConfigReady, status: 'False', reason: NotReady}], "+refs([3]string{fieldInfrastructure, ofInfra, "FakeMachine/i"}, [3]string{fieldBootstrap, ofBootstrap, "FakeConfig/b"}))
	cluster := func(fields string) string { return object(ofCore, "Cluster", "demo", fields) }
	toInfrastructure := refs([3]string{fieldInfrastructure, ofInfra, "FakeCluster/c"})
	for name, tc := range map[string]struct {
		objects []string // the first is explained
		want    string
		unsure  bool
	}{
		"an infrastructure machine that waits for bootstrap data": {[]string{
			machine, object(ofInfra, "FakeMachine", "i", failing("Ready", "False", "WaitingForBootstrapData", "")),
			object(ofBootstrap, "FakeConfig", "b", failing("DataSecretAvailable", "False", "Refused", "the file is too large")),
		}, "FakeConfig/b DataSecretAvailable", false},
		"one that waits for the infrastructure of the cluster": {[]string{
			machine, object(ofInfra, "FakeMachine", "i", failing("Ready", "False", "WaitingForClusterInfrastructureReady", "")),
			cluster(failing("InfrastructureReady", "False", "NotReady", "") + ", " + toInfrastructure), object(ofInfra, "FakeCluster", "c", failing("Ready", "False", "NoNetwork", "no free network")),
		}, "FakeCluster/c Ready", false},
		"a configuration that waits, too, and for itself": {[]string{
			machine, object(ofInfra, "FakeMachine", "i", failing("Ready", "False", "WaitingForBootstrapData", "")),
			object(ofBootstrap, "FakeConfig", "b", failing("DataSecretAvailable", "False", "WaitingForClusterInfrastructure", "")),
		}, "FakeConfig/b DataSecretAvailable", true},
		"a deployment of a paused cluster": {[]string{
			object(ofCore, "MachineDeployment", "md", failing("ScalingUp", "True", "ScalingUp", "Scaling up from 0 to 1 replicas")), cluster("paused: spec.paused"),
		}, "Cluster/demo Paused", false},
		"a set whose infrastructure has a quota": {[]string{
			object(ofCore, "MachineSet", "ms", failing("ScalingUp", "True", "ScalingUp", "")+", "+refs([3]string{fieldTemplateInfrastructure, ofInfra, "FakeMachineTemplate/t"})),
			"{kind: ResourceQuota, namespace: fleet, name: few, exhausted: [count/fakemachines.infrastructure.example.com]}",
		}, "ResourceQuota/few Quota", false},
		"a quota of other objects is no cause": {[]string{
			object(ofCore, "MachineSet", "ms", failing("Strange", "False", "Odd", "")), "{kind: ResourceQuota, namespace: fleet, name: few, exhausted: [count/pods]}",
		}, "MachineSet/ms Strange", true},
		"a machine whose infrastructure keeps a finalizer": {[]string{
			object(ofCore, "Machine", "m", failing("Deleting", "True", "WaitingForInfrastructureDeletion", "")+", "+refs([3]string{fieldInfrastructure, ofInfra, "FakeMachine/i"})),
			object(ofInfra, "FakeMachine", "i", "deleted: '2026-01-02T12:00:00Z', finalizers: [example.com/keep]"),
		}, "FakeMachine/i Deleting", false},
		"a machine behind a connection that is down": {[]string{
			object(ofCore, "Machine", "m", failing("NodeHealthy", "Unknown", "ConnectionDown", "Remote connection down")), cluster(failing("RemoteConnectionProbe", "False", "ProbeFailed", "Remote connection probe failed")),
		}, "Cluster/demo RemoteConnectionProbe", false},
		"extensions that the message does not name": {[]string{
			cluster(failing("TopologyReconciled", "False", "TopologyReconcileFailed", "call hook: extension handler a.blocker: refused")),
			"{kind: ExtensionConfig, name: other, " + failing("Discovered", "False", "NotDiscovered", "refused") + "}",
			"{kind: ExtensionConfig, name: block, " + failing("Discovered", "False", "NotDiscovered", "refused") + "}",
		}, "Cluster/demo TopologyReconciled", false},
		"a class with a template that is missing": {[]string{
			cluster(failing("TopologyReconciled", "False", "ClusterClassNotReconciled", "") + ", " + refs([3]string{fieldClass, ofCore, "ClusterClass/k"})),
			object(ofCore, "ClusterClass", "k", failing("RefVersionsUpToDate", "Unknown", "InternalError", "")+", "+refs([3]string{"spec.infrastructure.templateRef", ofInfra, "FakeClusterTemplate/t"})),
			object(ofInfra, "FakeClusterTemplate", "t", "missing: true"),
		}, "FakeClusterTemplate/t Missing", false},
		"a control plane that waits for its certificates": {[]string{
			object("group: controlplane.cluster.x-k8s.io, namespace: fleet", "KubeadmControlPlane", "cp", failing("CertificatesAvailable", "False", "NotAvailable", "Waiting for the Secret")), cluster(refs([3]string{fieldControlPlane, "group: controlplane.cluster.x-k8s.io, namespace: fleet", "KubeadmControlPlane/cp"})),
		}, "KubeadmControlPlane/cp CertificatesAvailable", true},
		"a control plane of another provider": {[]string{
			cluster(failing("ControlPlaneAvailable", "False", "NotAvailable", "") + ", " + refs([3]string{fieldControlPlane, ofPlane, "FakePlane/p"})),
			object(ofPlane, "FakePlane", "p", failing("Available", "False", "QuotaExceeded", "too many planes")),
		}, "FakePlane/p Available", false},
		"a provider whose controller does not run": {[]string{
			machine, object(ofInfra, "FakeMachine", "i", "provider: infrastructure-fake"),
			"{group: apps, kind: Deployment, namespace: fake-system, name: d, uid: d, provider: infrastructure-fake, " + failing("Available", "False", "MinimumReplicasUnavailable", "") + "}",
			"{kind: Pod, namespace: fake-system, name: p, uid: p, owners: [d], " + failing("ContainersReady", "False", "ImagePullBackOff", "no such image") + "}",
		}, "Pod/p ContainersReady", false},
		"a provider that is not installed": {[]string{machine, object(ofInfra, "FakeMachine", "i", "provider: infrastructure-fake, untouched: true")}, "FakeMachine/i Provider", false},
		"a built-in provider has no Deployment": {[]string{
			machine, object(ofInfra, "FakeMachine", "i", "provider: infrastructure-local, untouched: true"),
		}, "Machine/m InfrastructureReady", true},
		"a machine that is provisioned without its ID": {[]string{machine, object(ofInfra, "FakeMachine", "i", "unset: [spec.providerID]")}, "FakeMachine/i Contract", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			objects := objectsOf(t, tc.objects...)
			r := Find(objects, objects[0].Key)
			var got []string
			for i := range r.Causes {
				got = append(got, leaf(r, i))
			}
			if !slices.Contains(got, tc.want) || r.Certain == tc.unsure {
				t.Errorf("causes %q, certain %t; want %s, certain %t", got, r.Certain, tc.want, !tc.unsure)
			}
			for _, c := range r.Causes {
				if end := c.Chain[len(c.Chain)-1].Object; end != objects[0].Key {
					t.Errorf("the chain of %s ends with %s", c.Chain[0].Object, end)
				}
			}
		})
	}
}

func TestFindOfUnknownObjectReportsNothing(t *testing.T) {
	t.Parallel()
	start := Key{"cluster.x-k8s.io", "Cluster", "fleet", "other"}
	if diff := cmp.Diff(Result{Object: start}, Find(fleet(1, condition("InstanceReady", "False", "NoCapacity", "", 0)), start)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestFindEndsInACycle has a configuration that waits for the control plane, whose first
// Machine waits for the configuration.
func TestFindEndsInACycle(t *testing.T) {
	t.Parallel()
	objects := objectsOf(t,
		object(ofCore, "Cluster", "demo", failing("ControlPlaneInitialized", "False", "NotInitialized", "")+", owners: [demo, cp], "+refs([3]string{fieldControlPlane, ofPlane, "FakePlane/cp"})),
		object(ofPlane, "FakePlane", "cp", "owners: [demo], "+failing("Initialized", "False", "NotInitialized", "")),
		object(ofCore, "Machine", "m", "owners: [cp, m], "+failing("BootstrapConfigReady", "False", "NotReady", "")+", "+refs([3]string{fieldBootstrap, ofBootstrap, "FakeConfig/b"}, [3]string{fieldInfrastructure, ofCore, "Machine/m"})),
		object(ofBootstrap, "FakeConfig", "b", "owners: [m], "+failing("DataSecretAvailable", "False", "WaitingForControlPlaneInitialized", "")))
	for i := range objects {
		r := Find(objects, objects[i].Key)
		if len(r.Causes) == 0 {
			t.Errorf("from %s there is no cause", objects[i].Key)
		}
		checkResult(t, r)
	}
}

// checkResult checks what holds for each result.
func checkResult(t *testing.T, r Result) {
	t.Helper()
	if r.Certain && len(r.Causes) == 0 || !r.Certain && len(r.Causes) > 1 || r.Follows < 0 {
		t.Errorf("from %s: certain %t, %d causes, %d follow", r.Object, r.Certain, len(r.Causes), r.Follows)
	}
	for _, c := range r.Causes {
		seen := map[string]bool{}
		for _, l := range c.Chain {
			at := l.Object.String() + " " + l.Condition + " " + l.Reason
			if seen[at] {
				t.Errorf("from %s: the chain has %s twice", r.Object, at)
			}
			seen[at] = true
		}
		others := map[Key]bool{c.Chain[0].Object: true}
		for _, k := range c.Others {
			if others[k] {
				t.Errorf("from %s: %s is named twice for a cause", r.Object, k)
			}
			others[k] = true
		}
		if c.Remedy == nil || strings.Contains(c.Sentence(), "\n") {
			t.Errorf("from %s: remedy %v, sentence %q", r.Object, c.Remedy, c.Sentence())
		}
	}
}

// TestFindEndsOnAnyGraph: owners, references and messages are those of other writers.
func TestFindEndsOnAnyGraph(t *testing.T) {
	t.Parallel()
	kinds := []Key{{"cluster.x-k8s.io", "Cluster", "fleet", ""}, {"cluster.x-k8s.io", "Machine", "fleet", ""}, {"cluster.x-k8s.io", "MachineSet", "fleet", ""},
		{"cluster.x-k8s.io", "MachineDeployment", "fleet", ""}, {"infrastructure.example.com", "FakeMachine", "fleet", ""}, {"controlplane.cluster.x-k8s.io", "KubeadmControlPlane", "fleet", ""}, {"", "ExtensionConfig", "", ""}}
	types := []string{"Ready", "Available", "InfrastructureReady", "BootstrapConfigReady", "ScalingUp", "RollingOut", "Deleting", "Paused", "RemoteConnectionProbe", "TopologyReconciled", "UpToDate", "Discovered"}
	messages := []string{"", "WaitingForBootstrapData", "o3 failed", "hooks are blocking:\n* a", "is blocked because:\n* o1\n  * o2", "waiting for control plane", "Last successful probe at noon", "\x1b[2J"}
	fields := []string{fieldInfrastructure, fieldControlPlane, fieldBootstrap, fieldTemplateInfrastructure, fieldClass, fieldSets}
	for seed := range uint64(300) {
		dice := rand.New(rand.NewPCG(seed, 1))
		pick := func(of []string) string { return of[dice.IntN(len(of))] }
		objects := make([]Object, 12)
		for i := range objects {
			o := &objects[i]
			o.Key = kinds[dice.IntN(len(kinds))]
			o.Name, o.UID = fmt.Sprintf("o%d", i), fmt.Sprintf("u%d", i)
			o.Missing, o.Untouched = dice.IntN(9) == 0, dice.IntN(5) == 0
		}
		for i := range objects {
			o := &objects[i]
			for range dice.IntN(3) {
				o.Owners = append(o.Owners, objects[dice.IntN(len(objects))].UID)
				o.Refs = append(o.Refs, Ref{pick(fields), objects[dice.IntN(len(objects))].Key})
				status := []metav1.ConditionStatus{"True", "False", "Unknown"}[dice.IntN(3)]
				if c := condition(pick(types), status, "R", pick(messages), time.Duration(dice.IntN(9))*time.Minute); find(conditionsOf(o, []string{c.Type}), c.Type) == nil {
					o.Conditions = append(o.Conditions, c)
				}
			}
			if !o.Missing && dice.IntN(6) == 0 {
				o.Paused = "spec.paused"
			}
			if dice.IntN(6) == 0 {
				o.Deleted = &noon
			}
		}
		for i := range objects {
			r := Find(objects, objects[i].Key)
			checkResult(t, r)
			if t.Failed() {
				t.Fatalf("seed %d", seed)
			}
		}
	}
}

func TestReplacedNamesEachDifferenceOnce(t *testing.T) {
	t.Parallel()
	key := Key{"cluster.x-k8s.io", "Machine", "fleet", "m"}
	const version = "Version v1.36.2, v1.37.0 required"
	deleted := Replaced(nil, key, false, []Statement{{Source: "Decision", Text: version}, {Source: "Event", Text: "* " + version + "\n* FakeMachine is not up-to-date"}})
	if diff := cmp.Diff([]Difference{{"Version", "v1.36.2", "v1.37.0"}, {Field: "FakeMachine"}}, deleted.Differences); diff != "" || deleted.Exists || len(deleted.Statements) != 2 {
		t.Errorf("%+v, differences (-want +got):\n%s", deleted, diff)
	}
	good := &Object{Key: key, Conditions: []metav1.Condition{condition("UpToDate", "True", "UpToDate", version, 0), condition("Deleting", "False", "NotDeleting", "", 0)}}
	if r := Replaced(good, key, true, nil); len(r.Statements)+len(r.Differences) != 0 {
		t.Errorf("one that stays is explained by %+v", r)
	}
	unhealthy := &Object{Key: key, Conditions: []metav1.Condition{condition("HealthCheckSucceeded", "False", "UnhealthyNode", "the node is not ready", time.Hour), condition("OwnerRemediated", "False", "WaitingForRemediation", "", 2*time.Hour)}}
	r := Replaced(unhealthy, key, true, []Statement{{Source: "Event", Text: "deleted"}})
	var got []string
	for _, s := range r.Statements {
		got = append(got, s.Source+": "+s.Text)
	}
	if diff := cmp.Diff([]string{"Condition HealthCheckSucceeded: the node is not ready", "Condition OwnerRemediated: ", "Event: deleted"}, got); diff != "" {
		t.Errorf("statements (-want +got):\n%s", diff)
	}
}
