// SPDX-License-Identifier: Apache-2.0

package objects

import (
	"reflect"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/simulated/apiserver/defaulting"
	"github.com/capstan-dev/capstan/internal/simulated/apiserver/kinds"
)

// setDefaults sets what a client may omit; was is nil at creation. A spec that no
// write changes stays as it was kept, possibly by an earlier version: filling the
// template of a Deployment would start a rollout.
func setDefaults(k *kinds.Kind, was, u *unstructured.Unstructured) {
	if k.Custom != nil {
		return
	}
	if was == nil || u.Object["spec"] == nil || !reflect.DeepEqual(was.Object["spec"], u.Object["spec"]) {
		defaulting.Fill(k.GroupResource(), u.Object)
	}
	switch k.Resource {
	case "secrets":
		foldStringData(u)
	case "namespaces":
		labels := u.GetLabels()
		if labels == nil {
			labels = map[string]string{}
		}
		labels["kubernetes.io/metadata.name"] = u.GetName()
		u.SetLabels(labels)
	}
}
