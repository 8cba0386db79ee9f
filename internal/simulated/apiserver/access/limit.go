// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// Limit restricts a user's writes of a kind in addition to its authorization: those
// of a kubelet to the objects of its node, as the NodeRestriction plugin of an API
// server does. It is nil for all others. was is nil at creation.
func (z *Authorizer) Limit(u User, k *kinds.Kind) func(was, next *unstructured.Unstructured) error {
	node, ok := u.node()
	if !ok || u.In(Masters) || u.In(ClusterAdmins) {
		return nil
	}
	return func(was, next *unstructured.Unstructured) error {
		var err error
		switch k {
		case nodeKind:
			err = ownNode(node, was, next)
		case leaseKind, csiNodeKind:
			err = own(node, next)
		case podKind:
			if was == nil {
				err = z.mirror(node, next)
			} else if !maps.Equal(was.GetLabels(), next.GetLabels()) {
				err = errors.New("cannot update labels through pod status")
			}
		}
		if err != nil {
			return apierrors.NewForbidden(k.GroupResource(), next.GetName(), fmt.Errorf("node %q %w", node, err))
		}
		return nil
	}
}

func own(node string, obj *unstructured.Unstructured) error {
	if obj.GetName() != node {
		return fmt.Errorf("is not allowed to write that of %q", obj.GetName())
	}
	return nil
}

func ownNode(node string, was, next *unstructured.Unstructured) error {
	if err := own(node, next); err != nil {
		return err
	}
	before := map[string]string{}
	if was != nil {
		before = was.GetLabels()
		old, _, _ := unstructured.NestedFieldNoCopy(was.Object, "spec", "taints")
		taints, _, _ := unstructured.NestedFieldNoCopy(next.Object, "spec", "taints")
		if !reflect.DeepEqual(old, taints) {
			return errors.New("is not allowed to modify taints")
		}
		if !reflect.DeepEqual(was.GetOwnerReferences(), next.GetOwnerReferences()) {
			return errors.New("is not allowed to modify ownerReferences")
		}
	}
	after := next.GetLabels()
	for _, key := range slices.Sorted(maps.Keys(after)) {
		if old, ok := before[key]; (!ok || old != after[key]) && !freeLabel(key) {
			return fmt.Errorf("is not allowed to set the label %s", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, ok := after[key]; !ok && !freeLabel(key) {
			return fmt.Errorf("is not allowed to remove the label %s", key)
		}
	}
	return nil
}

// ownLabels are the labels of Kubernetes itself that a kubelet sets on its
// Node.
var ownLabels = []string{
	corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable, corev1.LabelInstanceTypeStable, corev1.LabelInstanceType,
	corev1.LabelTopologyZone, corev1.LabelTopologyRegion, corev1.LabelFailureDomainBetaZone, corev1.LabelFailureDomainBetaRegion,
	"beta.kubernetes.io/os", "beta.kubernetes.io/arch",
}

// freeLabel reports whether a kubelet may choose a label of its Node: others
// decide by labels what they send to a node.
func freeLabel(key string) bool {
	prefix, _, ok := strings.Cut(key, "/")
	under := func(domain string) bool { return prefix == domain || strings.HasSuffix(prefix, "."+domain) }
	switch {
	case !ok:
		return true
	case under("node-restriction.kubernetes.io"):
		return false
	case under("kubelet.kubernetes.io"), under("node.kubernetes.io"):
		return true
	case under("kubernetes.io"), under("k8s.io"):
		return slices.Contains(ownLabels, key)
	}
	return true
}

// mirror returns why a Pod is not the mirror of a static Pod of the node: a kubelet
// creates no others, and they must not refer to what the kubelet cannot read.
func (z *Authorizer) mirror(node string, obj *unstructured.Unstructured) error {
	p := pod{whole: obj.Object}
	raw, err := obj.MarshalJSON()
	if err == nil {
		err = json.Unmarshal(raw, &p)
	}
	if err != nil {
		return fmt.Errorf("sends a Pod that cannot be read: %w", err)
	}
	if _, ok := p.Metadata.Annotations[corev1.MirrorPodAnnotationKey]; !ok {
		return errors.New("can only create mirror pods")
	}
	if p.Spec.NodeName != node {
		return errors.New("can only create pods with spec.nodeName set to itself")
	}
	if len(p.account())+len(secrets(&p))+len(configMaps(&p))+len(volumeClaims(&p)) > 0 {
		return errors.New("can not create pods that reference a service account, secrets, configmaps or persistentvolumeclaims")
	}
	e, err := z.objects.Entry(nodeKind, "", node)
	owner := metav1.GetControllerOfNoCopy(obj)
	if err != nil || len(obj.GetOwnerReferences()) != 1 || owner == nil || owner.APIVersion != "v1" || owner.Kind != "Node" || owner.Name != node || owner.UID != e.UID ||
		owner.BlockOwnerDeletion != nil && *owner.BlockOwnerDeletion {
		return errors.New("can only create pods with an owner reference set to itself")
	}
	return nil
}

// MayIssue returns why a user may not have a token for a service account although
// it may request some: a kubelet gets those of its Pods, bound to each Pod.
func (z *Authorizer) MayIssue(u User, namespace, account string, to *authenticationv1.BoundObjectReference) error {
	node, ok := u.node()
	if !ok || u.In(Masters) || u.In(ClusterAdmins) {
		return nil
	}
	if to != nil && to.Kind == podKind.Kind {
		for p := range z.pods(node, namespace) {
			if p.Metadata.Name == to.Name && p.Metadata.UID == string(to.UID) && p.account() == account {
				return nil
			}
		}
	}
	return apierrors.NewForbidden(serviceAccountKind.GroupResource(), account, fmt.Errorf("node %q requested a token that is not bound to a Pod of this service account on the node", node))
}
