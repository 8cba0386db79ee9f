// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/kubeadmcontrolplane"
)

// reporting is the state of a control plane that wants some machines and has
// others, of which those with a reason are not up to date.
func reporting(want int32, reasons ...string) *state {
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	s := &state{Facts: kubeadmcontrolplane.Facts{ControlPlane: &controlplanev1.KubeadmControlPlane{}, Cluster: &clusterv1.Cluster{}, Now: now}}
	s.Cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	s.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{Host: "h", Port: 6443}
	s.ControlPlane.Spec.Replicas = &want
	for _, why := range reasons {
		m := &kubeadmcontrolplane.Machine{Machine: &clusterv1.Machine{}, Verdict: kubeadmcontrolplane.Verdict{UpToDate: why == ""}}
		if why != "" {
			m.Why = []string{why}
		}
		conditions.Set(m, now, upToDate(m))
		s.Machines = append(s.Machines, m)
	}
	return s
}

func TestWhatAControlPlaneSaysOfItsMachines(t *testing.T) {
	t.Parallel()
	going := func(s *state) *state {
		s.ControlPlane.DeletionTimestamp = new(metav1.NewTime(s.Now))
		return s
	}
	type change = func(*state)
	blocked := func(why ...string) change { return func(s *state) { s.blocked = why } }
	held := func(why ...string) change { return func(s *state) { s.held = why } }
	problem := func(s *state) { s.problem = "the template is not there" }
	tests := map[string]struct {
		s      *state
		change change
		of     func(*state) metav1.Condition
		want   string
	}{
		"as many as wanted":                     {reporting(1, ""), nil, scalingUp, "False NotScalingUp "},
		"as many as wanted, no template":        {reporting(1, ""), problem, scalingUp, "False NotScalingUp Scaling up would be blocked because the template is not there"},
		"too few":                               {reporting(3, ""), nil, scalingUp, "True ScalingUp Scaling up from 1 to 3 replicas"},
		"too few, blocked":                      {reporting(3, ""), blocked("a", "b"), scalingUp, "True ScalingUp Scaling up from 1 to 3 replicas is blocked because:\n* a\n* b"},
		"too few, no template":                  {reporting(1), problem, scalingUp, "True ScalingUp Scaling up from 0 to 1 replica is blocked because:\n* the template is not there"},
		"no number":                             {reporting(1), func(s *state) { s.ControlPlane.Spec.Replicas = nil }, scalingUp, "Unknown WaitingForReplicasSet Waiting for spec.replicas set"},
		"too few, deleted":                      {going(reporting(3)), problem, scalingUp, "False NotScalingUp "},
		"none too many":                         {reporting(3, ""), nil, scalingDown, "False NotScalingDown "},
		"none too many, one waits to terminate": {reporting(1, ""), held("a"), scalingDown, "False NotScalingDown a"},
		"too many":                              {reporting(1, "", ""), nil, scalingDown, "True ScalingDown Scaling down from 2 to 1 replica"},
		"too many, one waits to terminate":      {reporting(1, "", ""), func(s *state) { blocked("a")(s); held("b")(s) }, scalingDown, "True ScalingDown Scaling down from 2 to 1 replica is blocked because:\n* a\n* b"},
		"too many, no number":                   {reporting(1, ""), func(s *state) { s.ControlPlane.Spec.Replicas = nil }, scalingDown, "Unknown WaitingForReplicasSet Waiting for spec.replicas set"},
		"deleted":                               {going(reporting(1, "")), nil, scalingDown, "True ScalingDown Scaling down from 1 to 0 replicas"},
		"none outdated":                         {reporting(1, ""), nil, rollingOut, "False NotRollingOut "},
		"one outdated":                          {reporting(2, "", "a"), nil, rollingOut, "True RollingOut Rolling out 1 not up-to-date replica\n* a"},
		"several outdated, one reason twice":    {reporting(3, "a", "b", "a"), nil, rollingOut, "True RollingOut Rolling out 3 not up-to-date replicas\n* a\n* b"},
		"not being deleted":                     {reporting(1), nil, func(s *state) metav1.Condition { return deletingCondition(s, nil) }, "False NotDeleting "},
		"being deleted, nobody could look": {going(reporting(1)), nil, func(s *state) metav1.Condition { return deletingCondition(s, errors.New("x")) },
			"True InternalError Looking for what is left to delete failed"},
		"being deleted": {going(reporting(1)), func(s *state) { s.deleting = deleting{"WaitingForWorkersDeletion", "a"} },
			func(s *state) metav1.Condition { return deletingCondition(s, errors.New("x")) }, "True WaitingForWorkersDeletion a"},
		"before the infrastructure": {reporting(1), func(s *state) { s.Cluster.Status.Initialization.InfrastructureProvisioned = nil }, initialized,
			"False NotInitialized Waiting for the Cluster's infrastructure to be provisioned"},
		"before the endpoint": {reporting(1), func(s *state) { s.Cluster.Spec.ControlPlaneEndpoint = clusterv1.APIEndpoint{} }, initialized,
			"False NotInitialized Waiting for the Cluster's spec.controlPlaneEndpoint to be set"},
		"without certificates":     {reporting(1), func(s *state) { s.certsErr = errors.New("no CA") }, certificatesAvailable, "False NotAvailable no CA"},
		"certificates not yet due": {reporting(1), nil, certificatesAvailable, "False NotAvailable "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.change != nil {
				tc.change(tc.s)
			}
			c := tc.of(tc.s)
			if diff := cmp.Diff(tc.want, string(c.Status)+" "+c.Reason+" "+c.Message); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
