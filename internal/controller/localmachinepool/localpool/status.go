// SPDX-License-Identifier: Apache-2.0

package localpool

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/kit/pause"
	"github.com/capstan-dev/capstan/internal/pure/localstatus"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

// maxReplicas is how many provider IDs spec.providerIDList can hold.
const maxReplicas = 10_000

// Waits is why the machines of a pool are not changed; empty if they are.
func (p Pool) Waits(cluster *clusterv1.Cluster, mp *clusterv1.MachinePool) string {
	want, ref := mp.Spec.Replicas, mp.Spec.Template.Spec.InfrastructureRef
	switch {
	case !reference.Names(ref, Kind, p.Local.Name):
		return fmt.Sprintf("Waiting for spec.template.spec.infrastructureRef of MachinePool %s to name this LocalMachinePool: it names %s %q", mp.Name, ref.Kind, ref.Name)
	case mp.Spec.ClusterName != cluster.Name:
		return fmt.Sprintf("Waiting for spec.clusterName of MachinePool %s to be %s, as this LocalMachinePool has it: it is %s", mp.Name, cluster.Name, mp.Spec.ClusterName)
	case want == nil:
		return fmt.Sprintf("Waiting for spec.replicas of MachinePool %s to be set", mp.Name)
	case *want < 0 || *want > maxReplicas:
		return fmt.Sprintf("spec.replicas of MachinePool %s is %d: set a number from 0 to %d", mp.Name, *want, maxReplicas)
	}
	return ""
}

// Blocked is why no machine can be created now; empty if one can.
func (p Pool) Blocked(cluster *clusterv1.Cluster, mp *clusterv1.MachinePool) string {
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Cluster %s is being deleted", cluster.Name)
	case !mp.DeletionTimestamp.IsZero():
		return fmt.Sprintf("MachinePool %s is being deleted", mp.Name)
	}
	return localstatus.BeforeStart(cluster, localstatus.ByPool(mp, &infrav1.LocalMachine{})).Message
}

// Status is the input of the status of a LocalMachinePool.
type Status struct {
	Pool
	Facts      Facts              // facts of the plan; without Template if there was none
	Cluster    *clusterv1.Cluster // nil: it was deleted
	Generation int64              // observed generation of the status
	Now        time.Time
	Members    []Member            // current members
	ProviderID string              // of the pool; empty if not known
	Capacity   corev1.ResourceList // of a machine
	NodeInfo   infrav1.NodeInfo
	Waiting    string // why the machines are not changed
	Blocked    string // why none can be created
	Failed     string // the error of this reconcile
}

// Note sets the fields of the spec that identify the pool and its machines for other
// controllers.
func (s Status) Note() {
	spec := &s.Local.Spec
	if s.ProviderID != "" {
		spec.ProviderID = s.ProviderID
	}
	spec.ProviderIDList = nil
	for _, m := range s.Members {
		if id := m.Local.Spec.ProviderID; id != "" {
			spec.ProviderIDList = append(spec.ProviderIDList, id)
		}
	}
	slices.Sort(spec.ProviderIDList)
	spec.ProviderIDList = slices.Compact(spec.ProviderIDList)
}

// Report fills the status of the LocalMachinePool.
func Report(s Status) {
	pool := s.Local
	st := &pool.Status
	st.Instances, st.FailureReason, st.FailureMessage = nil, nil, nil
	for _, m := range s.Members {
		local := m.Local.Status
		st.Instances = append(st.Instances, infrav1.LocalMachinePoolInstance{
			InstanceName: m.Local.Name, ProviderID: m.Local.Spec.ProviderID, Version: m.Local.Annotations[infrav1.PoolVersionAnnotation],
			Addresses: local.Addresses, Ready: new(ready(m)),
		})
		if st.FailureReason == nil && local.FailureReason != nil {
			st.FailureReason = new(*local.FailureReason)
			st.FailureMessage = new(fmt.Sprintf("LocalMachine %s: %s", m.Local.Name, ptr.Deref(local.FailureMessage, "")))
		}
	}
	st.InfrastructureMachineKind, st.Replicas = MachineKind.Kind, new(int32(len(s.Members)))
	if s.ProviderID != "" {
		st.Capacity, st.NodeInfo = s.Capacity, s.NodeInfo
	}
	if s.acted() && s.count(func(m Member) bool { return !m.Going() && localstatus.Provisioned(m.Local) }) >= s.Facts.Want {
		st.Initialization.Provisioned = new(true)
	}
	st.Ready = st.Initialization.Provisioned
	for _, c := range []metav1.Condition{s.ready(), pause.Condition(s.Cluster, pool)} {
		c.ObservedGeneration = s.Generation
		conditions.Set(pool, s.Now, c)
	}
}

// acted reports whether the machines were compared with the desired state.
func (s Status) acted() bool { return s.Waiting == "" && s.Facts.Template != "" }

func ready(m Member) bool { return conditions.IsTrue(m.Local, clusterv1.ReadyCondition) }

func (s Status) count(is func(Member) bool) (n int) {
	for _, m := range s.Members {
		if is(m) {
			n++
		}
	}
	return n
}

// ready is true while the desired number of machines run. It reports what is missing,
// and the progress of a replacement.
func (s Status) ready() metav1.Condition {
	c := conditions.New(clusterv1.ReadyCondition, metav1.ConditionFalse, clusterv1.NotReadyReason, "")
	var names []string
	var notReady []*infrav1.LocalMachine
	for _, m := range s.Members {
		names = append(names, m.Local.Name)
		if !m.Going() && !ready(m) {
			notReady = append(notReady, m.Local)
		}
	}
	running := s.count(func(m Member) bool { return !m.Going() && ready(m) })
	var lines []string
	switch {
	case !s.Local.DeletionTimestamp.IsZero():
		c.Reason, c.Message = clusterv1.DeletingReason, "The pool is being deleted"
		if len(names) > 0 {
			c.Message = fmt.Sprintf("Waiting for %s to be deleted: %s", conditions.Count(len(names), "LocalMachine"), conditions.Names(names))
		}
		return c
	case s.Waiting != "":
		c.Message = s.Waiting
		return c
	case !s.acted():
		c.Message = "Waiting for the pool to be observed: " + s.Failed
		return c
	case running < s.Facts.Want:
		lines = append(lines, fmt.Sprintf("%d of %d machines run", running, s.Facts.Want))
	default:
		c.Status, c.Reason = metav1.ConditionTrue, clusterv1.ReadyReason
	}
	old := s.count(s.Facts.outdated)
	if old > 0 {
		lines = append(lines, fmt.Sprintf("Replacing %s of another template or version", conditions.Count(old, "machine")))
	}
	if s.Blocked != "" && (old > 0 || len(s.Members) < s.Facts.Want) {
		lines = append(lines, "* "+s.Blocked)
	}
	if s.Failed != "" {
		lines = append(lines, "* "+s.Failed)
	}
	if len(lines) > 0 && len(notReady) > 0 {
		lines = append(lines, conditions.Aggregate(conditions.Objects("LocalMachine", notReady...), clusterv1.ReadyCondition, clusterv1.ReadyCondition, conditions.AggregateOptions{}).Message)
	}
	c.Message = strings.Join(lines, "\n")
	return c
}
