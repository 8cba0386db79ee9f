// SPDX-License-Identifier: Apache-2.0

package localstatus

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

var now = time.Date(2026, 3, 2, 8, 0, 0, 0, time.UTC)

func cluster(provisioned, initialized bool) *clusterv1.Cluster {
	c := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "demo"}}
	c.Status.Initialization = clusterv1.ClusterInitializationStatus{InfrastructureProvisioned: &provisioned, ControlPlaneInitialized: &initialized}
	return c
}

func machine(change ...func(*clusterv1.Machine)) *clusterv1.Machine {
	m := &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "m0", Labels: map[string]string{}}, Spec: clusterv1.MachineSpec{FailureDomain: "a"}}
	for _, c := range change {
		c(m)
	}
	return m
}

func controlPlane(m *clusterv1.Machine) { m.Labels[clusterv1.MachineControlPlaneLabel] = "" }
func data(m *clusterv1.Machine)         { m.Spec.Bootstrap.DataSecretName = new("m0-data") }

func TestBeforeStart(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cluster *clusterv1.Cluster
		machine *clusterv1.Machine
		want    string
	}{
		"infrastructure comes first":           {cluster(false, true), machine(data), "WaitingForClusterInfrastructureReady: Waiting for the infrastructure of Cluster demo to be provisioned"},
		"a worker waits for the control plane": {cluster(true, false), machine(), "WaitingForControlPlaneInitialized: Waiting for the control plane of Cluster demo to be initialized"},
		"but not if it has its data":           {cluster(true, false), machine(data), ": "},
		"the control plane waits for its data": {cluster(true, false), machine(controlPlane), "WaitingForBootstrapData: Waiting for spec.bootstrap.dataSecretName of Machine m0"},
		"so does a worker":                     {cluster(true, true), machine(), "WaitingForBootstrapData: Waiting for spec.bootstrap.dataSecretName of Machine m0"},
	} {
		w := BeforeStart(tc.cluster, ByMachine(tc.machine))
		if diff := cmp.Diff(tc.want, w.Reason+": "+w.Message); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestBeforeData(t *testing.T) {
	t.Parallel()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "m0-data", Labels: map[string]string{clusterv1.ClusterNameLabel: "demo"}}}
	if w := BeforeData(cluster(true, true), ByMachine(machine(data)), secret); w != (Wait{}) {
		t.Errorf("data of its own are waited for: %v", w)
	}
	secret.Labels[clusterv1.ClusterNameLabel] = "prod"
	want := "Secret m0-data, named by spec.bootstrap.dataSecretName of Machine m0, is held by Cluster prod, by its label cluster.x-k8s.io/cluster-name: name another Secret"
	if w := BeforeData(cluster(true, true), ByMachine(machine(data)), secret); w.Message != want || w.Reason != infrav1.VMWaitingForBootstrapDataReason {
		t.Errorf("data of another Cluster: %v", w)
	}
}

func TestAMachineOfAPoolIsAskedForByItsMachinePool(t *testing.T) {
	t.Parallel()
	mp := &clusterv1.MachinePool{ObjectMeta: metav1.ObjectMeta{Name: "mp"}}
	mp.Spec.ClusterName, mp.Spec.Template.Spec.Version = "demo", "v1.37.0"
	local := &infrav1.LocalMachine{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{
		infrav1.PoolVersionAnnotation: "v1.36.0", infrav1.PoolFailureDomainAnnotation: "b",
	}}}
	o := ByPool(mp, local)
	if o.Spec.ClusterName != "demo" || o.Spec.Version != "v1.36.0" || o.Spec.FailureDomain != "b" {
		t.Errorf("asked for %+v, want what was noted when the machine was made", o.Spec)
	}
	want := "Waiting for spec.template.spec.bootstrap.dataSecretName of MachinePool mp"
	if w := BeforeStart(cluster(true, true), o); w.Message != want {
		t.Errorf("waits: %q, want %q", w.Message, want)
	}
}

