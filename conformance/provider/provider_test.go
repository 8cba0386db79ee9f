// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/provider"
)

// misbehaviour is one violation of an otherwise correct provider.
type misbehaviour struct {
	fault string // in spec.faults

	// wantFailed is the only check that may fail, and must; wantProblem is a part of its
	// problem.
	wantFailed, wantProblem string
}

// example is an object of the provider of these tests.
func example(kind string, spec map[string]any) *provider.Subject {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": maps.Clone(spec)}}
	obj.SetGroupVersionKind(gvk(kind))
	return &provider.Subject{Example: obj}
}

// TestEachMisbehaviourFailsItsCheck and no other.
func TestEachMisbehaviourFailsItsCheck(t *testing.T) {
	t.Parallel()
	for role, all := range misbehaviours() {
		for _, m := range all {
			t.Run(role+" "+m.fault, func(t *testing.T) {
				t.Parallel()
				all := definitions()
				if m.fault == "has no label for a move" {
					delete(all[kindOf(role)].Labels, "clusterctl.cluster.x-k8s.io")
				}
				r := inMemory(t, configOf(role, m.fault), all)
				if left := slices.Contains(stuck(), m.fault); left != strings.Contains(r.Problem, "left in namespace") {
					t.Errorf("problem %q, want one with what is left: %t", r.Problem, left)
				} else if left {
					r.Problem = ""
				}
				wantFailures(t, role, r, m)
			})
		}
	}
}

func TestAProviderThatKeepsTheContractPasses(t *testing.T) {
	t.Parallel()
	for role := range provider.Roles() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			wantFailures(t, role, inMemory(t, configOf(role), definitions()))
		})
	}
}

// TestSuiteChecksOldProviderByOldContract also expects advice about the contract.
func TestSuiteChecksOldProviderByOldContract(t *testing.T) {
	t.Parallel()
	for role := range provider.Roles() {
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			all := definitions()
			for _, d := range all {
				keepOlder(d)
			}
			wanted := []misbehaviour{{"", an(role, true) + " keeps the latest version of the contract.", "v1beta1"}}
			if role == "InfraMachinePool" {
				wanted = append(wanted, misbehaviour{"", "A provisioned InfraMachinePool reports it in the fields of both versions of the contract.", "provisioned is false"})
			}
			wantFailures(t, role, inMemory(t, configOf(role), all), wanted...)
		})
	}
}

// TestSuiteReportsEachMisbehavior has a provider with many violations.
func TestSuiteReportsEachMisbehavior(t *testing.T) {
	t.Parallel()
	together := []string{"is restless", "changes its endpoint", "writes to its owner", "continues in a pause", "takes all finalizers away"}
	var wanted []misbehaviour
	for _, m := range misbehaviours()["InfraCluster"] {
		if slices.Contains(together, m.fault) && m.fault != "continues in a pause" {
			wanted = append(wanted, m)
		}
	}
	// All finalizers were removed during the pause, so nothing is retained.
	wanted = append(wanted, misbehaviour{"", "An InfraCluster that is deleted while it is paused is kept.", "FakeCluster conformance is gone"})
	wantFailures(t, "InfraCluster", inMemory(t, configOf("InfraCluster", together...), definitions()), wanted...)
}

// stuck are faults after which a cleanup is impossible, which the report states.
func stuck() []string { return []string{"keeps its finalizer", "is kept without data"} }

func wantFailures(t *testing.T, role string, r conformance.Report, wanted ...misbehaviour) {
	t.Helper()
	if r.Problem != "" {
		t.Errorf("problem %s", r.Problem)
	}
	want, failed := map[string]string{}, map[string]string{}
	for _, m := range wanted {
		want[m.wantFailed] = m.wantProblem
	}
	for _, res := range r.Results {
		if res.Outcome == conformance.Passed || res.Outcome == conformance.Skipped {
			continue
		}
		failed[res.Check] = res.Problem
		if strings.Contains(res.Problem, want[res.Check]) && want[res.Check] != "" {
			failed[res.Check] = want[res.Check]
		}
		if advice := res.Outcome == conformance.Advised; advice != isAdvice(role, res.Check) {
			t.Errorf("%s: advice is %t", res, advice)
		}
		if res.Remedy == "" {
			t.Errorf("no remedy for %s", res.Check)
		}
	}
	if diff := cmp.Diff(want, failed); diff != "" {
		t.Errorf("failed checks, and parts of what they say (-want +got):\n%s", diff)
		for _, res := range r.Results {
			t.Logf("%s after %s %s", res.Outcome, res.Duration.Duration, res)
		}
	}
}

