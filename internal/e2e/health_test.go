// SPDX-License-Identifier: Apache-2.0

package e2e_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/testenv"
)

// healthOf is a MachineHealthCheck of the workers of a cluster that gives a Node
// two seconds to become ready again.
func (f fleet) healthOf(name string) *clusterv1.MachineHealthCheck {
	check := &clusterv1.MachineHealthCheck{ObjectMeta: metav1.ObjectMeta{Namespace: f.Namespace, Name: name + "-workers"}}
	check.Spec.ClusterName = name
	check.Spec.Selector.MatchLabels = map[string]string{clusterv1.MachineDeploymentNameLabel: name + "-workers"}
	for _, status := range []corev1.ConditionStatus{corev1.ConditionFalse, corev1.ConditionUnknown} {
		check.Spec.Checks.UnhealthyNodeConditions = append(check.Spec.Checks.UnhealthyNodeConditions, clusterv1.UnhealthyNodeCondition{Type: corev1.NodeReady, Status: status, TimeoutSeconds: new(int32(2))})
	}
	return check
}

func (f fleet) healthy(check *clusterv1.MachineHealthCheck, want int32) error {
	if err := f.Client.Get(f.Context(), client.ObjectKeyFromObject(check), check); err != nil {
		return err
	}
	return errors.Join(
		counters("MachineHealthCheck "+check.Name, want, check.Status.ExpectedMachines, check.Status.CurrentHealthy),
		isTrue("MachineHealthCheck "+check.Name, check, clusterv1.MachineHealthCheckSoundCondition))
}

func TestAnUnhealthyWorkerIsReplacedAndItsOwnerSaysWhy(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	check := f.healthOf("c")
	if err := f.Client.Create(t.Context(), check); err != nil { // before there is anything to check
		t.Fatal(err)
	}
	f.create("c", shape{workers: 2})
	f.becomes("c")
	f.eventually(func() error { return f.healthy(check, 2) })
	uid, name, _ := strings.Cut(f.uids("c", worker)[0], " ")
	modify(f, name, &infrav1.LocalMachine{}, func(m *infrav1.LocalMachine) {
		m.Spec.Simulated.Faults = []infrav1.MachineFault{infrav1.MachineFaultNodeNotReady}
	})
	f.eventually(func() error {
		if slices.Contains(f.uids("c", worker), uid+" "+name) {
			return fmt.Errorf("Machine %s is still there", name)
		}
		return f.healthy(check, 2)
	})
	f.becomes("c")
	f.eventually(func() error {
		var told eventsv1.EventList
		if err := f.Client.List(t.Context(), &told, client.InNamespace(f.Namespace)); err != nil {
			return err
		}
		for _, e := range told.Items {
			if e.Regarding.Kind == "MachineSet" && strings.Contains(e.Note, "replace "+name+": Condition Ready of Node "+name+" is False since 20") &&
				strings.Contains(e.Note, "(spec.checks.unhealthyNodeConditions[0] of MachineHealthCheck c-workers)") {
				return nil
			}
		}
		return fmt.Errorf("no event of a MachineSet has the reason why %s was replaced", name)
	})
}

func TestAnExternalControllerIsAskedWhenItsTemplateAppears(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	group := f.Namespace + ".example.com"
	for _, name := range []string{"Fix", "FixTemplate"} {
		kind := testenv.Kind(group, name)
		kind.Labels = nil // a remediation controller follows no contract of providers
		f.Define(t, kind)
	}
	f.create("c", shape{workers: 1})
	f.becomes("c")
	check := f.healthOf("c")
	check.Spec.Remediation.TemplateRef = clusterv1.MachineHealthCheckRemediationTemplateReference{APIVersion: group + "/v1", Kind: "FixTemplate", Name: "fix"}
	if err := f.Client.Create(t.Context(), check); err != nil {
		t.Fatal(err)
	}
	_, name, _ := strings.Cut(f.uids("c", worker)[0], " ")
	modify(f, name, &infrav1.LocalMachine{}, func(m *infrav1.LocalMachine) {
		m.Spec.Simulated.Faults = []infrav1.MachineFault{infrav1.MachineFaultNodeNotReady}
	})
	f.eventually(func() error {
		return f.says(f.machine(name), clusterv1.MachineExternallyRemediatedCondition, "False", "FixTemplate fix, named by spec.remediation.templateRef, does not exist")
	})
	fix := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{"strategy": "reboot"}}}}}
	fix.SetAPIVersion(group + "/v1")
	fix.SetKind("FixTemplate")
	fix.SetNamespace(f.Namespace)
	fix.SetName("fix")
	f.eventually(func() error { return f.Client.Create(t.Context(), fix) })
	request := func() (*unstructured.Unstructured, error) {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(group + "/v1")
		u.SetKind("Fix")
		return u, f.Client.Get(t.Context(), f.key(name), u)
	}
	f.eventually(func() error { _, err := request(); return err })
	f.eventually(func() error {
		return f.says(f.machine(name), clusterv1.MachineExternallyRemediatedCondition, "False", "Waiting for remediation: Condition Ready of Node")
	})
	modify(f, name, &infrav1.LocalMachine{}, func(m *infrav1.LocalMachine) { m.Spec.Simulated.Faults = nil })
	f.eventually(func() error {
		m := &clusterv1.Machine{}
		if _, err := request(); client.IgnoreNotFound(err) != nil || err == nil {
			return fmt.Errorf("the request is still there: %w", err)
		}
		if err := f.Client.Get(t.Context(), f.key(name), m); err != nil {
			return err
		}
		if conditions.Has(m, clusterv1.MachineExternallyRemediatedCondition) || conditions.Has(m, clusterv1.MachineOwnerRemediatedCondition) {
			return fmt.Errorf("conditions %+v", m.Status.Conditions)
		}
		return f.healthy(check, 1)
	})
}
