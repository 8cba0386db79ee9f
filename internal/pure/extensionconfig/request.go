// SPDX-License-Identifier: Apache-2.0

package extensionconfig

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
)

// conversionData is the annotation in which a conversion between API versions stores
// fields that the older one does not have. It is not useful for an extension.
const conversionData = "cluster.x-k8s.io/conversion-data"

// Settings are those of the ExtensionConfig, overridden by those of the
// request. The result may be one of the two maps: it is for reading.
func Settings(config, request map[string]string) map[string]string {
	if len(config) == 0 {
		return request
	}
	if len(request) == 0 {
		return config
	}
	merged := make(map[string]string, len(config)+len(request))
	maps.Copy(merged, config)
	maps.Copy(merged, request)
	return merged
}

// Cluster is a Cluster as extensions get it: with its kind, without status,
// managed fields and the annotations that only tools read. It shares nothing
// with the one given.
func Cluster(c *clusterv1.Cluster) clusterv1.Cluster {
	meta := c.ObjectMeta
	meta.ManagedFields = nil
	out := clusterv1.Cluster{ObjectMeta: *meta.DeepCopy(), Spec: *c.Spec.DeepCopy()}
	out.TypeMeta = metav1.TypeMeta{APIVersion: clusterv1.GroupVersion().String(), Kind: "Cluster"}
	delete(out.Annotations, corev1.LastAppliedConfigAnnotation)
	delete(out.Annotations, conversionData)
	if len(out.Annotations) == 0 {
		out.Annotations = nil
	}
	return out
}

// Deprecated lists, sorted and once each, the deprecated hook versions that
// handlers answer, each as a sentence for people.
func Deprecated(c *catalog.Catalog, handlers []runtimev1.ExtensionHandler) []string {
	found := map[string]bool{}
	for _, h := range handlers {
		hook, err := Hook(h.RequestHook)
		if err != nil {
			continue // never registered, hence never called
		}
		if d, err := c.Find(hook); err == nil && d.Deprecated != nil {
			text := hook.Group + "/" + hook.Version + " " + hook.Hook + " is deprecated"
			if d.Deprecated.Since != "" {
				text += " since " + d.Deprecated.Since
			}
			if d.Deprecated.Use != "" {
				text += ": use " + d.Deprecated.Use
			}
			found[text] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}

// Hook is the hook that an ExtensionConfig's status names.
func Hook(h runtimev1.GroupVersionHook) (catalog.GroupVersionHook, error) {
	gv, err := schema.ParseGroupVersion(h.APIVersion)
	if err != nil {
		return catalog.GroupVersionHook{}, err
	}
	return catalog.GroupVersionHook{Group: gv.Group, Version: gv.Version, Hook: h.Hook}, nil
}
