// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlcluster "sigs.k8s.io/cluster-api/cmd/clusterctl/client/cluster"
	"sigs.k8s.io/cluster-api/test/e2e"
	"sigs.k8s.io/cluster-api/test/framework"
	"sigs.k8s.io/cluster-api/util/conditions"
)

// check is a function of the framework that a spec calls when its cluster exists.
type check = func(proxy framework.ClusterProxy, namespace, cluster string)

// ownersByKind reports by kind whether an object has the owner references of upstream.
type ownersByKind = map[string]func(types.NamespacedName, []metav1.OwnerReference) error

func expectedOwners(topology bool) []ownersByKind {
	infrastructure := framework.DevInfraOwnerReferenceAssertions(topology)
	if flags.setup == local {
		infrastructure = localOwners(infrastructure)
	}
	return []ownersByKind{
		framework.CoreOwnerReferenceAssertion, framework.ExpOwnerReferenceAssertions, infrastructure,
		framework.KubeadmBootstrapOwnerReferenceAssertions, framework.KubeadmControlPlaneOwnerReferenceAssertions(topology),
		framework.KubernetesReferenceAssertions,
	}
}

// localOwners is what upstream expects of its dev provider, for Capstan's kinds.
func localOwners(dev ownersByKind) ownersByKind {
	all := ownersByKind{}
	for kind, expect := range dev {
		all[localKind(kind)] = func(name types.NamespacedName, owners []metav1.OwnerReference) error {
			owners = slices.Clone(owners)
			for i := range owners {
				if group, ok := strings.CutPrefix(owners[i].APIVersion, localGroup); ok {
					owners[i].APIVersion, owners[i].Kind = devGroup+group, "Dev"+strings.TrimPrefix(owners[i].Kind, "Local")
				}
			}
			return expect(name, owners)
		}
	}
	return all
}

// owners checks that lost owner references are restored.
func owners(topology bool) check {
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		framework.ValidateOwnerReferencesResilience(ctx, proxy, namespace, cluster,
			clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster), expectedOwners(topology)...)
	}
}

// ownerVersions checks that owner references to an old version are updated.
func ownerVersions(topology bool) check {
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		framework.ValidateOwnerReferencesOnUpdate(ctx, proxy, namespace, cluster,
			clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster), expectedOwners(topology)...)
	}
}

// finalizers checks that lost finalizers are restored. With a topology,
// MachineDeployments and MachineSets have none of upstream's topology controllers:
// docs/book/compatibility.md has the reason.
func finalizers(proxy framework.ClusterProxy, namespace, cluster string) {
	infrastructure := framework.DevInfraFinalizersAssertion
	if flags.setup == local {
		infrastructure = map[string]func(types.NamespacedName) []string{}
		for _, kind := range []string{"LocalCluster", "LocalMachine", "LocalMachinePool"} {
			infrastructure[kind] = func(types.NamespacedName) []string { return []string{localGroup + "/" + strings.ToLower(kind)} }
		}
	}
	framework.ValidateFinalizersResilience(ctx, proxy, namespace, cluster, clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster),
		framework.CoreFinalizersAssertionWithLegacyClusters, framework.KubeadmControlPlaneFinalizersAssertion, framework.ExpFinalizersAssertion, infrastructure)
}

// stable checks that no controller writes to the objects of a cluster in steady state.
func stable(spec string) check {
	return func(proxy framework.ClusterProxy, namespace, cluster string) {
		framework.ValidateResourceVersionStable(ctx, framework.ValidateResourceVersionStableInput{
			ClusterProxy: proxy, Namespace: namespace,
			OwnerGraphFilterFunction: clusterctlcluster.FilterClusterObjectsWithNameFilter(cluster),
			WaitToBecomeStable:       config.GetIntervals(spec, "wait-resource-versions-become-stable"),
			WaitToRemainStable:       config.GetIntervals(spec, "wait-resource-versions-remain-stable"),
		})
	}
}

