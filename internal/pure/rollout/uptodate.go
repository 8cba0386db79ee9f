// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
)

// essence is the part of a template that a Machine cannot change in place.
type essence struct {
	Version        string                                     `json:"version,omitempty"`
	FailureDomain  string                                     `json:"failureDomain,omitempty"`
	ConfigRef      clusterv1.ContractVersionedObjectReference `json:"configRef,omitzero"`
	DataSecretName *string                                    `json:"dataSecretName,omitempty"`
	Infrastructure clusterv1.ContractVersionedObjectReference `json:"infrastructure,omitzero"`
}

func essenceOf(t clusterv1.MachineTemplateSpec) essence {
	return essence{t.Spec.Version, t.Spec.FailureDomain, t.Spec.Bootstrap.ConfigRef, t.Spec.Bootstrap.DataSecretName, t.Spec.InfrastructureRef}
}

// Behind returns why the Machines of a MachineSet do not match the MachineDeployment, as
// sentences; nothing when they need not be replaced. The MachineSet is the current one,
// or a candidate.
func Behind(md *clusterv1.MachineDeployment, set *clusterv1.MachineSet, now time.Time) []string {
	why := Differences(set.Spec.Template, md.Spec.Template)
	if after := md.Spec.Rollout.After; Overdue(after, set.CreationTimestamp, now) {
		why = append(why, "Rollout wanted after "+after.UTC().Format(time.RFC3339))
	}
	return why
}

// Overdue reports whether spec.rollout.after has passed, so that an object created
// before it must be replaced.
func Overdue(after, made metav1.Time, now time.Time) bool {
	return !after.IsZero() && !after.After(now) && made.Before(&after)
}

// Differences returns how a Machine of template have differs from one of template want,
// as sentences; nothing when it need not be replaced. A Secret next to a reference to a
// bootstrap config is where the config has stored its data, and does not count.
func Differences(have, want clusterv1.MachineTemplateSpec) (out []string) {
	a, b := essenceOf(have), essenceOf(want)
	differs := func(what, a, b string) {
		if a != b {
			out = append(out, fmt.Sprintf("%s %s, %s required", what, cmp.Or(a, "none"), cmp.Or(b, "none")))
		}
	}
	refer := func(what string, a, b clusterv1.ContractVersionedObjectReference) {
		if a.Kind == b.Kind && a.Name == b.Name {
			differs(what, named(a)+" of "+a.APIGroup, named(b)+" of "+b.APIGroup)
			return
		}
		differs(what, named(a), named(b))
	}
	differs("Version", a.Version, b.Version)
	differs("Failure domain", a.FailureDomain, b.FailureDomain)
	refer("Bootstrap config", a.ConfigRef, b.ConfigRef)
	if !b.ConfigRef.IsDefined() {
		differs("Bootstrap data Secret", ptr.Deref(a.DataSecretName, ""), ptr.Deref(b.DataSecretName, ""))
	}
	refer("Infrastructure", a.Infrastructure, b.Infrastructure)
	return out
}

func named(r clusterv1.ContractVersionedObjectReference) string {
	if !r.IsDefined() {
		return ""
	}
	return r.Kind + " " + r.Name
}

// UpToDate reports whether a Machine matches its MachineDeployment: it belongs to a
// MachineSet that is not behind, and runs the version of its spec.
func UpToDate(md *clusterv1.MachineDeployment, set *clusterv1.MachineSet, m *clusterv1.Machine, now time.Time) metav1.Condition {
	const target = clusterv1.MachineUpToDateCondition
	if _, ok := m.Annotations[clusterv1.UpdateInProgressAnnotation]; ok {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineUpToDateUpdatingReason, "* Update in place is in progress")
	}
	why := Behind(md, set, now)
	if info := m.Status.NodeInfo; info != nil && m.Spec.Version != "" && info.KubeletVersion != m.Spec.Version {
		why = append(why, fmt.Sprintf("Kubelet version %s, %s required", cmp.Or(info.KubeletVersion, "none"), m.Spec.Version))
	}
	if len(why) > 0 {
		return conditions.New(target, metav1.ConditionFalse, clusterv1.MachineNotUpToDateReason, "* "+strings.Join(why, "\n* "))
	}
	return conditions.New(target, metav1.ConditionTrue, clusterv1.MachineUpToDateReason, "")
}

// Superseded reports whether a rollout has made another MachineSet the current one, so
// that it will replace the Machines of this one; not without both of them, or while one
// has no revision yet. Unlike Behind, it depends on the decision, and not on the desired
// state: while a rollout is paused or blocked, nothing will be replaced.
func Superseded(md *clusterv1.MachineDeployment, set *clusterv1.MachineSet) (bool, error) {
	if md == nil || set == nil {
		return false, nil
	}
	own, err := revision(set)
	if err != nil {
		return false, err
	}
	newest, err := revision(md)
	return own > 0 && own < newest, err
}

// revision parses the revision of a MachineSet or MachineDeployment; 0 when it has none
// yet.
func revision(obj metav1.Object) (int64, error) {
	text := obj.GetAnnotations()[clusterv1.RevisionAnnotation]
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("annotation %s of %s/%s must be a number: %w", clusterv1.RevisionAnnotation, obj.GetNamespace(), obj.GetName(), err)
	}
	return n, nil
}
