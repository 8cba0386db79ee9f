// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/metadata"
)

// notCopied are annotations of a MachineDeployment that concern only it.
var notCopied = append([]string{
	"kubectl.kubernetes.io/last-applied-configuration",
	"cluster.x-k8s.io/conversion-data",
	"machinedeployment.clusters.x-k8s.io/revision-history",
	clusterv1.PausedAnnotation,
	clusterv1.RevisionAnnotation,
	clusterv1.DesiredReplicasAnnotation,
	clusterv1.MaxReplicasAnnotation,
}, moveMarks...)

// newSet builds the MachineSet for the template of a MachineDeployment.
func newSet(md *clusterv1.MachineDeployment, name, unique string) *clusterv1.MachineSet {
	set := &clusterv1.MachineSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: md.Namespace, Name: name},
		Spec: clusterv1.MachineSetSpec{
			ClusterName: md.Spec.ClusterName,
			Selector:    *md.Spec.Selector.DeepCopy(),
			Template:    *md.Spec.Template.DeepCopy(),
		},
	}
	metav1.AddLabelToSelector(&set.Spec.Selector, clusterv1.MachineDeploymentUniqueLabel, unique)
	metav1.SetMetaDataLabel(&set.ObjectMeta, clusterv1.MachineDeploymentUniqueLabel, unique)
	return set
}

// result converts the desired state of the members to actions.
func (p *planner) result() Result {
	r := Result{RequeueAt: p.requeueAt()}
	revision := p.revision()
	if p.current != nil {
		r.Current, r.Revision = p.current.Name, revision
	}
	for _, m := range p.inOrder() {
		switch {
		case m.gone:
		case p.finished(m):
			r.Actions = append(r.Actions, Delete{m.Name, "the rollout is complete"})
		case m.isNew:
			r.Actions = append(r.Actions, Create{p.desired(m, revision), "no MachineSet matches the template"})
		default:
			if set := p.desired(m, revision); !same(m.MachineSet, set) {
				why := cmp.Or(m.why, "bring in what changed in place")
				r.Actions = append(r.Actions, Update{set, m.before, why})
			}
		}
	}
	return r
}

func same(a, b *clusterv1.MachineSet) bool {
	return equality.Semantic.DeepEqual(a.Spec, b.Spec) && maps.Equal(a.Labels, b.Labels) && maps.Equal(a.Annotations, b.Annotations)
}

// finished reports whether a MachineSet is left over from a completed rollout.
func (p *planner) finished(m *member) bool {
	c := p.current
	if p.paused() || c == nil || m == c || m.replicas > 0 || m.Actual > 0 {
		return false
	}
	return c.before == p.want && c.replicas == p.want && c.Actual == p.want && c.Available == p.want &&
		sum(p.others(), (*member).size) == 0
}

// desired is the complete desired MachineSet. Fields that a Machine cannot change in
// place stay; all others are from the MachineDeployment.
func (p *planner) desired(m *member, revision string) *clusterv1.MachineSet {
	md, set := p.Deployment, m.DeepCopy()
	from := md.Spec.Template.DeepCopy()
	set.Spec.Replicas = new(int32(m.replicas))
	set.Spec.MachineNaming = md.Spec.MachineNaming
	const usual = clusterv1.RandomMachineSetDeletionOrder // upstream's default
	if order := md.Spec.Deletion.Order; cmp.Or(order, usual) != cmp.Or(set.Spec.Deletion.Order, usual) {
		set.Spec.Deletion.Order = order
	}
	set.Spec.Template.Annotations = from.Annotations
	set.Spec.Template.Labels = metadata.Union(from.Labels, uniqueLabel(set))
	if have := &set.Spec.Template.Spec.MinReadySeconds; ptr.Deref(*have, 0) != ptr.Deref(from.Spec.MinReadySeconds, 0) {
		*have = from.Spec.MinReadySeconds // v1beta1 cannot distinguish unset from zero
	}
	set.Spec.Template.Spec.ReadinessGates = from.Spec.ReadinessGates
	set.Spec.Template.Spec.Taints = from.Spec.Taints
	set.Spec.Template.Spec.Deletion = from.Spec.Deletion

	want := metadata.Want{Labels: labelsOf(md, set), Annotations: p.annotations(m, revision)}
	maps.DeleteFunc(set.Annotations, func(key, _ string) bool { return slices.Contains(moveMarks, key) }) // of this controller, with any field owner
	if _, err := metadata.Sync(set, p.FieldOwner, want); err != nil {
		// The record of field owners cannot be read: add, and remove nothing.
		set.Labels, set.Annotations = metadata.Union(set.Labels, want.Labels), metadata.Union(set.Annotations, want.Annotations)
	}
	return set
}