// withoutBackendMetadata leaves out what a backend or a test adds to an object.
func withoutBackendMetadata(o client.Object) clusterv1.ObjectMeta {
	labels, annotations := o.GetLabels(), o.GetAnnotations()
	delete(labels, "top-level-label-1")
	for _, a := range []string{"top-level-annotation-1", "inmemorycluster.infrastructure.cluster.x-k8s.io/listener", "machine.inmemory.infrastructure.cluster.x-k8s.io/bootstrapped"} {
		delete(annotations, a)
	}
	return clusterv1.ObjectMeta{Labels: labels, Annotations: annotations}
}

// deletionPhases is the order in which the objects of a cluster are deleted.
func deletionPhases() []e2e.ClusterDeletionPhase {
	owned := func(owners []metav1.OwnerReference, kinds ...string) bool {
		return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return slices.Contains(kinds, o.Kind) })
	}
	machine := func(o corev1.ObjectReference, _ []metav1.OwnerReference) bool { return o.Kind == "Machine" }
	infrastructure := func(o corev1.ObjectReference, _ []metav1.OwnerReference) bool {
		return o.Kind == localKind("DevCluster")
	}
	return []e2e.ClusterDeletionPhase{
		{BlockingObjectFilter: machine, ObjectFilter: func(o corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			return o.Kind == "MachineDeployment" || o.Kind == "MachineSet" || o.Kind == "Machine" && owned(owners, "MachineDeployment", "MachineSet")
		}},
		{BlockingObjectFilter: machine, ObjectFilter: func(o corev1.ObjectReference, owners []metav1.OwnerReference) bool {
			return o.Kind == "KubeadmControlPlane" || o.Kind == "Machine" && owned(owners, "KubeadmControlPlane")
		}},
		{BlockingObjectFilter: infrastructure, ObjectFilter: infrastructure},
	}
}

// attachVolumes attaches a volume to each node, which its finalizer keeps attached.
func attachVolumes(ctx context.Context, proxy framework.ClusterProxy, cluster *clusterv1.Cluster) {
	c := proxy.GetWorkloadCluster(ctx, cluster.Namespace, cluster.Name).GetClient()
	nodes := &corev1.NodeList{}
	Expect(c.List(ctx, nodes)).To(Succeed())
	for _, node := range nodes.Items {
		volume := "foo"
		a := &storagev1.VolumeAttachment{
			ObjectMeta: metav1.ObjectMeta{Name: "va-" + node.Name, Finalizers: []string{"test.cluster.x-k8s.io/block"}},
			Spec:       storagev1.VolumeAttachmentSpec{Attacher: "manual", NodeName: node.Name, Source: storagev1.VolumeAttachmentSource{PersistentVolumeName: &volume}},
		}
		Expect(c.Create(ctx, a)).To(Succeed())
		a.Status.Attached = true
		Expect(c.Status().Update(ctx, a)).To(Succeed())
	}
}

