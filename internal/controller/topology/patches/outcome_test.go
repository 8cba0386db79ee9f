// SPDX-License-Identifier: Apache-2.0

package patches

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestWhatNoPatchChangesIsAsItIsDesired, as if all of it had been copied.
func TestWhatNoPatchChangesIsAsItIsDesired(t *testing.T) {
	t.Parallel()
	labels := map[string]any{"cluster.x-k8s.io/cluster-name": "c", "topology.cluster.x-k8s.io/owned": "", "theirs": "1"}
	annotations := map[string]any{"cluster.x-k8s.io/cloned-from-name": "t", "cluster.x-k8s.io/cloned-from-groupkind": "Template.g"}
	object := func(kind string, spec any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "g/v1", "kind": kind, "metadata": map[string]any{
			"name": "n", "namespace": "default", "labels": labels, "annotations": annotations,
		}}}
		if spec != nil {
			u.Object["spec"] = spec
		}
		return u
	}
	inner := map[string]any{"a": map[string]any{"b": []any{"c", nil}}, "empty": map[string]any{}, "n": int64(1)}
	spec := map[string]any{"template": map[string]any{"spec": inner, "metadata": map[string]any{"labels": map[string]any{"in": "side"}}}}
	plane := map[string]any{"a": inner["a"], "empty": inner["empty"], "n": int64(1), "replicas": int64(3), "version": "v1.33.0", "machineTemplate": map[string]any{"metadata": map[string]any{"labels": labels}}}
	for name, item := range map[string]Item{
		"a copy":                 {Role: DeploymentBootstrap, Template: object("XTemplate", spec), Desired: object("XTemplate", spec)},
		"an object":              {Role: InfrastructureCluster, Template: object("XTemplate", spec), Desired: object("X", inner)},
		"an object without spec": {Role: InfrastructureCluster, Template: object("XTemplate", map[string]any{"template": map[string]any{}}), Desired: object("X", nil)},
		"a control plane":        {Role: ControlPlane, Contract: "v1beta2", Template: object("XTemplate", spec), Desired: object("X", plane)},
	} {
		state := &templateState{Item: &item, document: item.request()}
		is, err := state.outcome()
		if err != nil || is != item.Desired {
			t.Errorf("%s: %v, another object: %v", name, err, is != item.Desired)
		}
		state.patched = true
		copied, err := state.outcome()
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(is.Object, copied.Object); diff != "" {
			t.Errorf("%s: copied, it differs (-desired +copied):\n%s", name, diff)
		}
	}
}
