// SPDX-License-Identifier: Apache-2.0

package addons

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
)

// parse reads an object; "" is none.
func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	if text == "" {
		return nil
	}
	obj := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func messages(errs field.ErrorList) (all []string) {
	for _, err := range errs {
		all = append(all, err.Error())
	}
	return all
}

func TestDefaultClusterResourceSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ obj, want string }{
		"applies once": {`{}`, `spec: {strategy: ApplyOnce}`},
		"what is said": {`spec: {strategy: Reconcile}`, `spec: {strategy: Reconcile}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := parse[addonsv1.ClusterResourceSet](t, tc.obj)
			DefaultClusterResourceSet(got, nil)
			if diff := cmp.Diff(parse[addonsv1.ClusterResourceSet](t, tc.want), got); diff != "" {
				t.Errorf("defaults (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateClusterResourceSet(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		obj, old string
		want     []string
	}{
		"complete":           {`spec: {clusterSelector: {matchLabels: {a: b}}, strategy: ApplyOnce}`, ``, nil},
		"selects everything": {`spec: {strategy: ApplyOnce}`, ``, []string{`spec.clusterSelector: Required value: must not be empty: select Clusters by a label`}},
		"a bad selector":     {`spec: {clusterSelector: {matchExpressions: [{key: a, operator: In}]}}`, ``, []string{`spec.clusterSelector.matchExpressions[0].values: Required value: must be specified when ` + "`" + `operator` + "`" + ` is 'In' or 'NotIn'`}},
		"changed":            {`spec: {clusterSelector: {matchLabels: {a: b}}, strategy: Reconcile}`, `spec: {clusterSelector: {matchLabels: {a: c}}, strategy: ApplyOnce}`, []string{`spec.clusterSelector: Forbidden: cannot change; create another ClusterResourceSet instead`, `spec.strategy: Invalid value: "Reconcile": cannot change: it was "ApplyOnce"; create another object instead`}},
		"resources changed":  {`spec: {clusterSelector: {matchLabels: {a: b}}, strategy: Reconcile, resources: [{kind: Secret, name: s}]}`, `spec: {clusterSelector: {matchLabels: {a: b}}, strategy: Reconcile}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, messages(ValidateClusterResourceSet(parse[addonsv1.ClusterResourceSet](t, tc.obj), parse[addonsv1.ClusterResourceSet](t, tc.old)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}

func TestValidateClusterResourceSetBinding(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		obj, old string
		want     []string
	}{
		"new":                 {`spec: {clusterName: c}`, ``, nil},
		"of the same cluster": {`spec: {clusterName: c, bindings: [{clusterResourceSetName: s}]}`, `spec: {clusterName: c}`, nil},
		"moved":               {`spec: {clusterName: d}`, `spec: {clusterName: c}`, []string{`spec.clusterName: Invalid value: "d": cannot change: it was "c"; create another object instead`}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, messages(ValidateClusterResourceSetBinding(parse[addonsv1.ClusterResourceSetBinding](t, tc.obj), parse[addonsv1.ClusterResourceSetBinding](t, tc.old)))); diff != "" {
				t.Errorf("errors (-want +got):\n%s", diff)
			}
		})
	}
}
