// SPDX-License-Identifier: Apache-2.0

package v1beta1status

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/controlplane"
	"github.com/capstan-dev/capstan/internal/pure/v1beta1conditions"
)

var now = time.Date(2026, 1, 10, 0, 0, 0, 0, time.UTC)

// machine is a machine whose Node and components are ready, named by the first word and
// changed by the others:
//
//	bare no Node · unready its Node is not ready · old not up to date · going being deleted
//	starting, failed its API server is that · leaderless its etcd member is not healthy
func machine(words string) *controlplane.Machine {
	f := strings.Fields(words)
	m := &controlplane.Machine{Machine: &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Name: f[0]}}, Comparison: controlplane.Comparison{UpToDate: true}}
	m.Status.NodeRef.Name = f[0]
	set := func(t string, status metav1.ConditionStatus, reason, message string) {
		conditions.Set(m.Machine, now, conditions.New(t, status, reason, message))
	}
	set(clusterv1.MachineNodeReadyCondition, metav1.ConditionTrue, "X", "")
	for _, c := range all {
		set(c.of, metav1.ConditionTrue, "X", "")
	}
	ready := v1beta1conditions.True(clusterv1.ReadyV1Beta1Condition)
	for _, w := range f[1:] {
		switch w {
		case "bare":
			m.Status.NodeRef.Name = ""
			m.SetConditions(nil)
			ready = v1beta1conditions.False(clusterv1.ReadyV1Beta1Condition, info, clusterv1.WaitingForInfrastructureFallbackV1Beta1Reason, "")
		case "unready":
			set(clusterv1.MachineNodeReadyCondition, metav1.ConditionFalse, "X", "")
		case "old":
			m.Comparison = controlplane.Comparison{Why: []string{"old"}}
		case "going":
			m.DeletionTimestamp = new(metav1.NewTime(now))
		case "starting":
			set("APIServerPodHealthy", metav1.ConditionFalse, "Provisioning", "starts")
		case "failed":
			set("APIServerPodHealthy", metav1.ConditionFalse, "Failed", "broken")
		case "leaderless":
			set("EtcdMemberHealthy", metav1.ConditionFalse, "NotHealthy", "alarm")
		default:
			panic("unknown word " + w)
		}
	}
	v1beta1conditions.SetMachine(m.Machine, now, ready)
	m.Reported, m.Health = m.Machine.GetConditions(), m.Machine.GetConditions()
	return m
}

// status is that of a control plane that is initialized, with a desired number of
// machines. Its newer status is set.
func status(want int32, machines string, change ...func(*Status)) Status {
	kcp := &controlplanev1.KubeadmControlPlane{}
	kcp.Spec.Replicas = &want
	kcp.Status.Initialization.ControlPlaneInitialized = new(true)
	s := Status{Facts: controlplane.Facts{Now: now, ControlPlane: kcp, Cluster: &clusterv1.Cluster{}, Certificates: controlplane.Certificates{Checked: true}}}
	s.Workload.Connected = true
	s.Cluster.Status.Initialization.InfrastructureProvisioned = new(true)
	for words := range strings.SplitSeq(machines, ",") {
		if strings.TrimSpace(words) != "" {
			s.Machines = append(s.Machines, machine(words))
		}
	}
	for _, c := range change {
		c(&s)
	}
	kcp.Status, _ = controlplane.Report(s.Facts, controlplane.Outcome{})
	return s
}

func text(c *clusterv1.Condition) string {
	if c == nil {
		return "none"
	}
	parts := []string{string(c.Status), string(c.Severity), c.Reason, c.Message}
	return strings.Join(slices.DeleteFunc(parts, func(p string) bool { return p == "" }), " ")
}

func uninitialized(s *Status) { s.ControlPlane.Status.Initialization.ControlPlaneInitialized = nil }

func deleted(s *Status) { s.ControlPlane.DeletionTimestamp = new(metav1.NewTime(now)) }

func unchecked(s *Status) { s.Certificates = controlplane.Certificates{} }

// told sets a condition that was reported before.
func told(c clusterv1.Condition) func(*Status) {
	return func(s *Status) {
		s.ControlPlane.Status.Deprecated = &controlplanev1.KubeadmControlPlaneDeprecatedStatus{V1Beta1: &controlplanev1.KubeadmControlPlaneV1Beta1DeprecatedStatus{
			Conditions: v1beta1conditions.Set(nil, now.Add(-time.Hour), c),
		}}
	}
}

