// SPDX-License-Identifier: Apache-2.0

package crdconversion

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apiserver/pkg/admission"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/pure/conversion/core"
	"github.com/capstan-dev/capstan/internal/pure/conversion/kubeadm"
)

// converter returns one that has no version of group unknown.io.
func converter(t *testing.T) *conversion.Converter {
	t.Helper()
	lookup := func(kind schema.GroupKind) (string, error) {
		if kind.Group == "unknown.io" {
			return "", apierrors.NewBadRequest("the definition of " + kind.String() + " has no label of a contract")
		}
		return kind.Group + "/v7", nil
	}
	var pairs []conversion.Pair
	for _, k := range slices.Concat(core.Kinds(), kubeadm.Kinds()) {
		pairs = append(pairs, conversion.Pair{
			Old: k.Old, Stored: k.Hub, NewOld: k.NewOld, NewStored: k.NewHub, Up: k.Up,
			Down: func(hub runtime.Object) (runtime.Object, error) { return k.Down(hub, lookup) },
		})
	}
	c, err := conversion.New(pairs...)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// machine is one of v1beta1 with more YAML in spec; nil without any.
func machine(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	if spec == "" {
		return nil
	}
	data, err := yaml.YAMLToJSON([]byte("{apiVersion: cluster.x-k8s.io/v1beta1, kind: Machine, metadata: {namespace: ns, name: a, uid: u, resourceVersion: '1'}, spec: {clusterName: c, " + spec + "}}"))
	if err != nil {
		t.Fatal(err)
	}
	obj := map[string]any{}
	if err := utiljson.Unmarshal(data, &obj); err != nil {
		t.Fatal(err)
	}
	return &unstructured.Unstructured{Object: obj}
}

func written(obj, old *unstructured.Unstructured) admission.Attributes {
	operation, was := admission.Create, runtime.Object(nil)
	if old != nil {
		operation, was = admission.Update, old
	}
	kind := obj.GroupVersionKind()
	return admission.NewAttributesRecord(obj, was, kind, "ns", "a", kind.GroupVersion().WithResource("machines"), "", operation, &metav1.UpdateOptions{}, false, nil)
}

const (
	bootstrap = "bootstrap: {dataSecretName: s}, "
	complete  = bootstrap + "infrastructureRef: {apiVersion: x.io/v7, kind: Host, name: h, namespace: ns}"
)

func TestWhatDiffersInItsFormAloneIsNoChange(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		obj, old string
		same     bool
	}{
		"a duration":                     {complete + ", nodeDrainTimeout: 10m", complete + ", nodeDrainTimeout: 10m0s", true},
		"a reference":                    {bootstrap + "infrastructureRef: {apiVersion: x.io/v1, kind: Host, name: h}", complete, true},
		"a string that is empty":         {complete + ", providerID: ''", complete, true},
		"another duration":               {complete + ", nodeDrainTimeout: 11m", complete + ", nodeDrainTimeout: 10m0s", false},
		"a reference to another kind":    {bootstrap + "infrastructureRef: {apiVersion: x.io/v1, kind: Other, name: h}", complete, false},
		"what cannot be converted stays": {bootstrap + "infrastructureRef: {apiVersion: a/b/c, kind: Host, name: h}", complete, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj, old := machine(t, tc.obj), machine(t, tc.old)
			obj.SetLabels(map[string]string{"of": "the request"})
			sent, was := obj.DeepCopy(), old.DeepCopy()
			if err := (unchanged{converter(t)}).Admit(t.Context(), written(obj, old), nil); err != nil {
				t.Fatal(err)
			}
			want := sent
			if tc.same {
				want = was.DeepCopy()
				want.SetLabels(map[string]string{"of": "the request"})
			}
			if diff := cmp.Diff(want, obj); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(was, old); diff != "" {
				t.Errorf("what was there has changed (-want +got):\n%s", diff)
			}
		})
	}
}