// Passed is the metadata that a MachineSet gets from its MachineDeployment.
func Passed(md *clusterv1.MachineDeployment, set *clusterv1.MachineSet) metadata.Want {
	want := metadata.Want{Labels: labelsOf(md, set), Annotations: copied(md)}
	for _, key := range []string{clusterv1.DesiredReplicasAnnotation, clusterv1.MaxReplicasAnnotation, clusterv1.RevisionAnnotation, clusterv1.DisableMachineCreateAnnotation} {
		if value, ok := set.Annotations[key]; ok {
			want.Annotations[key] = value
		}
	}
	return want
}

func labelsOf(md *clusterv1.MachineDeployment, set *clusterv1.MachineSet) map[string]string {
	return metadata.Union(md.Spec.Template.Labels, uniqueLabel(set), map[string]string{
		clusterv1.MachineDeploymentNameLabel: md.Name, clusterv1.ClusterNameLabel: md.Spec.ClusterName,
	})
}

// uniqueLabel is the label that distinguishes a MachineSet, if it has one. Its selector
// has that label too, also after a client removed it.
func uniqueLabel(set *clusterv1.MachineSet) map[string]string {
	const key = clusterv1.MachineDeploymentUniqueLabel
	if value := cmp.Or(set.Spec.Selector.MatchLabels[key], set.Labels[key]); value != "" {
		return map[string]string{key: value}
	}
	return nil
}

// copied are the annotations of a MachineDeployment that its MachineSets get.
func copied(md *clusterv1.MachineDeployment) map[string]string {
	out := map[string]string{}
	for k, v := range md.Annotations {
		if !slices.Contains(notCopied, k) {
			out[k] = v
		}
	}
	return out
}

func (p *planner) annotations(m *member, revision string) map[string]string {
	out := copied(p.Deployment)
	out[clusterv1.DesiredReplicasAnnotation] = strconv.Itoa(p.want)
	out[clusterv1.MaxReplicasAnnotation] = strconv.Itoa(p.want + p.maxSurge)
	onDelete := p.Deployment.Spec.Rollout.Strategy.Type == clusterv1.OnDeleteMachineDeploymentStrategyType
	out[clusterv1.DisableMachineCreateAnnotation] = strconv.FormatBool(onDelete && m != p.current && (p.current != nil || len(p.Blocked) > 0))
	p.moves(m, out)
	if m == p.current {
		out[clusterv1.RevisionAnnotation] = revision
	} else if r, ok := m.Annotations[clusterv1.RevisionAnnotation]; ok {
		out[clusterv1.RevisionAnnotation] = r
	}
	return out
}

// revision of the current MachineSet: it is higher than that of all others, also when
// the template was reverted to an earlier one.
func (p *planner) revision() string {
	highest, own := 0, 0
	for _, m := range p.members {
		n, err := strconv.Atoi(strings.TrimSpace(m.Annotations[clusterv1.RevisionAnnotation]))
		switch {
		case err != nil:
		case m == p.current:
			own = n
		default:
			highest = max(highest, n)
		}
	}
	return strconv.Itoa(max(own, highest+1))
}

// requeueAt is the time of spec.rollout.after, if it is in the future.
func (p *planner) requeueAt() (at time.Time) {
	if after := p.Deployment.Spec.Rollout.After; after.After(p.Now) {
		return after.Time
	}
	return at
}