// Changes of LocalMachines.
func provisioned(m *Machine) { m.Local.Status.Initialization.Provisioned = new(true) }
func deleted(m *Machine)     { m.Local.DeletionTimestamp = &metav1.Time{Time: now} }
func was(m *Machine) {
	conditions.Set(m.Local, now, conditions.New(infrav1.VMProvisionedCondition, metav1.ConditionTrue, infrav1.VMProvisionedReason, ""))
}
func seen(s Seen) func(*Machine) { return func(m *Machine) { m.Seen = &s } }

func text(c *metav1.Condition) string {
	if c == nil {
		return "absent"
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

func TestReportMachine(t *testing.T) {
	t.Parallel()
	all := func(changes ...func(*Machine)) []func(*Machine) { return changes }
	for name, tc := range map[string]struct {
		changes              []func(*Machine)
		vm, bootstrap, ready string
	}{
		"waits":                 {all(func(m *Machine) { m.Waiting = Wait{"Waiting", "for data"} }), "False Waiting: for data", "absent", "False NotReady: * VMProvisioned: for data"},
		"cannot be started":     {all(func(m *Machine) { m.Failed = "no space" }), "False NotProvisioned: Waiting for the machine to be started: no space", "absent", "False NotReady: * VMProvisioned: Waiting for the machine to be started: no space"},
		"comes up":              {all(seen(Seen{Message: "its kernel"})), "False NotProvisioned: Waiting for its kernel", "absent", "False NotReady: * VMProvisioned: Waiting for its kernel"},
		"runs its data":         {all(seen(Seen{Up: true, Message: "kubeadm"})), "True Provisioned: ", "False Running: Waiting for kubeadm", "False NotReady: * BootstrapExecSucceeded: Waiting for kubeadm"},
		"has run its data":      {all(seen(Seen{Up: true, Done: true})), "True Provisioned: ", "True Succeeded: ", "True Ready: "},
		"has failed":            {all(seen(Seen{Up: true, Failed: true, Message: "no network"})), "True Provisioned: ", "False Failed: no network", "False NotReady: * BootstrapExecSucceeded: no network"},
		"starts again":          {all(provisioned, seen(Seen{Up: true, Message: "kubelet"})), "True Provisioned: ", "True Succeeded: ", "True Ready: "},
		"does not run any more": {all(provisioned, was, func(m *Machine) { m.Stopped, m.Failed = "out of memory", "out of memory" }), "False NotProvisioned: The machine does not run: out of memory", "absent", "False NotReady: * VMProvisioned: The machine does not run: out of memory"},
		"was not observed":      {all(provisioned, was, func(m *Machine) { m.Failed = "conflict" }), "True Provisioned: ", "absent", "Unknown ReadyUnknown: * BootstrapExecSucceeded: Condition BootstrapExecSucceeded not yet reported"},
		"is deleted":            {all(deleted), "False Deleting: ", "absent", "False Deleting: The machine is being deleted"},
		"cannot be deleted":     {all(deleted, func(m *Machine) { m.Failed = "busy" }), "False Deleting: Waiting for the machine to be deleted: busy", "absent", "False Deleting: The machine is being deleted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := Machine{Local: &infrav1.LocalMachine{}, Generation: 3, Now: now}
			for _, change := range tc.changes {
				change(&m)
			}
			ReportMachine(m)
			var got []string
			for _, c := range []string{infrav1.VMProvisionedCondition, infrav1.BootstrapExecSucceededCondition, clusterv1.ReadyCondition} {
				got = append(got, text(conditions.Get(m.Local, c)))
			}
			if diff := cmp.Diff([]string{tc.vm, tc.bootstrap, tc.ready}, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTake(t *testing.T) {
	t.Parallel()
	local, up := &infrav1.LocalMachine{}, Seen{Up: true, ProviderID: "x://m0", Addresses: clusterv1.MachineAddresses{{Type: clusterv1.MachineInternalIP, Address: "10.0.0.1"}}}
	if Take(local, ByMachine(machine()), Seen{}) || len(local.Status.Addresses) > 0 || local.Status.FailureDomain != "" {
		t.Errorf("of a machine that is not up: %+v", local.Status)
	}
	if Take(local, ByMachine(machine()), up) || len(local.Status.Addresses) != 1 || local.Status.FailureDomain != "a" || local.Spec.ProviderID != "" {
		t.Errorf("of a machine that is up: %+v, %+v", local.Spec, local.Status)
	}
	up.Done = true
	if !Take(local, ByMachine(machine()), up) || !Provisioned(local) || local.Spec.ProviderID != "x://m0" {
		t.Errorf("of a machine that is done: %+v, %+v", local.Spec, local.Status)
	}
	if up.ProviderID = "x://other"; Take(local, ByMachine(machine()), up) || local.Spec.ProviderID != "x://m0" {
		t.Errorf("what it became, it stays: %+v", local.Spec)
	}
}

func TestReportCluster(t *testing.T) {
	t.Parallel()
	going := func(c *Cluster) { c.Local.DeletionTimestamp = &metav1.Time{Time: now} }
	for name, tc := range map[string]struct {
		change          func(*Cluster)
		ready, deleting string
	}{
		"there":             {func(*Cluster) {}, "True Ready: ", "False NotDeleting: "},
		"waits":             {func(c *Cluster) { c.Waiting = "Waiting for the Cluster" }, "False NotReady: Waiting for the Cluster", "False NotDeleting: "},
		"cannot be made":    {func(c *Cluster) { c.Failed = "no address" }, "False NotReady: Waiting for the control plane endpoint: no address", "False NotDeleting: "},
		"is deleted":        {going, "False Deleting: The infrastructure is being deleted", "True Deleting: "},
		"waits for that":    {func(c *Cluster) { going(c); c.Waiting, c.Failed = "not here", "busy" }, "False Deleting: The infrastructure is being deleted", "True Deleting: not here"},
		"cannot be deleted": {func(c *Cluster) { going(c); c.Failed = "busy" }, "False Deleting: The infrastructure is being deleted", "True Deleting: Waiting for the infrastructure to be deleted: busy"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := Cluster{Local: &infrav1.LocalCluster{}, Generation: 3, Now: now}
			tc.change(&c)
			ReportCluster(c)
			got := []string{text(conditions.Get(c.Local, clusterv1.ReadyCondition)), text(conditions.Get(c.Local, clusterv1.DeletingCondition))}
			if diff := cmp.Diff([]string{tc.ready, tc.deleting}, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportSetsContractV1Beta1Fields(t *testing.T) {
	t.Parallel()
	told := func(ready *bool, reason, message *string) string {
		return fmt.Sprintf("ready %t, %s: %s", ptr.Deref(ready, false), ptr.Deref(reason, "none"), ptr.Deref(message, "none"))
	}
	for name, tc := range map[string]struct {
		machine *Machine
		cluster *Cluster
		want    string
	}{
		"a machine that waits":             {machine: &Machine{Waiting: Wait{"Waiting", "for data"}}, want: "ready false, none: none"},
		"a machine that runs":              {machine: &Machine{Seen: &Seen{Up: true, Done: true}}, want: "ready true, none: none"},
		"a machine that has failed":        {machine: &Machine{Seen: &Seen{Up: true, Failed: true, Message: "no network"}}, want: "ready false, CreateError: no network"},
		"a cluster":                        {cluster: &Cluster{}, want: "ready true, none: none"},
		"a cluster that fails for a while": {cluster: &Cluster{Failed: "no address"}, want: "ready false, none: none"},
		"a cluster that cannot be":         {cluster: &Cluster{Failed: "0.0.0.0 is all addresses", Refused: "0.0.0.0 is all addresses"}, want: "ready false, InvalidConfiguration: 0.0.0.0 is all addresses"},
	} {
		got := ""
		if m := tc.machine; m != nil {
			m.Local = &infrav1.LocalMachine{}
			if m.Seen != nil {
				Take(m.Local, Order{}, *m.Seen)
			}
			ReportMachine(*m)
			got = told(m.Local.Status.Ready, m.Local.Status.FailureReason, m.Local.Status.FailureMessage)
		} else {
			c := tc.cluster
			c.Local = &infrav1.LocalCluster{}
			if c.Failed == "" {
				c.Local.Status.Initialization.Provisioned = new(true)
			}
			ReportCluster(*c)
			got = told(c.Local.Status.Ready, c.Local.Status.FailureReason, c.Local.Status.FailureMessage)
		}
		if got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}
