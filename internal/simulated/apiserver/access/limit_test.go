// SPDX-License-Identifier: Apache-2.0

package access_test

import (
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/access"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/objects"
)

var kubelet = access.Proven("system:node:n", "", access.Nodes)

// untyped is nil for nil.
func untyped(t *testing.T, obj objects.Object) *unstructured.Unstructured {
	t.Helper()
	if obj == nil {
		return nil
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(obj)
	if err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: content}
}

// limited returns the refusal of a write of the kubelet; was is nil at creation.
func limited(t *testing.T, z *access.Authorizer, was, next objects.Object) error {
	t.Helper()
	return z.Limit(kubelet, kinds.ByType(next))(untyped(t, was), untyped(t, next))
}

func TestLimitIsForKubeletsAlone(t *testing.T) {
	t.Parallel()
	z := access.NewAuthorizer(newCluster(t).Store)
	nodes := kinds.ByType(&corev1.Node{})
	for name, tc := range map[string]struct {
		user access.User
		want bool
	}{
		"a kubelet":                  {kubelet, true},
		"a user":                     {access.Proven("jane", ""), false},
		"a node without the group":   {access.Proven("system:node:n", ""), false},
		"a node that is a master":    {access.Proven("system:node:n", "", access.Nodes, access.Masters), false},
		"the group without the name": {access.Proven("jane", "", access.Nodes), false},
	} {
		if got := z.Limit(tc.user, nodes) != nil; got != tc.want {
			t.Errorf("%s: limited %v, want %v", name, got, tc.want)
		}
	}
}

// The rows are those of the NodeRestriction plugin of Kubernetes, and of the labels that
// k8s.io/kubelet lists.
func TestLimitOfNodes(t *testing.T) {
	t.Parallel()
	z := access.NewAuthorizer(newCluster(t).Store)
	named := func(name string, labels ...string) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
		for _, l := range labels {
			n.Labels[l] = "x"
		}
		return n
	}
	tainted := named("n")
	tainted.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
	owned := named("n")
	owned.OwnerReferences = []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: "u"}}
	changed := named("n", "node-restriction.kubernetes.io/a")
	changed.Labels["node-restriction.kubernetes.io/a"] = "y"
	for name, tc := range map[string]struct {
		was, next *corev1.Node
		want      string // the refusal
	}{
		"creates its own":               {nil, named("n"), ""},
		"creates another":               {nil, named("m"), `is not allowed to write that of "m"`},
		"creates with taints":           {nil, tainted, ""},
		"creates with a reserved label": {nil, named("n", "node-restriction.kubernetes.io/a"), "is not allowed to set the label node-restriction.kubernetes.io/a"},
		"creates with a role":           {nil, named("n", "node-role.kubernetes.io/control-plane"), "is not allowed to set the label node-role.kubernetes.io/control-plane"},
		"changes nothing":               {tainted, tainted, ""},
		"changes another":               {named("m"), named("m"), `is not allowed to write that of "m"`},
		"adds a taint":                  {named("n"), tainted, "is not allowed to modify taints"},
		"removes a taint":               {tainted, named("n"), "is not allowed to modify taints"},
		"adds an owner":                 {named("n"), owned, "is not allowed to modify ownerReferences"},
		"removes an owner":              {owned, named("n"), "is not allowed to modify ownerReferences"},
		"keeps a reserved label":        {named("n", "x.k8s.io/a"), named("n", "x.k8s.io/a", "b"), ""},
		"removes a reserved label":      {named("n", "x.k8s.io/a"), named("n"), "is not allowed to remove the label x.k8s.io/a"},
		"changes a reserved label":      {named("n", "node-restriction.kubernetes.io/a"), changed, "is not allowed to set the label node-restriction.kubernetes.io/a"},
		"removes its own label":         {named("n", "pool"), named("n"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var was objects.Object
			if tc.was != nil {
				was = tc.was
			}
			err := limited(t, z, was, tc.next)
			want := `nodes "` + tc.next.Name + `" is forbidden: node "n" ` + tc.want
			if tc.want == "" && err != nil || tc.want != "" && (!apierrors.IsForbidden(err) || err.Error() != want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	for label, allowed := range map[string]bool{
		"pool": true, "example.com/pool": true, "notkubernetes.io/a": true, "kubernetes.io": true,
		"kubernetes.io/hostname": true, "kubernetes.io/os": true, "kubernetes.io/arch": true, "beta.kubernetes.io/os": true, "beta.kubernetes.io/arch": true,
		"beta.kubernetes.io/instance-type": true, "node.kubernetes.io/instance-type": true, "topology.kubernetes.io/zone": true, "topology.kubernetes.io/region": true,
		"failure-domain.beta.kubernetes.io/zone": true, "failure-domain.beta.kubernetes.io/region": true,
		"kubelet.kubernetes.io/a": true, "x.kubelet.kubernetes.io/a": true, "node.kubernetes.io/a": true, "x.node.kubernetes.io/a": true,
		"kubernetes.io/role": false, "kubernetes.io/a": false, "k8s.io/a": false, "x.k8s.io/a": false, "topology.kubernetes.io/rack": false,
		"node-restriction.kubernetes.io/a": false, "x.node-restriction.kubernetes.io/a": false, "cluster.x-k8s.io/a": true,
	} {
		if err := limited(t, z, nil, named("n", label)); (err == nil) != allowed {
			t.Errorf("label %s: %v, want allowed %v", label, err, allowed)
		}
	}
}

func TestLimitOfLeasesAndCSINodes(t *testing.T) {
	t.Parallel()
	z := access.NewAuthorizer(newCluster(t).Store)
	for _, name := range []string{"n", "m"} {
		for _, obj := range []objects.Object{
			&coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name}},
			&storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{Name: name}},
		} {
			for _, was := range []objects.Object{nil, obj} {
				if err := limited(t, z, was, obj); (err == nil) != (name == "n") {
					t.Errorf("%T %s: %v", obj, name, err)
				}
			}
		}
	}
}

