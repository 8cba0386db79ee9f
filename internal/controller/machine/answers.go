// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/machine/machinedeletion"
	"github.com/capstan-dev/capstan/internal/kit/questions"
	"github.com/capstan-dev/capstan/internal/pure/reference"
)

const (
	// evictionBudget bounds the evictions of one reconcile; the next continues with
	// the rest.
	evictionBudget = 10 * time.Second

	// podsPerPage bounds one response, since all responses together have a memory
	// budget; upstream lists as many.
	podsPerPage = 100
)

// answer reads, or executes, what the plan of a deletion requests.
func (r *Reconciler) answer(ctx context.Context, s *state, q machinedeletion.Question) (a machinedeletion.Answer, err error) {
	switch q.Kind {
	case machinedeletion.ControlPlane:
		return r.controlPlane(ctx, s)
	case machinedeletion.ControlPlaneMachines:
		a.Number, err = r.controlPlaneMachines(ctx, s)
	case machinedeletion.DoCordon:
		err = cordon(ctx, s)
	case machinedeletion.DoEvict:
		return r.evict(ctx, s, q), nil
	case machinedeletion.DoDeleteInfrastructure:
		a.Held, err = r.deleteReferred(ctx, s, &s.infraMachine)
	case machinedeletion.DoDeleteBootstrap:
		a.Held, err = r.deleteReferred(ctx, s, &s.bootstrapConfig)
	case machinedeletion.DoDeleteNode:
		a.NodeNotGone = questions.Failed(deleteNode(ctx, s, q.Name))
	default:
		if a, err = r.read(ctx, s, q); err != nil {
			err = fmt.Errorf("drain Node %s: %w", s.seen.Node.Name, err)
		}
	}
	return a, err
}

// read reads the objects that determine whether a Node is drained.
func (r *Reconciler) read(ctx context.Context, s *state, q machinedeletion.Question) (a machinedeletion.Answer, err error) {
	list := func(from client.Client, into client.ObjectList, what string, opts ...client.ListOption) {
		if err = from.List(ctx, into, opts...); err != nil {
			err = fmt.Errorf("list %s: %w", what, err)
		}
	}
	switch q.Kind {
	case machinedeletion.DrainRules:
		var rules clusterv1.MachineDrainRuleList
		list(r.Mgmt, &rules, "MachineDrainRules", client.InNamespace(s.machine.Namespace))
		a.Rules = rules.Items
	case machinedeletion.Pods:
		a.Pods, err = podsOf(ctx, s.deletion.workload, q.Name)
	case machinedeletion.DaemonSet:
		key := client.ObjectKey{Namespace: q.Namespace, Name: q.Name}
		if err = s.deletion.workload.Get(ctx, key, &appsv1.DaemonSet{}); client.IgnoreNotFound(err) != nil {
			return a, fmt.Errorf("get DaemonSet %s: %w", key, err)
		}
		a.Exists, err = err == nil, nil
	case machinedeletion.NamespaceLabels:
		var namespaces corev1.NamespaceList
		list(s.deletion.workload, &namespaces, "Namespaces")
		a.Labels = map[string]map[string]string{}
		for _, n := range namespaces.Items {
			a.Labels[n.Name] = n.Labels
		}
	case machinedeletion.VolumeAttachments:
		var attachments storagev1.VolumeAttachmentList
		list(s.deletion.workload, &attachments, "VolumeAttachments")
		a.Attachments = attachments.Items
	case machinedeletion.PersistentVolumes:
		var volumes corev1.PersistentVolumeList
		list(s.deletion.workload, &volumes, "PersistentVolumes")
		a.Volumes = volumes.Items
	default:
		return a, fmt.Errorf("unknown question %v", q)
	}
	return a, err
}

// controlPlane returns the state of the control plane object of the Cluster.
func (r *Reconciler) controlPlane(ctx context.Context, s *state) (a machinedeletion.Answer, err error) {
	cp, err := r.Providers.Get(ctx, s.cluster.Namespace, s.cluster.Spec.ControlPlaneRef)
	if apierrors.IsNotFound(err) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("spec.controlPlaneRef of Cluster %s: %w", s.cluster.Name, err)
	}
	a.Exists, a.Going = true, !cp.GetDeletionTimestamp().IsZero()
	if a.Going {
		return a, nil
	}
	c, err := contract.ControlPlaneFor(cp.Contract)
	if err != nil {
		return a, err
	}
	a.External, _, err = c.ExternallyManaged.Get(cp.Unstructured)
	return a, err
}

