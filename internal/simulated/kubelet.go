// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"crypto/tls"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/certs"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
	"github.com/capstan-dev/capstan/internal/simulated/bootstrap"
)

var (
	podResource  = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	nodeResource = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
)

// errUnchanged ends a modification that would change nothing.
var errUnchanged = errors.New("nothing to change")

// syncPods writes the machine's static pods from the state of its processes.
func (c *cluster) syncPods(m *machine) error {
	components := c.components(m)
	if len(components) == 0 {
		return nil
	}
	store, now := c.server.Store(), c.b.clock.Now()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.NodeName}}
	if err := store.Load(node); apierrors.IsNotFound(err) {
		return nil // a client deleted it, and its pods with it
	} else if err != nil {
		return &broken{err}
	}
	for _, component := range components {
		running := c.runs(m, component)
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: component + "-" + m.NodeName}}
		err := objects.Modify(store, pod, func(p *corev1.Pod) error {
			if !bootstrap.SetRunning(p, running, now) {
				return errUnchanged
			}
			return nil
		})
		if apierrors.IsNotFound(err) {
			docs, configErr := c.clusterConfig()
			if configErr != nil {
				return &broken{configErr}
			}
			pod = bootstrap.StaticPod(component, node, docs, m.Version, now)
			bootstrap.SetRunning(pod, running, now)
			err = store.Add(pod)
		}
		if err != nil && !errors.Is(err, errUnchanged) {
			return &broken{fmt.Errorf("write Pod %s: %w", pod.Name, err)}
		}
	}
	return nil
}

// upgrade gives a running machine the software of its version, as an extension does
// that updates it in place: its kubelet reports the version, and its static pods
// are created again.
func (c *cluster) upgrade(m *machine) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: m.NodeName}}
	if m.Role.controlPlane() { // kubeadm upgrade renews certificates
		docs, err := c.clusterConfig()
		if err != nil {
			return err
		}
		m.CertificatesEnd = c.b.clock.Now().Add(bootstrap.CertificateValidity(docs))
		m.Serving, m.certificate = certs.Pair{}, tls.Certificate{}
	}
	err := objects.Modify(c.server.Store(), node, func(n *corev1.Node) error {
		n.Status.NodeInfo.KubeletVersion = m.Version
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write Node %s: %w", m.NodeName, err)
	}
	var errs []error
	for _, component := range c.components(m) {
		errs = append(errs, c.server.Store().Remove(podResource, metav1.NamespaceSystem, component+"-"+m.NodeName))
	}
	return errors.Join(errs...) // the next syncPods creates them again
}

// runs reports whether a component of the machine works.
func (c *cluster) runs(m *machine, component string) bool {
	switch component {
	case "etcd":
		return c.etcdRuns(m)
	case "kube-apiserver":
		return c.etcdRuns(m) && !m.has(infrav1.MachineFaultAPIServerHangs) && !m.off()
	}
	return !m.off()
}

// syncFaults applies a machine's faults to what has started on it.
func (c *cluster) syncFaults(m *machine) error {
	if m.did(stepEtcd) {
		c.syncEtcd(m)
	}
	var errs []error
	if m.did(stepNode) {
		status := corev1.ConditionTrue
		switch {
		case m.off():
			status = corev1.ConditionUnknown
		case m.has(infrav1.MachineFaultNodeNotReady):
			status = corev1.ConditionFalse
		}
		errs = append(errs, c.setReady(m.NodeName, status))
	}
	// Losing one member may cost the others their quorum, but not their pods.
	return errors.Join(append(errs, c.syncPods(m))...)
}

// syncEtcd applies a machine's faults to its etcd member.
func (c *cluster) syncEtcd(m *machine) {
	if e := c.members.Load(); e != nil {
		e.SetRunning(m.NodeName, !m.has(infrav1.MachineFaultEtcdUnhealthy) && !m.off())
		e.SetLags(m.NodeName, m.has(infrav1.MachineFaultEtcdLags))
		e.SetFull(m.NodeName, m.has(infrav1.MachineFaultEtcdDiskFull))
	}
}

func (c *cluster) setReady(name string, status corev1.ConditionStatus) error {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	err := objects.Modify(c.server.Store(), node, func(n *corev1.Node) error {
		if !bootstrap.SetReady(n, status, c.b.clock.Now()) {
			return errUnchanged
		}
		return nil
	})
	if err != nil && !apierrors.IsNotFound(err) && !errors.Is(err, errUnchanged) {
		return fmt.Errorf("write Node %s: %w", name, err)
	}
	return nil
}

// bury leaves what remains of a deleted machine: an etcd member that has stopped,
// and a Node without a kubelet.
func (c *cluster) bury(m *machine) error {
	if m.NodeName == "" {
		return nil
	}
	if e := c.members.Load(); e != nil && m.did(stepEtcd) {
		e.SetRunning(m.NodeName, false)
	}
	var errs []error
	for _, component := range c.components(m) {
		errs = append(errs, c.server.Store().Remove(podResource, metav1.NamespaceSystem, component+"-"+m.NodeName))
	}
	if m.did(stepNode) {
		errs = append(errs, c.setReady(m.NodeName, corev1.ConditionUnknown))
	}
	return errors.Join(errs...)
}

// markLost shows the effects of a machine whose host is lost: its Node has no kubelet
// any longer, and its etcd member has stopped.
func (c *cluster) markLost(lost machineSpec) error {
	nodes, err := c.server.Store().All(nodeResource, "", nil)
	if err != nil {
		return err
	}
	for _, node := range nodes {
		if id, _, _ := unstructured.NestedString(node.Object, "spec", "providerID"); id != lost.ProviderID {
			continue
		}
		if e := c.members.Load(); e != nil {
			e.SetRunning(node.GetName(), false)
		}
		return errors.Join(c.setReady(node.GetName(), corev1.ConditionUnknown), c.settle(""))
	}
	return nil
}
