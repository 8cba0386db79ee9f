// SPDX-License-Identifier: Apache-2.0

package standin

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

const machineDefinition = `
metadata: {name: foreignmachines.infrastructure.example.org}
spec:
  group: infrastructure.example.org
  names: {kind: ForeignMachine, plural: foreignmachines}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              cores: {type: integer, default: 2, minimum: 1}
              image: {type: string, x-kubernetes-validations: [{rule: self == oldSelf, message: the image is immutable}]}
`

func object(t *testing.T, doc string) *unstructured.Unstructured {
	t.Helper()
	if doc == "" {
		return nil
	}
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
		t.Fatal(err)
	}
	u.SetNamespace("ns")
	u.SetName("a")
	u.SetResourceVersion("1")
	return u
}

func TestAdmissionDefaultsAndValidates(t *testing.T) {
	t.Parallel()
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(machineDefinition), crd); err != nil {
		t.Fatal(err)
	}
	const foreign, core = "apiVersion: infrastructure.example.org/v1\nkind: ForeignMachine\n", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\n"
	const refs = "bootstrap: {configRef: {apiGroup: bootstrap.cluster.x-k8s.io, kind: KubeadmConfig, name: a}}, infrastructureRef: {apiGroup: infrastructure.example.org, kind: ForeignMachine, name: a}"
	for name, tc := range map[string]struct {
		old, obj string
		want     string // of spec, if it is admitted
		refused  string
	}{
		"defaults and fields that are not declared": {"", foreign + "spec: {image: a, other: b}", "{cores: 2, image: a}", ""},
		"a value out of bounds":                     {"", foreign + "spec: {cores: 0}", "", "spec.cores: Invalid value"},
		"a rule":                                    {foreign + "spec: {image: a}", foreign + "spec: {image: b}", "", "the image is immutable"},
		"our defaults":                              {"", core + "spec: {clusterName: c, " + refs + "}", "{clusterName: c, deletion: {nodeDeletionTimeoutSeconds: 10}, " + refs + "}", ""},
		"our schema":                                {"", core + "spec: {clusterName: '', " + refs + "}", "", "spec.clusterName"},
		"our webhook":                               {core + "spec: {clusterName: c, " + refs + "}", core + "spec: {clusterName: d, " + refs + "}", "", "spec.clusterName: Invalid value: \"d\": cannot change"},
		"a kind without a definition":               {"", "apiVersion: v1\nkind: ConfigMap\nspec: {a: b}", "{a: b}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			obj := object(t, tc.obj)
			err := Admission([]*apiextensionsv1.CustomResourceDefinition{crd}, nil)(object(t, tc.old), obj, 0)
			if tc.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tc.refused) {
					t.Errorf("%v, want %q", err, tc.refused)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var want any
			if err := yaml.Unmarshal([]byte(tc.want), &want); err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(obj.Object["spec"])
			if err != nil {
				t.Fatal(err)
			}
			wanted, err := yaml.Marshal(want)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(wanted), string(got)); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// TestQuotaLimitsWhatIsCreated has a quota of three Machines in a namespace, of which two
// exist, one of them of another Cluster.
func TestQuotaLimitsWhatIsCreated(t *testing.T) {
	t.Parallel()
	const name = "count/machines.cluster.x-k8s.io"
	list := func(n string) corev1.ResourceList { return corev1.ResourceList{name: resource.MustParse(n)} }
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "few"}, Status: corev1.ResourceQuotaStatus{Hard: list("3"), Used: list("2")}}
	other := quota.DeepCopy()
	other.Namespace, other.Status.Hard = "other", list("0")
	first := []client.Object{quota, other, &clusterv1.Machine{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "first"}}}
	admit := Admission(nil, first)
	const machine = "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Machine\nspec: {clusterName: c, bootstrap: {dataSecretName: a}, infrastructureRef: {apiGroup: infrastructure.example.org, kind: ForeignMachine, name: a}}"
	for stored, want := range []string{"", "", "exceeded quota: few, requested: count/machines.cluster.x-k8s.io=1, used: count/machines.cluster.x-k8s.io=3, limited: count/machines.cluster.x-k8s.io=3"} {
		err := admit(nil, object(t, machine), stored)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with %d Machines: %v, want %q", stored, err, want)
		}
	}
	if err := admit(object(t, machine), object(t, machine), 9); err != nil {
		t.Errorf("an update: %v", err)
	}
}
