// SPDX-License-Identifier: Apache-2.0

package controlplane

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
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane/quorum"
	"github.com/capstan-dev/capstan/internal/pure/healthcheck"
	"github.com/capstan-dev/capstan/internal/pure/scaling"
)

// Record describes a replacement of an unhealthy machine. On the control plane it says
// that one is in progress; on a machine, which machine it replaces.
type Record struct {
	Machine    string      `json:"machine"`
	Timestamp  metav1.Time `json:"timestamp"`
	RetryCount int32       `json:"retryCount"`
}

// ParseRecord parses the value of an annotation.
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

// Remediation is the decision for an unhealthy machine: its deletion, or the reason why
// that has to wait.
type Remediation struct {
	Machine *Machine
	Record  Record // to store when the machine is deleted
	Reason  string // of the condition OwnerRemediated; empty: the machine is deleted
	Message string
	Retry   time.Time // when time alone may change the decision; zero if never
}

// Remediate decides about the machine with the most severe problems, of those that a
// health check marked for replacement; nil if there is none, or if a replacement is
// already in progress.
//
// A machine is replaced by its deletion, after which a new one is created as in scaling
// up. That happens only if all rules below permit it.
func Remediate(f Facts) *Remediation {
	var unhealthy []*Machine
	for _, m := range f.Machines {
		if healthcheck.MarkedForRemediation(m.Machine) && !slices.Contains(f.OrdersHeld, m.Name) {
			unhealthy = append(unhealthy, m)
		}
	}
	if len(unhealthy) == 0 {
		return nil
	}
	target := slices.MinFunc(unhealthy, brokenFirst(ManagesEtcd(f.ControlPlane)))
	if _, busy := f.ControlPlane.Annotations[controlplanev1.RemediationInProgressAnnotation]; busy || target.Deleting() {
		return nil
	}
	r := &Remediation{Machine: target, Record: Record{Machine: target.Name, Timestamp: metav1.NewTime(f.Now.UTC().Truncate(time.Second))}}
	for _, rule := range mayReplace {
		if rule(f, r); r.Reason != "" {
			r.Message = healthcheck.Because(target.Machine, r.Message)
			break
		}
	}
	return r
}

// UnderWay reports whether the replacement that the control plane records is still to be
// created: no newer machine exists yet, and one is missing once the old one is deleted.
// If the desired number was reduced meanwhile, none may be missing.
func UnderWay(f Facts) (bool, error) {
	const key = controlplanev1.RemediationInProgressAnnotation
	value, noted := f.ControlPlane.Annotations[key]
	if !noted {
		return false, nil
	}
	record, err := ParseRecord(value)
	if err != nil {
		return true, fmt.Errorf("annotation %s: %w; remove it", key, err)
	}
	going := false
	for _, m := range f.Machines {
		if m.CreationTimestamp.After(record.Timestamp.Time) {
			return false, nil
		}
		going = going || m.Name == record.Machine
	}
	action, _ := Plan(f)
	_, missing := action.(Create)
	return going || missing, nil
}

// brokenFirst orders machines by the severity of their problems.
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
			quorum.TrueFirst(a.marked(clusterv1.RemediateMachineAnnotation), b.marked(clusterv1.RemediateMachineAnnotation)),
			quorum.TrueFirst(a.Node() == "", b.Node() == ""),
		}
		for _, t := range types {
			order = append(order, quorum.TrueFirst(!conditions.IsTrue(a.Health, t), !conditions.IsTrue(b.Health, t)))
		}
		return cmp.Or(append(order, oldest(a, b))...)
	}
}

// mayReplace are the rules, in order; the first that objects provides the message for
// users.
var mayReplace = []func(Facts, *Remediation){
	versionHasArrived, retriesAreLeft, othersRemain, noMachineStarts, noMachineIsDeleted, componentsRemain, quorumSurvives,
}

func (r *Remediation) wait(message string, args ...any) {
	r.Reason, r.Message = controlplanev1.KubeadmControlPlaneMachineRemediationDeferredReason, fmt.Sprintf(message, args...)
}

func (r *Remediation) never(message string, args ...any) {
	r.Reason, r.Message = controlplanev1.KubeadmControlPlaneMachineCannotBeRemediatedReason, fmt.Sprintf(message, args...)
}

