// SPDX-License-Identifier: Apache-2.0

package kubeadmcontrolplane

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/pure/quorum"
)

// Record tells of a replacement of an unhealthy machine. On the control plane
// it says that one is under way; on a machine, whom it replaces.
type Record struct {
	Machine    string      `json:"machine"`
	Timestamp  metav1.Time `json:"timestamp"`
	RetryCount int32       `json:"retryCount"`
}

// ParseRecord reads the value of an annotation.
func ParseRecord(value string) (Record, error) {
	var r Record
	if err := json.Unmarshal([]byte(value), &r); err != nil {
		return r, fmt.Errorf("it is not the JSON of a remediation: %w", err)
	}
	return r, nil
}

// String is the value of the annotation.
func (r Record) String() string {
	raw, err := json.Marshal(r)
	if err != nil {
		panic(err) // a struct of plain fields always has a JSON form
	}
	return string(raw)
}

// Sickness are the facts about unhealthy machines that Remediate looks at.
type Sickness struct {
	Facts
	Members []quorum.Member // of etcd
	EtcdErr error           // why members are not known; nil if they are
	Now     time.Time
}

// Cure is what happens to an unhealthy machine: its deletion, or the reason why
// that has to wait.
type Cure struct {
	Machine *Machine
	Record  Record // to note when the machine is deleted
	Reason  string // of the condition OwnerRemediated; empty: the machine is deleted
	Message string
	Retry   time.Time // when the mere passing of time may change the answer; zero if never
}

// Remediate decides about the most broken of the machines that a health check
// wants replaced; nil if there is none, or one is being replaced already.
//
// A machine is replaced by deleting it, after which a new one is made as in
// scaling up. That is done only when the rules below have nothing against it.
func Remediate(s Sickness) *Cure {
	var sick []*Machine
	for _, m := range s.Machines {
		if conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition) && conditions.IsFalse(m, clusterv1.MachineOwnerRemediatedCondition) {
			sick = append(sick, m)
		}
	}
	if len(sick) == 0 {
		return nil
	}
	target := slices.MinFunc(sick, brokenFirst(ManagesEtcd(s.ControlPlane)))
	if _, busy := s.ControlPlane.Annotations[controlplanev1.RemediationInProgressAnnotation]; busy || target.Deleting() {
		return nil
	}
	c := &Cure{Machine: target, Record: Record{Machine: target.Name, Timestamp: metav1.NewTime(s.Now.UTC().Truncate(time.Second))}}
	for _, rule := range mayReplace {
		if rule(s, c); c.Reason != "" {
			break
		}
	}
	return c
}

// brokenFirst orders machines by how much is wrong with them.
func brokenFirst(managesEtcd bool) func(a, b *Machine) int {
	types := []string{
		controlplanev1.KubeadmControlPlaneMachineEtcdMemberHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineEtcdPodHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineAPIServerPodHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineControllerManagerPodHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineSchedulerPodHealthyCondition,
		controlplanev1.KubeadmControlPlaneMachineNodeKubeadmLabelsAndTaintsSetCondition,
	}
	if !managesEtcd {
		types = types[2:]
	}
	return func(a, b *Machine) int {
		order := []int{
			trueFirst(a.marked(clusterv1.RemediateMachineAnnotation), b.marked(clusterv1.RemediateMachineAnnotation)),
			trueFirst(a.Node() == "", b.Node() == ""),
		}
		for _, t := range types {
			order = append(order, trueFirst(!conditions.IsTrue(a, t), !conditions.IsTrue(b, t)))
		}
		return cmp.Or(append(order, oldest(a, b))...)
	}
}

func trueFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// mayReplace are the rules, in order; the first that objects is the reason to
// wait that users are told.
var mayReplace = []func(Sickness, *Cure){
	versionHasArrived, retriesAreLeft, othersRemain, nobodyComesUp, nobodyGoes, componentsRemain, quorumSurvives,
}

func (c *Cure) wait(message string, args ...any) {
	c.Reason, c.Message = controlplanev1.KubeadmControlPlaneMachineRemediationDeferredReason, fmt.Sprintf(message, args...)
}

func (c *Cure) never(message string, args ...any) {
	c.Reason, c.Message = controlplanev1.KubeadmControlPlaneMachineCannotBeRemediatedReason, fmt.Sprintf(message, args...)
}

