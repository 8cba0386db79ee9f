// SPDX-License-Identifier: Apache-2.0

package desired_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-dev/capstan/internal/controller/topology/desired"
)

func TestWhatAnObjectMayBecome(t *testing.T) {
	t.Parallel()
	object := func(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
		u := &unstructured.Unstructured{}
		u.SetAPIVersion(apiVersion)
		u.SetKind(kind)
		u.SetNamespace(namespace)
		u.SetName(name)
		return u
	}
	current := object("a.b/v1", "K", "ns", "n")
	const other = " cannot become a "
	const remedy = ": have the ClusterClass refer to a template of K.a.b again, or make another Cluster"
	for name, tc := range map[string]struct {
		wanted               *unstructured.Unstructured
		asObject, asTemplate string
	}{
		"the same":          {object("a.b/v1", "K", "ns", "n"), "", ""},
		"another version":   {object("a.b/v2", "K", "ns", "n"), "", ""},
		"another kind":      {object("a.b/v1", "L", "ns", "n"), "K.a.b ns/n" + other + "L.a.b" + remedy, "K.a.b ns/n" + other + "L.a.b" + remedy},
		"another group":     {object("c.d/v1", "K", "ns", "n"), "K.a.b ns/n" + other + "K.c.d" + remedy, "K.a.b ns/n" + other + "K.c.d" + remedy},
		"another name":      {object("a.b/v1", "K", "ns", "m"), "K ns/n cannot be renamed to m", ""},
		"another namespace": {object("a.b/v1", "K", "mt", "n"), "K ns/n cannot move to namespace mt", ""},
	} {
		if got := text(desired.ObjectChange(current, tc.wanted)); got != tc.asObject {
			t.Errorf("%s, of an object: got %q, want %q", name, got, tc.asObject)
		}
		if got := text(desired.TemplateChange(current, tc.wanted)); got != tc.asTemplate {
			t.Errorf("%s, of a template: got %q, want %q", name, got, tc.asTemplate)
		}
	}
}

func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