func isAdvice(role, check string) bool {
	return slices.ContainsFunc(provider.Checks(role), func(c conformance.Check) bool { return c.Name == check && c.Advice })
}

// TestEachCheckCanFail requires that the tables are complete.
func TestEachCheckCanFail(t *testing.T) {
	t.Parallel()
	for role := range provider.Roles() {
		shown := map[string]bool{}
		for _, tc := range misbehaviours()[role] {
			shown[tc.wantFailed] = true
		}
		for _, tc := range misdefinitions(role) {
			shown[tc.wantFailed] = true
		}
		for _, c := range provider.Checks(role) {
			if !shown[c.Name] {
				t.Errorf("no misbehaviour fails the check %q", c.Name)
			}
		}
	}
}

// configOf returns a config whose example of a role has faults.
func configOf(role string, wrong ...string) provider.Config {
	var faults []any
	for _, fault := range wrong {
		faults = append(faults, fault)
	}
	spec := map[string]any{}
	if len(faults) > 0 {
		spec["faults"] = faults
	}
	c := provider.Config{Roles: []string{role}, WatchFilter: watchFilter, InfraCluster: example("FakeCluster", map[string]any{})}
	switch role {
	case "InfraCluster":
		c.InfraCluster = example("FakeCluster", spec)
	case "InfraMachine":
		c.InfraMachine = example("FakeMachine", spec)
	case "BootstrapConfig":
		c.BootstrapConfig = example("FakeConfig", spec)
		c.ControlPlane = example("FakeControlPlane", map[string]any{})
	case "ControlPlane":
		spec["replicas"], spec["version"] = int64(1), "v1.36.0"
		c.ControlPlane = example("FakeControlPlane", spec)
		c.InfraCluster = example("FakeCluster", map[string]any{"faults": []any{"has no endpoint"}}) // the control plane has one
	case "InfraMachinePool":
		c.InfraMachinePool = example("FakeMachinePool", spec)
	}
	return withTemplate(c, role, faults)
}

// withTemplate adds a template, and a change of it.
func withTemplate(c provider.Config, role string, faults []any) provider.Config {
	s := *subjectOf(&c, role)
	s.Change = map[string]any{"size": int64(2)}
	spec := map[string]any{"size": int64(1)}
	if slices.Contains(faults, any("has a template that is frozen")) {
		spec["frozen"] = true
	}
	capacity := "2"
	if slices.Contains(faults, any("has less than nothing")) {
		capacity = "-2"
	}
	s.Template = &unstructured.Unstructured{Object: map[string]any{
		"spec":   map[string]any{"template": map[string]any{"spec": spec}},
		"status": map[string]any{"capacity": map[string]any{"cpu": capacity}, "nodeInfo": map[string]any{"architecture": "amd64", "operatingSystem": "linux"}},
	}}
	s.Template.SetGroupVersionKind(gvk(kindOf(role) + "Template"))
	return c
}

