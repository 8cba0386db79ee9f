// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestOptionsThatMakeNoClusterAreRefused(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		options GenerateOptions
		want    string // in what is generated
		err     string // or in the error
	}{
		"a version":                        {GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3"}, "version: v1.36.3\n", ""},
		"a version without its v":          {GenerateOptions{Name: "demo", KubernetesVersion: "1.36.3"}, "version: v1.36.3\n", ""},
		"a version with metadata":          {GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3-rc.0+k3s1"}, "version: v1.36.3-rc.0+k3s1\n", ""},
		"a version of two numbers":         {GenerateOptions{Name: "demo", KubernetesVersion: "1.36"}, "", `"1.36" is no Kubernetes version: it has the form v1.36.3`},
		"a version that is set by name":    {GenerateOptions{Name: "demo", Set: map[string]string{"KUBERNETES_VERSION": "v1.36"}}, "", `"v1.36" is no Kubernetes version`},
		"an empty version":                 {GenerateOptions{Name: "demo", Set: map[string]string{"KUBERNETES_VERSION": ""}}, "", `"" is no Kubernetes version`},
		"a version that is not requested":  {GenerateOptions{Name: "demo", Set: map[string]string{"A": "1"}, Template: []byte(settings("{a: '${A}'}")), Lookup: func(string) (string, bool) { return "1.36", true }}, "  a: \"1\"\n", ""},
		"a version for no use":             {GenerateOptions{Name: "demo", KubernetesVersion: "1.36", Template: []byte(settings("{a: b}"))}, "", "is no Kubernetes version"},
		"a variable that the template has": {GenerateOptions{Name: "demo", KubernetesVersion: "v1.36.3", Set: map[string]string{"POD_CIDR": "10.1.0.0/16"}}, "- 10.1.0.0/16\n", ""},
		"variables that it lacks":          {GenerateOptions{Name: "demo", Template: []byte("${B} ${A:=1}"), Set: map[string]string{"AA": "", "C": "", "B": "x"}}, "", "the template has no variable AA, C, but A, B"},
		"a variable that it nearly has":    {GenerateOptions{Name: "demo", Set: map[string]string{"PODCIDR": ""}}, "", `, POD_CIDR, SERVICE_CIDR, SERVICE_DOMAIN, WORKER_MACHINE_COUNT: did you mean "POD_CIDR"?`},
		"a name that is a number in YAML":  {GenerateOptions{Name: "1e3", KubernetesVersion: "v1.36.3"}, "  name: \"1e3\"\n", ""},
		"a name that cannot be":            {GenerateOptions{Name: "Demo"}, "", `"Demo" cannot be the name of a cluster`},
		"a namespace that cannot be":       {GenerateOptions{Name: "demo", Namespace: "a.b"}, "", `"a.b" cannot be the name of a namespace`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			doc, err := Generate(tc.options)
			if tc.err != "" {
				if !errors.As(err, new(*OptionError)) || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("error %v, want one with %q", err, tc.err)
				}
				return
			}
			if err != nil || !strings.Contains(string(doc), tc.want) {
				t.Errorf("error %v, want %q in\n%s", err, tc.want, doc)
			}
		})
	}
}

// settings is a template of one object.
func settings(data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: " + data + "\n"
}

// TestAllObjectsOfATemplateGoIntoOneNamespace has a template without namespaces, and one
// with fixed namespaces.
func TestAllObjectsOfATemplateGoIntoOneNamespace(t *testing.T) {
	t.Parallel()
	const text = `apiVersion: v1
kind: Namespace
metadata:
  name: team
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata:
  name: ${CLUSTER_NAME}
  namespace: team
spec:
  infrastructureRef: {apiVersion: x/v1, kind: XCluster, name: x, namespace: team}
  topology: {class: prod, classNamespace: team}
---
apiVersion: x/v1
kind: XCluster
metadata:
  name: x
spec:
  identityRef: {name: account, namespace: kube-system}
  addons: [{namespace: team}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: x
`
	doc, err := Generate(GenerateOptions{Name: "demo", Namespace: "fleet", Template: []byte(text), Class: func(key client.ObjectKey) ([]byte, error) {
		return []byte("apiVersion: cluster.x-k8s.io/v1beta1\nkind: ClusterClass\nmetadata: {name: " + key.Name + ", namespace: " + key.Namespace + "}\n"), nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	const want = `apiVersion: cluster.x-k8s.io/v1beta1
kind: ClusterClass
metadata:
  name: prod
  namespace: fleet
---
apiVersion: v1
kind: Namespace
metadata:
  name: fleet
---
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata:
  name: demo
  namespace: fleet
spec:
  infrastructureRef:
    apiVersion: x/v1
    kind: XCluster
    name: x
    namespace: fleet
  topology:
    class: prod
    classNamespace: fleet
---
apiVersion: x/v1
kind: XCluster
metadata:
  name: x
  namespace: fleet
spec:
  addons:
  - namespace: team
  identityRef:
    name: account
    namespace: kube-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: x
`
	if diff := cmp.Diff(want, string(doc)); diff != "" {
		t.Errorf("generated (-want +got):\n%s", diff)
	}
}