// bootWhenSignalled starts the machines of a namespace that do not boot when the spec
// signals it, as upstream's wait-signal.sh does on a machine of Docker.
func bootWhenSignalled(proxy framework.ClusterProxy, namespace string) {
	c := proxy.GetClient()
	signalled := func(ctx context.Context) (done bool, err error) {
		ns, signal := &corev1.Namespace{}, &corev1.ConfigMap{}
		if err := c.Get(ctx, client.ObjectKey{Name: namespace}, ns); err != nil || ns.DeletionTimestamp != nil {
			return true, client.IgnoreNotFound(err)
		}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "mhc-test"}, signal); err != nil || signal.Data["signal"] != "pass" {
			return false, client.IgnoreNotFound(err)
		}
		machines := &unstructured.UnstructuredList{}
		machines.SetGroupVersionKind(schema.GroupVersionKind{Group: localGroup, Version: "v1beta2", Kind: "LocalMachineList"})
		if err := c.List(ctx, machines, client.InNamespace(namespace)); err != nil {
			return false, err
		}
		for i := range machines.Items {
			m := &machines.Items[i]
			faults, _, _ := unstructured.NestedStringSlice(m.Object, "spec", "simulated", "faults")
			if len(faults) == 0 || m.GetDeletionTimestamp() != nil {
				continue
			}
			if err := errors.Join(
				c.Patch(ctx, m, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"simulated":{"faults":null}}}`))),
				c.Patch(ctx, signal, client.RawPatch(types.MergePatchType, []byte(`{"data":{"signal":"ack-pass"}}`))),
			); err != nil && !apierrors.IsConflict(err) {
				return false, err
			}
		}
		return false, nil
	}
	go func() {
		defer GinkgoRecover()
		err := wait.PollUntilContextCancel(ctx, 200*time.Millisecond, true, signalled)
		Expect(err).To(Or(BeNil(), MatchError(context.Canceled)))
	}()
}

// releasePreDrainHooks waits for a control plane of a number of machines to be upgraded,
// and removes the pre-drain hook of each machine that is deleted. At any time one machine
// is deleted at most, and each node is ready and runs kube-proxy.
func releasePreDrainHooks(count int) check {
	const hook = "pre-drain.delete.hook.machine.cluster.x-k8s.io/kcp-ready-check"
	return func(proxy framework.ClusterProxy, namespace, name string) {
		c := proxy.GetClient()
		cluster := &clusterv1.Cluster{}
		Expect(c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cluster)).To(Succeed())
		Eventually(func() (upgraded int, err error) {
			machines := framework.GetControlPlaneMachinesByCluster(ctx, framework.GetControlPlaneMachinesByClusterInput{Lister: c, ClusterName: name, Namespace: namespace})
			var deleted []*clusterv1.Machine
			for i := range machines {
				m := &machines[i]
				if m.Spec.Version == cluster.Spec.Topology.Version && conditions.IsTrue(m, clusterv1.MachineNodeHealthyCondition) {
					upgraded++
				}
				if m.DeletionTimestamp != nil {
					deleted = append(deleted, m)
				}
			}
			if err := nodesRun(proxy.GetWorkloadCluster(ctx, namespace, name).GetClient()); err != nil {
				return 0, err
			}
			if len(deleted) > 1 {
				return 0, fmt.Errorf("%d machines are being deleted, want one at most", len(deleted))
			}
			if len(deleted) == 1 {
				m := deleted[0]
				if m.Annotations[hook] != "true" {
					return 0, fmt.Errorf("machine %s is being deleted without the pre-drain hook", m.Name)
				}
				patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, hook)
				return 0, errors.Join(fmt.Errorf("machine %s waits for its pre-drain hook", m.Name), c.Patch(ctx, m, client.RawPatch(types.MergePatchType, patch)))
			}
			if len(machines) > upgraded {
				return 0, fmt.Errorf("%d of %d machines are upgraded", upgraded, len(machines))
			}
			return upgraded, nil
		}, config.GetIntervals("k8s-upgrade-and-conformance", "wait-machine-upgrade")...).Should(Equal(count))
	}
}

// nodesRun fails unless each node is ready and runs a kube-proxy that is ready.
func nodesRun(c client.Client) error {
	nodes, proxies := &corev1.NodeList{}, &corev1.PodList{}
	if err := errors.Join(c.List(ctx, nodes), c.List(ctx, proxies, client.InNamespace(metav1.NamespaceSystem), client.MatchingLabels{"k8s-app": "kube-proxy"})); err != nil {
		return err
	}
	if len(nodes.Items) != len(proxies.Items) {
		return fmt.Errorf("%d nodes run %d kube-proxies", len(nodes.Items), len(proxies.Items))
	}
	for _, n := range nodes.Items {
		if slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
		}) {
			return fmt.Errorf("node %s is not ready", n.Name)
		}
	}
	for _, p := range proxies.Items {
		if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == corev1.PodReady && c.Status != corev1.ConditionTrue }) {
			return fmt.Errorf("pod %s is not ready", p.Name)
		}
	}
	return nil
}