// controlPlaneMachines counts the control plane Machines that are not being
// deleted.
func (r *Reconciler) controlPlaneMachines(ctx context.Context, s *state) (n int, err error) {
	var machines clusterv1.MachineList
	in := append(inCluster(client.ObjectKeyFromObject(s.cluster)), client.HasLabels{clusterv1.MachineControlPlaneLabel}, client.UnsafeDisableDeepCopy)
	if err := r.Mgmt.List(ctx, &machines, in...); err != nil {
		return 0, fmt.Errorf("list control plane Machines: %w", err)
	}
	for _, m := range machines.Items {
		if m.DeletionTimestamp.IsZero() {
			n++
		}
	}
	return n, nil
}

// cordon makes the Node unschedulable for new Pods.
func cordon(ctx context.Context, s *state) error {
	changed := s.seen.Node.DeepCopy()
	changed.Spec.Unschedulable = true
	if err := s.deletion.workload.Patch(ctx, changed, client.StrategicMergeFrom(s.seen.Node)); err != nil {
		return fmt.Errorf("cordon Node %s: %w", s.seen.Node.Name, err)
	}
	return nil
}

func podsOf(ctx context.Context, workloadClient client.Client, node string) (all []corev1.Pod, err error) {
	for next := ""; ; {
		page := &corev1.PodList{} // JSON is decoded into the memory of items that a list has
		if err := workloadClient.List(ctx, page, client.MatchingFields{"spec.nodeName": node}, client.Limit(podsPerPage), client.Continue(next)); err != nil {
			return nil, fmt.Errorf("list Pods: %w", err)
		}
		all = append(all, page.Items...)
		if next = page.Continue; next == "" {
			return all, nil
		}
	}
}

// evict requests the eviction of a Pod, unless the time budget is used up.
func (r *Reconciler) evict(ctx context.Context, s *state, q machinedeletion.Question) machinedeletion.Answer {
	left := evictionBudget - s.deletion.evicting
	if left <= 0 {
		return machinedeletion.Answer{Refused: "its turn comes next, evictions take long"}
	}
	began := r.Clock.Now()
	defer func() { s.deletion.evicting += r.Clock.Since(began) }()
	within, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: q.Namespace, Name: q.Name}}
	ctrl.LoggerFrom(ctx).Info("Evicting Pod", "Pod", client.ObjectKeyFromObject(pod))
	options := &metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &q.UID}}
	if q.Grace > 0 {
		options.GracePeriodSeconds = &q.Grace
	}
	err := s.deletion.workload.SubResource("eviction").Create(within, pod, &policyv1.Eviction{ObjectMeta: pod.ObjectMeta, DeleteOptions: options})
	if apierrors.IsNotFound(err) {
		return machinedeletion.Answer{Gone: true}
	}
	return machinedeletion.Answer{Refused: refusal(err)}
}

// refusal returns why an eviction was refused; "" if it was not.
func refusal(err error) string {
	switch {
	case err == nil || apierrors.IsConflict(err): // a conflict: another Pod has its name, perhaps on this Node
		return ""
	case apierrors.IsTooManyRequests(err) && len(causes(err)) > 0: // without causes the API server is only busy
		return "cannot evict pod as it would violate the pod's disruption budget. " + strings.Join(causes(err), " ")
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return "the namespace is being deleted, waiting for it to take the pod along"
	default:
		return "failed to evict Pod, " + err.Error()
	}
}

// causes returns the causes in an error of the API server.
func causes(err error) (out []string) {
	if status, ok := errors.AsType[*apierrors.StatusError](err); ok && status.ErrStatus.Details != nil {
		for _, cause := range status.ErrStatus.Details.Causes {
			out = append(out, cause.Message)
		}
	}
	return out
}

// deleteReferred requests the deletion of an object, unless that has been done. It
// reports whether the object has another owner, and stays.
func (r *Reconciler) deleteReferred(ctx context.Context, s *state, ref *provider.Reference) (held bool, err error) {
	asked := !ref.Obj.GetDeletionTimestamp().IsZero()
	if err := r.Providers.Remove(ctx, ref, reference.ByMachine(s.machine)); err != nil {
		return false, err
	}
	switch log := ctrl.LoggerFrom(ctx); {
	case ref.Held():
		log.Info("Leaving alone what the Machine refers to", ref.Ref.Kind, ref.Ref.Name, "reason", ref.Err.Error())
	case !asked:
		log.Info("Deleting what the Machine refers to", ref.Ref.Kind, ref.Ref.Name)
	}
	return ref.Held(), nil
}

// deleteNode deletes the Node of the Machine. That there is none is no error: another
// machine may have got its name since, and keeps its Node.
func deleteNode(ctx context.Context, s *state, name string) error {
	if s.seen.Node == nil {
		return nil
	}
	err := client.IgnoreNotFound(s.deletion.workload.Delete(ctx, s.seen.Node.DeepCopy(), client.Preconditions{UID: new(s.seen.Node.UID)}))
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Deleted Node", "Node", name)
	}
	return err
}