func TestKubeletCreatesOnlyMirrorPods(t *testing.T) {
	t.Parallel()
	n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	z := access.NewAuthorizer(newCluster(t, n).Store)
	mirror := func() *corev1.Pod {
		return &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "kube-system", Name: "static", Annotations: map[string]string{corev1.MirrorPodAnnotationKey: "x"},
				OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: "n", UID: n.UID, Controller: new(true)}},
			},
			Spec: corev1.PodSpec{NodeName: "n", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
		}
	}
	local := corev1.LocalObjectReference{Name: "s"}
	for name, tc := range map[string]struct {
		change  func(*corev1.Pod)
		allowed bool
	}{
		"a mirror Pod": {func(*corev1.Pod) {}, true},
		"one with a host's folder": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, true},
		"an ordinary Pod":        {func(p *corev1.Pod) { p.Annotations = nil }, false},
		"one on another node":    {func(p *corev1.Pod) { p.Spec.NodeName = "m" }, false},
		"one on no node":         {func(p *corev1.Pod) { p.Spec.NodeName = "" }, false},
		"one with an account":    {func(p *corev1.Pod) { p.Spec.ServiceAccountName = "admin" }, false},
		"one with a pull Secret": {func(p *corev1.Pod) { p.Spec.ImagePullSecrets = []corev1.LocalObjectReference{local} }, false},
		"one that reads a Secret": {func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: local}}}
		}, false},
		"one that reads a ConfigMap": {func(p *corev1.Pod) {
			p.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: local}}}
		}, false},
		"one with a claim": {func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "c"}}}}
		}, false},
		"one without an owner": {func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
		"one with two owners": {func(p *corev1.Pod) {
			p.OwnerReferences = append(p.OwnerReferences, metav1.OwnerReference{Kind: "Node", Name: "m"})
		}, false},
		"one of another kind":              {func(p *corev1.Pod) { p.OwnerReferences[0].Kind = "Pod" }, false},
		"one of another group's Node":      {func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "example.com/v1" }, false},
		"one of another Node":              {func(p *corev1.Pod) { p.OwnerReferences[0].Name = "m" }, false},
		"one of an earlier Node":           {func(p *corev1.Pod) { p.OwnerReferences[0].UID = "other" }, false},
		"one that its Node does not run":   {func(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }, false},
		"one that blocks the Node's end":   {func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = new(true) }, false},
		"one that says it does not block":  {func(p *corev1.Pod) { p.OwnerReferences[0].BlockOwnerDeletion = new(false) }, true},
		"one that is not for that cluster": {func(p *corev1.Pod) { p.Spec.NodeName, p.OwnerReferences[0].Name = "m", "m" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := mirror()
			tc.change(p)
			if err := limited(t, z, nil, p); tc.allowed && err != nil || !tc.allowed && !apierrors.IsForbidden(err) {
				t.Errorf("got %v, want allowed %v", err, tc.allowed)
			}
		})
	}
	running, labeled := mirror(), mirror()
	running.Status.Phase, labeled.Labels = corev1.PodRunning, map[string]string{"app": "shop"}
	if err := limited(t, z, mirror(), running); err != nil {
		t.Errorf("a status: %v", err)
	}
	for _, change := range [][2]*corev1.Pod{{mirror(), labeled}, {labeled, mirror()}} {
		if err := limited(t, z, change[0], change[1]); !apierrors.IsForbidden(err) {
			t.Errorf("labels with a status: %v, want a refusal", err)
		}
	}
}

func TestMayIssueTokensOfThePodsOfANode(t *testing.T) {
	t.Parallel()
	own, other := podOf("app", "worker"), podOf("other", "worker")
	other.Spec.NodeName = "m"
	c := newCluster(t, own, other)
	z := access.NewAuthorizer(c.Store)
	to := func(kind, name string, uid types.UID) *authenticationv1.BoundObjectReference {
		return &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: kind, Name: name, UID: uid}
	}
	for name, tc := range map[string]struct {
		user               access.User
		namespace, account string
		to                 *authenticationv1.BoundObjectReference
		allowed            bool
	}{
		"bound to its Pod":                {kubelet, "default", "worker", to("Pod", "app", own.UID), true},
		"bound to nothing":                {kubelet, "default", "worker", nil, false},
		"bound to an earlier Pod":         {kubelet, "default", "worker", to("Pod", "app", "other"), false},
		"bound to any Pod of that name":   {kubelet, "default", "worker", to("Pod", "app", ""), false},
		"bound to a Secret":               {kubelet, "default", "worker", to("Secret", "app", own.UID), false},
		"bound to a Pod of another node":  {kubelet, "default", "worker", to("Pod", "other", other.UID), false},
		"of another account":              {kubelet, "default", "admin", to("Pod", "app", own.UID), false},
		"of another namespace":            {kubelet, "kube-system", "worker", to("Pod", "app", own.UID), false},
		"requested by a user":             {access.Proven("jane", ""), "default", "worker", nil, true},
		"requested by a node as a master": {access.Proven("system:node:n", "", access.Nodes, access.Masters), "default", "worker", nil, true},
	} {
		if err := z.MayIssue(tc.user, tc.namespace, tc.account, tc.to); tc.allowed && err != nil || !tc.allowed && !apierrors.IsForbidden(err) {
			t.Errorf("%s: %v, want allowed %v", name, err, tc.allowed)
		}
	}
}