func versionHasArrived(s Sickness, c *Cure) {
	if want := s.Cluster.Spec.Topology.Version; want != "" && want != s.ControlPlane.Spec.Version {
		c.wait("Waiting for a version upgrade to %s to be propagated from Cluster.spec.topology", want)
	}
}

// retriesAreLeft limits replacements of replacements: within the minimum
// healthy period they count as one sequence.
func retriesAreLeft(s Sickness, c *Cure) {
	value, ok := c.Machine.Annotations[controlplanev1.RemediationForAnnotation]
	if !ok {
		return
	}
	last, err := ParseRecord(value)
	if err != nil {
		c.never("Annotation %s: %v", controlplanev1.RemediationForAnnotation, err)
		return
	}
	spec := s.ControlPlane.Spec.Remediation
	if s.Now.Sub(last.Timestamp.Time) > seconds(spec.MinHealthyPeriodSeconds, controlplanev1.DefaultMinHealthyPeriodSeconds) {
		return
	}
	if pause := seconds(spec.RetryPeriodSeconds, 0); s.Now.Before(last.Timestamp.Add(pause)) {
		c.wait("KubeadmControlPlane can't remediate this machine because the operation already failed in the latest %s (spec.remediation.retryPeriodSeconds)", pause)
		c.Retry = last.Timestamp.Add(pause)
		return
	}
	if spec.MaxRetry != nil && last.RetryCount >= *spec.MaxRetry {
		c.never("KubeadmControlPlane can't remediate this machine because the operation already failed %d times (spec.remediation.maxRetry)", *spec.MaxRetry)
		return
	}
	c.Record.RetryCount = last.RetryCount + 1
}

func seconds(s *int32, otherwise int32) time.Duration {
	if s != nil {
		otherwise = *s
	}
	return time.Duration(otherwise) * time.Second
}

// The rules from here on protect what runs: before kubeadm init has finished,
// there is nothing to protect.

func othersRemain(s Sickness, c *Cure) {
	if Initialized(s.ControlPlane) && len(s.Machines) <= 1 {
		c.never("KubeadmControlPlane can't remediate if current replicas are less or equal to 1")
	}
}

func nobodyComesUp(s Sickness, c *Cure) {
	if !Initialized(s.ControlPlane) {
		return
	}
	for _, m := range s.Machines {
		sick := conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
		if m != c.Machine && m.Node() == "" && !sick && !m.Deleting() {
			c.wait("KubeadmControlPlane waiting for control plane Machine %s to have a Node before triggering remediation", m.Name)
			return
		}
	}
}

func nobodyGoes(s Sickness, c *Cure) {
	for _, m := range s.Machines {
		if m.Deleting() {
			c.wait("KubeadmControlPlane waiting for control plane Machine %s deletion to complete before triggering remediation", m.Name)
			return
		}
	}
}

func componentsRemain(s Sickness, c *Cure) {
	if !Initialized(s.ControlPlane) {
		return
	}
	if !s.Connected {
		c.wait("KubeadmControlPlane can't remediate while the workload cluster is not connected")
		return
	}
	if !ComponentsRemain(s.Machines, c.Machine) {
		c.wait("KubeadmControlPlane can't remediate this machine because no other machine would be left with healthy control plane components")
	}
}

// ComponentsRemain reports whether, without one of the machines, another would
// be left that can serve the API: one whose components are all healthy. etcd
// has rules of its own.
func ComponentsRemain(machines []*Machine, leaving *Machine) bool {
	return slices.ContainsFunc(machines, func(m *Machine) bool {
		return m != leaving && m.Node() != "" && len(Unhealthy(m, false)) == 0
	})
}

func quorumSurvives(s Sickness, c *Cure) {
	if !Initialized(s.ControlPlane) || !ManagesEtcd(s.ControlPlane) {
		return
	}
	if s.EtcdErr != nil {
		c.wait("KubeadmControlPlane can't remediate while etcd members are not known: %v", s.EtcdErr)
		return
	}
	var staying []string
	for _, m := range s.Machines {
		if m != c.Machine && m.Node() != "" { // who has none is unhealthy too, and not on its way: nobodyComesUp
			staying = append(staying, m.Node())
		}
	}
	if why := (quorum.Replacement{Members: s.Members, Leaving: c.Machine.Node(), Staying: staying}).Objection(); why != "" {
		c.wait("KubeadmControlPlane can't remediate this machine because this could result in etcd losing quorum: %s", why)
	}
}
