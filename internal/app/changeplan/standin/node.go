// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"cmp"
	"context"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/conditions"
	"github.com/capstan-dev/capstan/internal/access/kubeadmaddons"
)

// roleLabel and its taint mark Nodes of a control plane, as kubeadm sets them.
const roleLabel = "node-role.kubernetes.io/control-plane"

// Snapshot is what was read from a real workload cluster.
type Snapshot struct {
	// Objects are Nodes, Pods and PodDisruptionBudgets.
	Objects []client.Object
}

// newNode is the Node that a machine has become.
func (c *cluster) newNode(name, providerID, version string, controlPlane bool) *corev1.Node {
	now := metav1.NewTime(c.clock.Now())
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
		corev1.LabelHostname: name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
	n.Spec.ProviderID = providerID
	n.Status.NodeInfo = corev1.NodeSystemInfo{KubeletVersion: version, OperatingSystem: "linux", Architecture: "amd64"}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		status := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			status = corev1.ConditionTrue
		}
		n.Status.Conditions = append(n.Status.Conditions, corev1.NodeCondition{Type: kind, Status: status, LastTransitionTime: now, LastHeartbeatTime: now})
	}
	if controlPlane {
		n.Labels[roleLabel] = ""
		n.Spec.Taints = []corev1.Taint{{Key: roleLabel, Effect: corev1.TaintEffectNoSchedule}}
	}
	return n
}

// add adds a Node, and runs the components of a control plane on it.
func (c *cluster) add(ctx context.Context, n *corev1.Node, controlPlane bool) error {
	if err := c.memory.Create(ctx, n); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	if !controlPlane {
		return nil
	}
	c.join(n.Name)
	for _, component := range []string{"kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: metav1.NamespaceSystem, Name: component + "-" + n.Name,
			Labels:      map[string]string{"component": component, "tier": "control-plane"},
			Annotations: map[string]string{corev1.MirrorPodAnnotationKey: n.Name},
		}}
		pod.Spec.NodeName = n.Name
		pod.Status.Phase = corev1.PodRunning
		pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
		if err := c.memory.Create(ctx, pod); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return c.initialize(ctx, n.Status.NodeInfo.KubeletVersion)
}

// initialize creates what kubeadm init creates, if it does not exist.
func (c *cluster) initialize(ctx context.Context, version string) error {
	configuration := "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: " + version + "\n"
	for _, m := range []*corev1.ConfigMap{
		{ObjectMeta: metav1.ObjectMeta{Namespace: kubeadmaddons.KubeadmConfig.Namespace, Name: kubeadmaddons.KubeadmConfig.Name}, Data: map[string]string{"ClusterConfiguration": configuration}},
		{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespacePublic, Name: "cluster-info"}, Data: map[string]string{"kubeconfig": ""}},
	} {
		if err := c.memory.Create(ctx, m); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}

// leave stops what runs on a Node. The Node remains, and its kubelet reports nothing.
func (c *cluster) leave(ctx context.Context, name string) error {
	c.changes++
	delete(c.servers, name)
	n := &corev1.Node{}
	if err := c.memory.Get(ctx, client.ObjectKey{Name: name}, n); err != nil {
		return client.IgnoreNotFound(err)
	}
	for i := range n.Status.Conditions {
		n.Status.Conditions[i].Status = corev1.ConditionUnknown
		n.Status.Conditions[i].LastTransitionTime = metav1.NewTime(c.clock.Now())
	}
	return c.memory.Update(ctx, n)
}

// load fills a workload cluster with what was read from the real one.
func (c *cluster) load(ctx context.Context, from Snapshot) error {
	for _, obj := range from.Objects {
		if err := c.memory.Put(ctx, obj); err != nil {
			return err
		}
	}
	return nil
}

// representPool adds the Nodes of a MachinePool by its status, unless the real ones
// were read. Those of its Machines are the same.
func (c *cluster) representPool(ctx context.Context, p *clusterv1.MachinePool) error {
	if len(p.Status.NodeRefs) != len(p.Spec.ProviderIDList) {
		return nil // not all machines are Nodes, and which are not is not known
	}
	for i, ref := range p.Status.NodeRefs {
		n := c.newNode(ref.Name, p.Spec.ProviderIDList[i], p.Spec.Template.Spec.Version, false)
		err := c.memory.Get(ctx, client.ObjectKeyFromObject(n), n)
		if apierrors.IsNotFound(err) {
			n.UID = ref.UID
			err = c.memory.Put(ctx, n)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// represent adds the Node of a Machine by the status of the Machine, unless the
// real one was read.
func (c *cluster) represent(ctx context.Context, m *clusterv1.Machine) error {
	_, controlPlane := m.Labels[clusterv1.MachineControlPlaneLabel]
	n := c.newNode(m.Status.NodeRef.Name, m.Spec.ProviderID, m.Spec.Version, controlPlane)
	if m.Status.NodeInfo != nil {
		n.Status.NodeInfo = *m.Status.NodeInfo
		n.Labels[corev1.LabelOSStable] = cmp.Or(m.Status.NodeInfo.OperatingSystem, n.Labels[corev1.LabelOSStable])
		n.Labels[corev1.LabelArchStable] = cmp.Or(m.Status.NodeInfo.Architecture, n.Labels[corev1.LabelArchStable])
	}
	if ready := conditions.Get(m, clusterv1.MachineNodeReadyCondition); ready != nil && ready.Status != metav1.ConditionTrue {
		n.Status.Conditions[0].Status = corev1.ConditionStatus(ready.Status)
		n.Status.Conditions[0].LastTransitionTime = ready.LastTransitionTime
	}
	return c.add(ctx, n, controlPlane)
}