func versionHasArrived(f Facts, r *Remediation) {
	if want := scaling.Pending(f.Cluster, f.ControlPlane.Spec.Version); want != "" {
		r.wait("Waiting for a version upgrade to %s to be propagated from Cluster.spec.topology", want)
	}
}

// retriesAreLeft limits replacements of replacements: within the minimum healthy period
// they count as one sequence.
func retriesAreLeft(f Facts, r *Remediation) {
	value, ok := r.Machine.Annotations[controlplanev1.RemediationForAnnotation]
	if !ok {
		return
	}
	last, err := ParseRecord(value)
	if err != nil {
		r.never("Annotation %s: %v", controlplanev1.RemediationForAnnotation, err)
		return
	}
	spec := f.ControlPlane.Spec.Remediation
	forgiven := last.Timestamp.Add(seconds(spec.MinHealthyPeriodSeconds, controlplanev1.DefaultMinHealthyPeriodSeconds))
	if !f.Now.Before(forgiven) {
		return
	}
	pause := seconds(spec.RetryPeriodSeconds, 0)
	again := last.Timestamp.Add(pause)
	switch {
	case f.Now.Before(again):
		r.wait("KubeadmControlPlane can't remediate this machine because the operation already failed in the latest %s (spec.remediation.retryPeriodSeconds)", pause)
		if r.Retry = again; forgiven.Before(again) {
			r.Retry = forgiven
		}
		return
	case spec.MaxRetry != nil && last.RetryCount >= *spec.MaxRetry:
		r.never("KubeadmControlPlane can't remediate this machine because the operation already failed %d times (spec.remediation.maxRetry)", *spec.MaxRetry)
		r.Retry = forgiven
		return
	}
	r.Record.RetryCount = last.RetryCount + 1
}

func seconds(s *int32, otherwise int32) time.Duration {
	if s != nil {
		otherwise = *s
	}
	return time.Duration(otherwise) * time.Second
}

// The following rules protect running components: before kubeadm init has finished,
// there are none to protect.

func othersRemain(f Facts, r *Remediation) {
	if Initialized(f.ControlPlane) && len(f.Machines) <= 1 {
		r.never("KubeadmControlPlane can't remediate if current replicas are less or equal to 1")
	}
}

func noMachineStarts(f Facts, r *Remediation) {
	if !Initialized(f.ControlPlane) {
		return
	}
	for _, m := range f.Machines {
		unhealthy := conditions.IsFalse(m, clusterv1.MachineHealthCheckSucceededCondition)
		if m != r.Machine && m.Node() == "" && !unhealthy && !m.Deleting() {
			r.wait("KubeadmControlPlane waiting for control plane Machine %s to have a Node before triggering remediation", m.Name)
			return
		}
	}
}

func noMachineIsDeleted(f Facts, r *Remediation) {
	for _, m := range f.Machines {
		if m.Deleting() {
			r.wait("KubeadmControlPlane waiting for control plane Machine %s deletion to complete before triggering remediation", m.Name)
			return
		}
	}
}

func componentsRemain(f Facts, r *Remediation) {
	if !Initialized(f.ControlPlane) {
		return
	}
	if !f.Workload.Connected {
		r.wait("KubeadmControlPlane can't remediate while the workload cluster is not connected")
		return
	}
	if !componentsRemainWithout(f.Machines, r.Machine) {
		r.wait("KubeadmControlPlane can't remediate this machine because no other machine would be left with healthy control plane components")
	}
}

// componentsRemainWithout reports whether, without one of the machines, another one
// remains that can serve the API: one whose components are all healthy, and that has not
// been released to terminate. etcd has its own rules.
func componentsRemainWithout(machines []*Machine, leaving *Machine) bool {
	return slices.ContainsFunc(machines, func(m *Machine) bool {
		released := m.Deleting() && !m.marked(controlplanev1.PreTerminateHookCleanupAnnotation)
		return m != leaving && !released && m.Node() != "" && len(Unhealthy(m, false)) == 0
	})
}

func quorumSurvives(f Facts, r *Remediation) {
	if !Initialized(f.ControlPlane) || !ManagesEtcd(f.ControlPlane) {
		return
	}
	if f.Etcd.Err != nil {
		r.wait("KubeadmControlPlane can't remediate while etcd members are not known: %v", f.Etcd.Err)
		return
	}
	if why := f.replacement(r.Machine).Objection(); why != "" {
		r.wait("KubeadmControlPlane can't remediate this machine because this could result in etcd losing quorum: %s", why)
	}
}