func TestConditions(t *testing.T) {
	t.Parallel()
	const (
		created, upToDate, resized = "MachinesCreated", "MachinesSpecUpToDate", "Resized"
		components, members        = "ControlPlaneComponentsHealthy", "EtcdClusterHealthy"
	)
	external := func(s *Status) {
		s.ControlPlane.Spec.KubeadmConfigSpec.ClusterConfiguration.Etcd.External.Endpoints = []string{"e"}
	}
	down := func(s *Status) {
		conditions.Set(s.Machines[0].Machine, now, conditions.New("APIServerPodHealthy", metav1.ConditionUnknown, clusterv1.ConnectionDownReason, "lost"))
		s.Machines[0].Health = s.Machines[0].Machine.GetConditions()
	}
	wasResized := told(v1beta1conditions.True(resized))
	tests := map[string]struct {
		status Status
		of     clusterv1.ConditionType
		want   string
	}{
		"all is well":          {status(3, "a,b,c"), "Ready", "True"},
		"the first is awaited": {status(1, "a bare", uninitialized), "Ready", "False Warning ScalingUp Scaling up control plane to 1 replicas (actual 1)"},
		"what is worse comes first": {status(3, "a old,b,c", func(s *Status) {
			s.NotCreated = v1beta1conditions.Failure{Reason: "MachineGenerationFailed", Message: "quota"}
		}), "Ready", "False Error MachineGenerationFailed quota"},
		"a machine could not be made": {status(3, "a", func(s *Status) {
			s.NotCreated = v1beta1conditions.Failure{Reason: "MachineGenerationFailed", Message: "quota"}
		}), created, "False Error MachineGenerationFailed quota"},
		"its template is missing":            {status(3, "a", func(s *Status) { s.Template = "no such template" }), created, "False Error InfrastructureTemplateCloningFailed no such template"},
		"missing, and not needed now":        {status(1, "a", func(s *Status) { s.Template = "no such template" }), created, "True"},
		"missing, and all is being deleted":  {status(1, "", deleted, func(s *Status) { s.Template = "no such template" }), created, "True"},
		"as desired":                         {status(1, "a"), upToDate, "True"},
		"outdated":                           {status(3, "a old,b old,c"), upToDate, "False Warning RollingUpdateInProgress Rolling 2 replicas with outdated spec (1 replicas up to date)"},
		"too few":                            {status(3, "a", wasResized), resized, "False Warning ScalingUp Scaling up control plane to 3 replicas (actual 1)"},
		"as many, one without a Node":        {status(2, "a,b bare", wasResized), resized, "False Warning ScalingUp Scaling up control plane to 2 replicas (actual 2)"},
		"as many, one coming up":             {status(2, "a,b unready", told(v1beta1conditions.False(resized, warning, "ScalingUp", "x"))), resized, "False Warning ScalingUp x"},
		"as many, one not ready any more":    {status(2, "a,b unready", wasResized), resized, "True"},
		"as many, no earlier report":         {status(2, "a,b unready"), resized, "False Warning ScalingUp Scaling up control plane to 2 replicas (actual 2)"},
		"as many":                            {status(2, "a,b", told(v1beta1conditions.False(resized, warning, "ScalingUp", "x"))), resized, "True"},
		"too many":                           {status(1, "a,b", wasResized), resized, "False Warning ScalingDown Scaling down control plane to 1 replicas (actual 2)"},
		"no number":                          {status(1, "a", func(s *Status) { s.ControlPlane.Spec.Replicas = nil }), resized, "True"},
		"deleted":                            {status(1, "a", deleted), resized, "False Info Deleting"},
		"machines are ready":                 {status(2, "a,b"), "MachinesReady", "True"},
		"a machine is not":                   {status(2, "a,b bare"), "MachinesReady", "False Info WaitingForInfrastructure @ Machine/b 1 of 2 completed"},
		"before kubeadm init has finished":   {status(1, "a bare", uninitialized), "Available", "False Info WaitingForKubeadmInit"},
		"after that":                         {status(1, "a unready"), "Available", "True"},
		"certificates are there":             {status(1, "a"), "CertificatesAvailable", "True"},
		"certificates are not":               {status(1, "a", func(s *Status) { s.Certificates.Err = errors.New("no CA") }), "CertificatesAvailable", "False Warning CertificatesGenerationFailed no CA"},
		"not checked":                        {status(1, "", unchecked), "CertificatesAvailable", "none"},
		"not checked again":                  {status(1, "", unchecked, told(v1beta1conditions.True("CertificatesAvailable"))), "CertificatesAvailable", "True"},
		"not checked, unreported in v1beta1": {status(1, "", unchecked, certain), "CertificatesAvailable", "True"},
		"components are healthy":             {status(1, "a"), components, "True"},
		"there is nothing to inspect":        {status(1, "a bare", uninitialized), components, "none"},
		"a component starts":                 {status(2, "a,b starting leaderless"), components, "False Info ControlPlaneComponentsUnhealthy * Machine b: APIServerPodHealthy: starts"},
		"a component has failed":             {status(2, "a starting,b failed"), components, "False Error ControlPlaneComponentsUnhealthy * Machine a: APIServerPodHealthy: starts\n* Machine b: APIServerPodHealthy: broken"},
		"no connection":                      {status(1, "a", down), components, "Unknown ControlPlaneComponentsInspectionFailed * Machine a: APIServerPodHealthy: lost"},
		"no machine has a Node":              {status(1, "a bare"), components, "Unknown ControlPlaneComponentsUnknown"},
		"etcd is healthy":                    {status(1, "a failed"), members, "True"},
		"a member is not":                    {status(2, "a,b leaderless"), members, "False Error EtcdClusterUnhealthy * Machine b: EtcdMemberHealthy: alarm"},
		"the members are unknown":            {status(1, "a bare"), members, "Unknown EtcdClusterUnknown"},
		"etcd is external":                   {status(1, "a", external, told(v1beta1conditions.True(members))), members, "none"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			Report(tc.status)
			if diff := cmp.Diff(tc.want, text(v1beta1conditions.Get(tc.status.ControlPlane.Status.Deprecated.V1Beta1.Conditions, tc.of))); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// certain sets the newer condition for certificates.
func certain(s *Status) {
	conditions.Set(s.ControlPlane, now, conditions.New(controlplanev1.KubeadmControlPlaneCertificatesAvailableCondition, metav1.ConditionTrue, "Available", ""))
}

func TestCounters(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		status Status
		want   string
	}{
		"none":                           {status(3, ""), "0 updated, 0 ready, 0 unavailable"},
		"all":                            {status(3, "a,b,c"), "3 updated, 3 ready, 0 unavailable"},
		"one outdated, one not ready":    {status(3, "a old,b unready,c"), "2 updated, 2 ready, 1 unavailable"},
		"one comes up":                   {status(3, "a,b bare"), "2 updated, 1 ready, 1 unavailable"},
		"ready, and all will be deleted": {status(2, "a,b", deleted), "2 updated, 0 ready, 2 unavailable"},
	} {
		Report(tc.status)
		st := tc.status.ControlPlane.Status.Deprecated.V1Beta1
		if got := fmt.Sprintf("%d updated, %d ready, %d unavailable", st.UpdatedReplicas, st.ReadyReplicas, st.UnavailableReplicas); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestWhatOthersHaveWrittenStays(t *testing.T) {
	t.Parallel()
	s := status(1, "a", told(v1beta1conditions.True("Theirs")))
	before := s.ControlPlane.Status.Deprecated.V1Beta1
	before.FailureReason = "Theirs"
	kept := before.DeepCopy()
	Report(s)
	after := s.ControlPlane.Status.Deprecated.V1Beta1
	if after.FailureReason != "Theirs" || v1beta1conditions.Get(after.Conditions, "Theirs") == nil {
		t.Errorf("%+v", after)
	}
	if diff := cmp.Diff(kept, before); diff != "" {
		t.Errorf("what was read has changed (-before +after)\n%s", diff)
	}
	again := after.DeepCopy()
	s.Now = now.Add(time.Hour)
	Report(s)
	if diff := cmp.Diff(again, s.ControlPlane.Status.Deprecated.V1Beta1); diff != "" {
		t.Errorf("of the same facts something else is made (-first +second)\n%s", diff)
	}
}