func misbehaviours() map[string][]misbehaviour {
	return map[string][]misbehaviour{
		"InfraCluster": append(anyMisbehaviour("An InfraCluster", "provisioned", "Cluster", "Ready"), []misbehaviour{
			{"has no finalizer", "An InfraCluster has a finalizer before it is provisioned.", "no finalizer"},
			{"has no endpoint", "A provisioned InfraCluster has the endpoint of the control plane.", "no host"},
			{"has an endpoint without a port", "A provisioned InfraCluster has the endpoint of the control plane.", "port of FakeCluster conformance is 0"},
			{"changes its endpoint", "The endpoint of an InfraCluster does not change.", "10.0.0.2"},
			{"names a failure domain twice", "The failure domains of an InfraCluster have names of their own.", `"a"`},
			{"touches what is managed from elsewhere", "An InfraCluster that is managed from elsewhere is left alone.", "was changed"},
		}...),
		"InfraMachine": append(anyMisbehaviour("An InfraMachine", "provisioned", "Machine", "Ready"), []misbehaviour{
			{"has no finalizer", "An InfraMachine has a finalizer before it is provisioned.", "no finalizer"},
			{"has no provider ID", "A provisioned InfraMachine has a provider ID.", `was ""`},
			{"has another provider ID than its Node", "The provider ID of an InfraMachine is that of its Node.", sameID},
			{"has the provider ID of all", "No two InfraMachines have the same provider ID.", sameID},
			{"has an address of no type", "The addresses of an InfraMachine are of types that there are.", "Street"},
			{"is in another failure domain", "An InfraMachine is in the failure domain of its Machine.", "nowhere"},
			{"does not wait for infrastructure", "An InfraMachine waits for the infrastructure of its Cluster.", "is done"},
			{"does not wait for data", "An InfraMachine waits for bootstrap data.", "is done"},
			{"is kept without data", "An InfraMachine that waits for bootstrap data can be deleted.", finalizer},
			{"has a template that is frozen", "A change of an InfraMachineTemplate can be rehearsed.", "it is frozen"},
			{"is replaced after a change", "A change of an InfraMachine makes no other machine of it.", "10.0.0.10"},
			{"has less than nothing", "An autoscaler can read what an InfraMachineTemplate reports about its machines.", "-2"},
			{"changes its provider ID", "The provider ID of an InfraMachine does not change.", "fake://another"},
		}...),
		"BootstrapConfig": append(anyMisbehaviour("A BootstrapConfig", "ready", "Machine", "Ready"), []misbehaviour{
			{"names no Secret", "A ready BootstrapConfig names the Secret with its data.", `is ""`},
			{"makes an empty Secret", "A ready BootstrapConfig names the Secret with its data.", "is empty"},
			{"does not label its Secrets", "The Secret of a BootstrapConfig has the name of the Cluster on it.", `is "", want "conformance"`},
			{"does not own its Secrets", "The Secret of a BootstrapConfig belongs to it.", "is not FakeConfig conformance"},
			{"has a key too many", "The Secret of a BootstrapConfig holds its data and their format alone.", "password"},
			{"does not taint workers", "The Nodes of workers are registered with a taint by a BootstrapConfig.", "node.cluster.x-k8s.io/uninitialized"},
			{"replaces data after a change", "A change of a BootstrapConfig makes no new data.", "other data"},
			{"leaves no file behind", "The data of a BootstrapConfig leave a file behind when they have been run.", "bootstrap-success.complete"},
			{"does not wait for infrastructure", "A BootstrapConfig waits for the infrastructure of its Cluster.", "is done"},
			{"has a template that is frozen", "A change of a BootstrapConfigTemplate can be rehearsed.", "it is frozen"},
			{"names another Secret", "A BootstrapConfig finds its Secret again.", `"conformance-again"`},
		}...),
		"ControlPlane": append(anyMisbehaviour("A ControlPlane", "initialized", "Cluster", "Available"), []misbehaviour{
			{"has no finalizer", "A ControlPlane has a finalizer before it is initialized.", "no finalizer"},
			{"has no endpoint", "The Cluster of an initialized ControlPlane has an endpoint.", "is not set"},
			{"keeps no kubeconfig", "The kubeconfig of the Cluster of a ControlPlane is in a Secret that is named after the Cluster.", "not found"},
			{"has a client for ten years", "The client certificate in the kubeconfig of a ControlPlane is not valid for more than a year.", "3650 days"},
			{"does not label its Secrets", "The certificates of the Cluster of a ControlPlane are in Secrets that are named after the Cluster.", "conformance-ca"},
			{"reports no version", "A ControlPlane with a version reports which versions run.", "reports no version"},
			{"does not count", "A ControlPlane with replicas counts them.", "not all replicas"},
			{"selects nothing", "The selector of a ControlPlane selects its Machines.", `selects Machine conformance-0 is false`},
			{"does not label its Machines", "The Machines of a ControlPlane are labelled as those of a control plane.", "Machine conformance-0 has the labels"},
			{"does not say what is up to date", "The Machines of a ControlPlane say whether they are up to date.", "no condition UpToDate"},
			{"keeps labels to itself", "Labels and annotations of a ControlPlane for its Machines reach those that are there.", "does not have the label"},
			{"keeps annotations to itself", "Labels and annotations of a ControlPlane for its Machines reach those that are there.", "does not have the annotation"},
			{"keeps timeouts to itself", "Timeouts of a ControlPlane for Nodes reach the Machines that are there.", "is 0, want 3600"},
			{"puts Machines anywhere", "The Machines of a ControlPlane are spread over the failure domains for control planes.", `in failure domain "b"`},
			{"has no Machines and does not say why", "A ControlPlane without Machines says whether it is managed externally.", "externalManagedControlPlane"},
		}...),
		"InfraMachinePool": append(anyMisbehaviour("An InfraMachinePool", "provisioned", "MachinePool", "Ready"), []misbehaviour{
			{"has no finalizer", "An InfraMachinePool has a finalizer before it is provisioned.", "no finalizer"},
			{"says it in one way", "A provisioned InfraMachinePool reports it in the fields of both versions of the contract.", "status.ready is false"},
			{"lists an instance twice", "An InfraMachinePool lists the provider IDs of its instances.", "1 replicas"},
			{"does not count", "An InfraMachinePool counts its instances.", "status.replicas is 0"},
			{"reports a foreign instance", "The instances that an InfraMachinePool reports are those of its list.", "fake://foreign"},
			{"has no machines", "An InfraMachinePool that names a kind of machines has one for each instance.", "there are 0 objects of kind FakeMachine"},
			{"has a template that is frozen", "A change of an InfraMachinePoolTemplate can be rehearsed.", "it is frozen"},
			{"leaves its machines as they are", "An InfraMachinePool follows the replicas of its MachinePool.", "there are 1 objects of kind FakeMachine"},
			{"does not follow", "An InfraMachinePool follows the replicas of its MachinePool.", "2 replicas"},
		}...),
	}
}

