// SPDX-License-Identifier: Apache-2.0

package apiserver_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// told reports what a write of a kubelet ended with: nil, or a refusal that is
// about rights.
func told(t *testing.T, what string, err error, allowed bool) {
	t.Helper()
	if allowed && err != nil || !allowed && !apierrors.IsForbidden(err) {
		t.Errorf("%s: %v, allowed %v", what, err, allowed)
	}
}

func TestAKubeletWritesOnlyWhatIsItsNodes(t *testing.T) {
	t.Parallel()
	c := start(t)
	ctx, kubelet := t.Context(), clientset(t, c.as(t, "system:node:n", "system:nodes"))
	nodes := kubelet.CoreV1().Nodes()
	_, err := nodes.Create(ctx, node("m"), metav1.CreateOptions{})
	told(t, "create another Node", err, false)
	_, err = nodes.Create(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{"node-role.kubernetes.io/control-plane": ""}}}, metav1.CreateOptions{})
	told(t, "create its Node with a role", err, false)
	mine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{
		"pool": "x", "kubernetes.io/hostname": "n", "topology.kubernetes.io/zone": "z", "node.kubernetes.io/size": "big",
	}}, Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}}}
	mine, err = nodes.Create(ctx, mine, metav1.CreateOptions{})
	told(t, "create its Node", err, true)
	for patch, allowed := range map[string]bool{
		`{"metadata": {"labels": {"pool": "y", "kubernetes.io/os": "linux"}}}`:                               true,
		`{"metadata": {"annotations": {"a": "b"}}}`:                                                          true,
		`{"metadata": {"labels": {"node-restriction.kubernetes.io/tenant": "a"}}}`:                           false,
		`{"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}`:                            false,
		`{"metadata": {"labels": {"x.k8s.io/a": ""}}}`:                                                       false,
		`{"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}]}}`: false,
		`{"spec": {"taints": null}}`:                                                                         false,
	} {
		for _, form := range []types.PatchType{types.MergePatchType, types.StrategicMergePatchType} {
			_, err := nodes.Patch(ctx, "n", form, []byte(patch), metav1.PatchOptions{})
			told(t, patch, err, allowed)
			_, err = nodes.PatchStatus(ctx, "n", []byte(patch))
			if err != nil && !apierrors.IsForbidden(err) {
				t.Errorf("%s of the status: %v", patch, err)
			}
		}
	}
	applied := []byte(`{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n", "labels": {"node-restriction.kubernetes.io/a": "b"}}}`)
	_, err = nodes.Patch(ctx, "n", types.ApplyPatchType, applied, metav1.PatchOptions{FieldManager: "me", Force: new(true)})
	told(t, "apply a reserved label", err, false)
	if now, err := nodes.Get(ctx, "n", metav1.GetOptions{}); err != nil || now.Labels["node-restriction.kubernetes.io/a"] != "" || len(now.Spec.Taints) != 1 {
		t.Errorf("the Node is %v, %v", now, err)
	}
	for namespace, allowed := range map[string]bool{"kube-node-lease": true, "kube-system": false} {
		_, err = kubelet.CoordinationV1().Leases(namespace).Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "n"}}, metav1.CreateOptions{})
		told(t, "create its Lease in "+namespace, err, allowed)
	}
	_, err = kubelet.CoordinationV1().Leases("kube-node-lease").Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: "m"}}, metav1.CreateOptions{})
	told(t, "create another's Lease", err, false)
	createsMirrorPods(t, kubelet, mine)
}

func createsMirrorPods(t *testing.T, kubelet kubernetes.Interface, mine *corev1.Node) {
	t.Helper()
	pod := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Name: "static", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: mine.UID, Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
		change(p)
		return p
	}
	_, err := kubelet.CoreV1().Pods("kube-system").Create(t.Context(), pod(func(p *corev1.Pod) { p.Annotations = nil }), metav1.CreateOptions{})
	told(t, "create an ordinary Pod", err, false)
	_, err = kubelet.CoreV1().Pods("kube-system").Create(t.Context(), pod(func(*corev1.Pod) {}), metav1.CreateOptions{})
	told(t, "create a mirror Pod", err, true)
	list, err := kubelet.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName=n"})
	if err != nil || len(list.Items) != 1 {
		t.Errorf("its Pods: %v, %v", list, err)
	}
	_, err = kubelet.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{FieldSelector: "spec.nodeName!=n"})
	told(t, "list the Pods of others", err, false)
	_, err = kubelet.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=n"})
	told(t, "list its Node", err, true)
}

func TestAKubeletGetsTokensOnlyForItsPods(t *testing.T) {
	t.Parallel()
	c := start(t)
	admin, kubelet := clientset(t, c.admin(t)), clientset(t, c.as(t, "system:node:n", "system:nodes"))
	ctx := t.Context()
	for _, name := range []string{"worker", "cluster-admin"} {
		if _, err := admin.CoreV1().ServiceAccounts("default").Create(ctx, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	pod, err := admin.CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "app"}, Spec: corev1.PodSpec{NodeName: "n", ServiceAccountName: "worker", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	bound := &authenticationv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: "app", UID: pod.UID}
	for account, allowed := range map[string]bool{"worker": true, "cluster-admin": false} {
		_, err := kubelet.CoreV1().ServiceAccounts("default").CreateToken(ctx, account, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
		told(t, account, err, allowed)
	}
}
