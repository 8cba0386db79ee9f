// SPDX-License-Identifier: Apache-2.0

package template_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/pure/nodecomponents"
)

// networkDoc reads the document of a kind.
func networkDoc(t *testing.T, text []byte, kind string, into any) {
	t.Helper()
	for doc := range strings.SplitSeq(string(text), "\n---\n") {
		if strings.Contains("\n"+doc, "\nkind: "+kind+"\n") {
			if err := yaml.UnmarshalStrict([]byte(doc), into); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("there is no %s", kind)
}

func TestTheNetworkIsInTheNodeImageAndMayDoLittle(t *testing.T) {
	t.Parallel()
	var set appsv1.DaemonSet
	networkDoc(t, template.Network(), "DaemonSet", &set)
	pod := set.Spec.Template.Spec
	if c := pod.Containers[0]; c.Image != nodecomponents.NetworkImage || c.ImagePullPolicy != corev1.PullIfNotPresent {
		t.Errorf("image %s is pulled %s, want %s, if it is not there", c.Image, c.ImagePullPolicy, nodecomponents.NetworkImage)
	}
	caps := pod.Containers[0].SecurityContext.Capabilities
	if !slices.Equal(caps.Add, []corev1.Capability{"NET_ADMIN"}) || !slices.Equal(caps.Drop, []corev1.Capability{"ALL"}) {
		t.Errorf("capabilities %v, want NET_ADMIN alone", caps)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0] != (corev1.Toleration{Operator: corev1.TolerationOpExists}) {
		t.Errorf("tolerations %v, want all: a node is not ready without it", pod.Tolerations)
	}
	var role rbacv1.ClusterRole
	networkDoc(t, template.Network(), "ClusterRole", &role)
	if len(role.Rules) != 1 || !slices.Equal(role.Rules[0].Resources, []string{"nodes"}) || !slices.Equal(role.Rules[0].Verbs, []string{"get", "list", "watch"}) {
		t.Errorf("rules %v, want to read nodes alone", role.Rules)
	}
}

func TestTheAddonBringsTheNetwork(t *testing.T) {
	t.Parallel()
	addon := bytes.ReplaceAll(bytes.ReplaceAll(template.NetworkAddon(), []byte("${CLUSTER_NAME}"), []byte("demo")), []byte("${NAMESPACE}"), []byte("default"))
	set, data, found := addonsv1.ClusterResourceSet{}, corev1.ConfigMap{}, strings.SplitN(string(addon), "\n---\n", 2)
	if err := yaml.UnmarshalStrict([]byte(found[0]), &set); err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict([]byte(found[1]), &data); err != nil {
		t.Fatal(err)
	}
	if data.Data["network.yaml"] != string(template.Network()) {
		t.Errorf("it brings %s", data.Data["network.yaml"])
	}
	if set.Spec.ClusterSelector.MatchLabels[template.NetworkLabel] != "demo" || set.Spec.Resources[0].Name != data.Name {
		t.Errorf("it selects %v and brings %v", set.Spec.ClusterSelector, set.Spec.Resources)
	}
}