// anyMisbehaviour are the violations that objects of all roles can have.
func anyMisbehaviour(an, done, owner, condition string) []misbehaviour {
	of := " of " + strings.ToLower(an[:1]) + an[1:]
	return []misbehaviour{
		{"does not wait for its owner", an + " is left alone until its owner is there.", "was changed"},
		{"ignores the watch filter", an + " that the watch filter leaves out is left alone.", "was changed"},
		{"has no label for a move", "The definition" + of + " has the label by which a move finds it.", "clusterctl.cluster.x-k8s.io"},
		{"writes to its owner", an + " leaves its " + owner + " as it is.", "was changed: metadata.labels"},
		{"continues in a pause", an + " that is deleted while it is paused is kept.", "has lost the finalizer " + finalizer},
		{"takes all finalizers away", "What others have written" + of + " is kept.", "conformance.capstan.dev/kept"},
		{"writes a list of finalizers", "What others have written" + of + " is kept.", "has lost the finalizer"},
		{"ignores the annotation", an + " with the annotation cluster.x-k8s.io/paused is not reconciled.", "was changed"},
		{"never gets there", an + " comes to be " + done + ".", "is not true"},
		{"has a condition that says Yes", "The conditions" + of + " are well-formed.", `"Yes"`},
		{"has no condition", an + " reports the condition " + condition + ".", "no condition " + condition},
		{"is restless", an + " reaches a steady state.", "status.beat"},
		{"ignores the pause of its Cluster", an + " of a paused Cluster is not reconciled.", "was changed"},
		{"loses its status", an + " whose status was lost gets it back.", "is not true"},
		{"is silent about pauses", an + " that is paused reports it in the condition Paused.", "is not True"},
		{"stays paused", an + " that is no longer paused reports it in the condition Paused.", "is not False"},
		{"takes it back", "What " + strings.ToLower(an[:1]) + an[1:] + " has come to is not taken back.", "is not in version"},
		{"keeps its finalizer", an + " goes away when its " + owner + " is deleted.", finalizer},
	}
}
