// SPDX-License-Identifier: Apache-2.0

package access

import (
	"encoding/json"
	"iter"
	"slices"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

const nodePrefix = "system:node:"

// node is the name of the node whose kubelet a user is.
func (u User) node() (string, bool) {
	name, ok := strings.CutPrefix(u.Name, nodePrefix)
	return name, ok && name != "" && u.In(Nodes)
}

var (
	podKind        = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("Pod"))
	nodeKind       = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("Node"))
	claimKind      = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"))
	attachmentKind = kinds.Everywhere().ByKind(storagev1.SchemeGroupVersion.WithKind("VolumeAttachment"))
	configMapKind  = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	volumeKind     = kinds.Everywhere().ByKind(corev1.SchemeGroupVersion.WithKind("PersistentVolume"))
	leaseKind      = kinds.Everywhere().ByKind(coordinationv1.SchemeGroupVersion.WithKind("Lease"))
	csiNodeKind    = kinds.Everywhere().ByKind(storagev1.SchemeGroupVersion.WithKind("CSINode"))
)

// nodeMay reports whether the kubelet of a node may do what depends on the object
// of the request: the node itself, the Pods bound to it, and what those refer to.
// Creations are allowed here where the object is not known yet; Limit checks it.
func (z *Authorizer) nodeMay(node string, a Attributes) bool {
	reads := a.Verb == "get" || a.Verb == "list" || a.Verb == "watch"
	writes := a.Verb == "update" || a.Verb == "patch"
	creates := a.Verb == "create" && a.Name == ""
	whole, status := a.Sub == "", a.Sub == "status"
	switch (schema.GroupResource{Group: a.Group, Resource: a.Resource}) {
	case nodeKind.GroupResource():
		return whole && creates || a.Name == node && (reads && whole || writes && (whole || status))
	case leaseKind.GroupResource():
		return whole && a.Namespace == corev1.NamespaceNodeLease && (creates || a.Name == node && (a.Verb == "get" || writes || a.Verb == "delete"))
	case csiNodeKind.GroupResource():
		return whole && (creates || a.Name == node && (a.Verb == "get" || writes || a.Verb == "delete"))
	case podKind.GroupResource():
		if whole && (creates || reads && a.Name == "" && a.NodeName == node) {
			return true
		}
		return (whole && (reads || a.Verb == "delete") || status && writes || a.Sub == "eviction" && a.Verb == "create") && z.runs(node, a.Namespace, a.Name)
	case secretKind.GroupResource():
		return reads && whole && z.refers(node, a, secrets)
	case configMapKind.GroupResource():
		return reads && whole && z.refers(node, a, configMaps)
	case claimKind.GroupResource():
		return (reads && whole || writes && status) && z.refers(node, a, volumeClaims)
	case volumeKind.GroupResource():
		return reads && whole && a.Name != "" && z.mounts(node, a.Name)
	case attachmentKind.GroupResource():
		return a.Verb == "get" && (whole || status) && z.attached(node, a.Name)
	case serviceAccountKind.GroupResource():
		return a.Verb == "create" && a.Sub == "token" && z.refers(node, a, accounts)
	}
	return false
}

// runs reports whether a Pod is bound to a node.
func (z *Authorizer) runs(node, namespace, name string) bool {
	e, err := z.objects.Entry(podKind, namespace, name)
	if err != nil {
		return false
	}
	var p pod
	return json.Unmarshal(e.Raw, &p) == nil && p.Spec.NodeName == node
}

// pod is the part of a Pod that is checked, and its unparsed spec.
type pod struct {
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		UID         string            `json:"uid"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		NodeName       string `json:"nodeName"`
		ServiceAccount string `json:"serviceAccountName"`
	} `json:"spec"`
	whole map[string]any
}

// account is the service account that the Pod runs as; empty for a mirror Pod,
// which has none.
func (p *pod) account() string {
	if _, mirror := p.Metadata.Annotations[corev1.MirrorPodAnnotationKey]; mirror || p.Spec.ServiceAccount != "" {
		return p.Spec.ServiceAccount
	}
	return "default"
}

// pods are the Pods bound to a node, in a namespace or in all.
func (z *Authorizer) pods(node, namespace string) iter.Seq[*pod] {
	return func(yield func(*pod) bool) {
		entries, _ := z.objects.Entries().List(podKind.GroupResource(), namespace)
		for _, e := range entries {
			p := &pod{}
			if json.Unmarshal(e.Raw, p) != nil || p.Spec.NodeName != node || json.Unmarshal(e.Raw, &p.whole) != nil {
				continue
			}
			if !yield(p) {
				return
			}
		}
	}
}

// refers reports whether a Pod bound to the node refers to the requested object.
func (z *Authorizer) refers(node string, a Attributes, names func(*pod) []string) bool {
	if a.Name == "" || a.Namespace == "" {
		return false
	}
	for p := range z.pods(node, a.Namespace) {
		if slices.Contains(names(p), a.Name) {
			return true
		}
	}
	return false
}

// mounts reports whether a volume is bound to a claim of a Pod on the node.
func (z *Authorizer) mounts(node, volume string) bool {
	for p := range z.pods(node, "") {
		for _, name := range volumeClaims(p) {
			var c corev1.PersistentVolumeClaim
			e, err := z.objects.Entry(claimKind, p.Metadata.Namespace, name)
			if err == nil && json.Unmarshal(e.Raw, &c) == nil && c.Spec.VolumeName == volume {
				return true
			}
		}
	}
	return false
}

// attached reports whether a volume attachment is of the node.
func (z *Authorizer) attached(node, name string) bool {
	var v storagev1.VolumeAttachment
	e, err := z.objects.Entry(attachmentKind, "", name)
	return err == nil && json.Unmarshal(e.Raw, &v) == nil && v.Spec.NodeName == node
}

func accounts(p *pod) []string { return []string{p.account()} }

func volumeClaims(p *pod) []string {
	return named(p.whole["spec"], "persistentVolumeClaim", "claimName")
}

func configMaps(p *pod) []string {
	var out []string
	for _, key := range []string{"configMap", "configMapRef", "configMapKeyRef"} {
		out = append(out, named(p.whole["spec"], key, "name")...)
	}
	return out
}

func secrets(p *pod) []string {
	out := named(p.whole["spec"], "azureFile", "secretName")
	out = append(out, named(p.whole["spec"], "secret", "secretName")...)
	for _, key := range []string{"secret", "secretRef", "secretKeyRef", "nodePublishSecretRef", "imagePullSecrets"} {
		out = append(out, named(p.whole["spec"], key, "name")...)
	}
	return out
}

// named returns the names under a key anywhere below v: only the key shows where a
// Pod refers to other objects.
func named(v any, key, name string) []string {
	var out []string
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			out = append(out, named(item, key, name)...)
		}
	case map[string]any:
		for k, child := range v {
			out = append(out, named(child, key, name)...)
			if k == key {
				out = append(out, namesOf(child, name)...)
			}
		}
	}
	return out
}

// namesOf is the name of a reference, or those of a list of references.
func namesOf(v any, name string) []string {
	switch v := v.(type) {
	case map[string]any:
		if s, ok := v[name].(string); ok {
			return []string{s}
		}
	case []any:
		var out []string
		for _, item := range v {
			out = append(out, namesOf(item, name)...)
		}
		return out
	}
	return nil
}
