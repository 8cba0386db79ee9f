// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// known is the input of a status.
type known struct {
	Facts
	Outcome
}

// says is a condition of the status that is made now.
func (k *known) says(t string) string {
	status, _ := Report(k.Facts, k.Outcome)
	return text(status.Conditions, t)
}

func text(all conditions.List, t string) string {
	c := conditions.Get(all, t)
	if c == nil {
		return "none"
	}
	return string(c.Status) + " " + c.Reason + " " + c.Message
}

// silent lets the workload cluster not answer.
func silent(k *known, why string) { k.Workload = Workload{Why: why} }

// reporting is the state of a control plane with a desired number of machines and the
// given ones, of which those with a reason are not up to date.
func reporting(want int32, reasons ...string) *known {
	f := facts(want, "")
	uninitialized(&f)
	f.Certificates = Certificates{}
	for _, why := range reasons {
		m := &Machine{Machine: &clusterv1.Machine{}, Comparison: Comparison{UpToDate: why == ""}}
		if why != "" {
			m.Why = []string{why}
		}
		f.Machines = append(f.Machines, m)
	}
	return &known{Facts: f}
}

func TestReportSummarizesMachines(t *testing.T) {
	t.Parallel()
	going := func(k *known) *known {
		k.ControlPlane.DeletionTimestamp = new(metav1.NewTime(k.Now))
		return k
	}
	type change = func(*known)
	blocked := func(why ...string) change { return func(k *known) { k.Blocked = why } }
	held := func(why ...string) change { return func(k *known) { k.Held = why } }
	problem := func(k *known) { k.Template = "the template is not there" }
	tests := map[string]struct {
		k      *known
		change change
		of     string
		want   string
	}{
		"as many as desired":                    {reporting(1, ""), nil, "ScalingUp", "False NotScalingUp "},
		"as many as desired, no template":       {reporting(1, ""), problem, "ScalingUp", "False NotScalingUp Scaling up would be blocked because the template is not there"},
		"too few":                               {reporting(3, ""), nil, "ScalingUp", "True ScalingUp Scaling up from 1 to 3 replicas"},
		"too few, blocked":                      {reporting(3, ""), blocked("a", "b"), "ScalingUp", "True ScalingUp Scaling up from 1 to 3 replicas is blocked because:\n* a\n* b"},
		"too few, no template":                  {reporting(1), problem, "ScalingUp", "True ScalingUp Scaling up from 0 to 1 replica is blocked because:\n* the template is not there"},
		"no number":                             {reporting(1), func(k *known) { k.ControlPlane.Spec.Replicas = nil }, "ScalingUp", "Unknown WaitingForReplicasSet Waiting for spec.replicas set"},
		"too few, deleted":                      {going(reporting(3)), problem, "ScalingUp", "False NotScalingUp "},
		"none too many":                         {reporting(3, ""), nil, "ScalingDown", "False NotScalingDown "},
		"none too many, one waits to terminate": {reporting(1, ""), held("a"), "ScalingDown", "False NotScalingDown a"},
		"too many":                              {reporting(1, "", ""), nil, "ScalingDown", "True ScalingDown Scaling down from 2 to 1 replica"},
		"too many, one waits to terminate":      {reporting(1, "", ""), func(k *known) { blocked("a")(k); held("b")(k) }, "ScalingDown", "True ScalingDown Scaling down from 2 to 1 replica is blocked because:\n* a\n* b"},
		"too many, no number":                   {reporting(1, ""), func(k *known) { k.ControlPlane.Spec.Replicas = nil }, "ScalingDown", "Unknown WaitingForReplicasSet Waiting for spec.replicas set"},
		"deleted":                               {going(reporting(1, "")), nil, "ScalingDown", "True ScalingDown Scaling down from 1 to 0 replicas"},
		"none outdated":                         {reporting(1, ""), nil, "RollingOut", "False NotRollingOut "},
		"one outdated":                          {reporting(2, "", "a"), nil, "RollingOut", "True RollingOut Rolling out 1 not up-to-date replica\n* a"},
		"several outdated, one reason twice":    {reporting(3, "a", "b", "a"), nil, "RollingOut", "True RollingOut Rolling out 3 not up-to-date replicas\n* a\n* b"},
		"not being deleted":                     {reporting(1), nil, "Deleting", "False NotDeleting "},
		"being deleted, the observation failed": {going(reporting(1)), func(k *known) { k.Failed = true }, "Deleting", "True InternalError Looking for what is left to delete failed"},
		"being deleted":                         {going(reporting(1)), func(k *known) { k.Failed, k.Deletion = true, Deletion{"WaitingForWorkersDeletion", "a"} }, "Deleting", "True WaitingForWorkersDeletion a"},
		"one outdated, no number": {reporting(2, "", "a"), func(k *known) { k.ControlPlane.Spec.Replicas, k.Action = nil, Delete{k.Machines[1], "x"} }, "RollingOut",
			"True RollingOut Rolling out 1 not up-to-date replica\n* a"},
		"before the infrastructure": {reporting(1), func(k *known) { k.Cluster.Status.Initialization.InfrastructureProvisioned = nil }, "Initialized",
			"False NotInitialized Waiting for the Cluster's infrastructure to be provisioned"},
		"before the endpoint": {reporting(1), func(k *known) { k.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} }, "Initialized",
			"False NotInitialized Waiting for the Cluster's spec.controlPlaneEndpoint to be set"},
		"without certificates": {reporting(1), func(k *known) { k.Certificates.Err = errors.New("no CA") }, "CertificatesAvailable", "False NotAvailable no CA"},
		"after init":           {reporting(1), func(k *known) { k.ControlPlane.Status.Initialization.ControlPlaneInitialized = new(true) }, "Initialized", "True Initialized "},
		"once it can be asked": {reporting(1, ""), nil, "Initialized", "False NotInitialized "},
		"before the first expected answer": {reporting(1, ""), func(k *known) {
			silent(k, "connection refused")
			k.Machines[0].CreationTimestamp = metav1.NewTime(now.Add(1 - FirstContact))
		}, "Initialized", "False NotInitialized "},
		"it does not answer": {reporting(1, ""), func(k *known) { silent(k, "connection refused") }, "Initialized", "False NotInitialized Waiting for the workload cluster to answer: connection refused"},
		"it does not answer, for an unknown reason": {reporting(1, ""), func(k *known) {
			silent(k, "")
			conditions.Set(k.ControlPlane, now, metav1.Condition{Type: "Initialized", Status: metav1.ConditionFalse, Message: "as before"})
		}, "Initialized", "False NotInitialized as before"},
		"certificates that are there": {reporting(1), func(k *known) { k.Certificates.Checked = true }, "CertificatesAvailable", "True Available "},
		"certificates not yet due":    {reporting(1), nil, "CertificatesAvailable", "False NotAvailable "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change != nil {
				tc.change(tc.k)
			}
			if diff := cmp.Diff(tc.want, tc.k.says(tc.of)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
