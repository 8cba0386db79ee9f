// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"net/http"
	"net/http/httptest"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestListsThatTheViewsCanAnswer(t *testing.T) {
	t.Parallel()
	tier := client.MatchingLabels{"tier": "control-plane"}
	tests := map[string]struct {
		opts        []client.ListOption
		nodes, pods bool
	}{
		"everything":                        {nil, true, false},
		"nodes by providerID":               {[]client.ListOption{client.MatchingFields{NodeByProviderID: "x"}}, true, false},
		"nodes by another field":            {[]client.ListOption{client.MatchingFields{"spec.unschedulable": "true"}}, false, false},
		"a page":                            {[]client.ListOption{client.Limit(5)}, false, false},
		"control plane pods":                {[]client.ListOption{client.InNamespace("kube-system"), tier}, true, true},
		"control plane pods of a component": {[]client.ListOption{client.InNamespace("kube-system"), client.MatchingLabels{"tier": "control-plane", "component": "etcd"}}, true, true},
		"such pods elsewhere":               {[]client.ListOption{client.InNamespace("default"), tier}, true, false},
		"all pods of kube-system":           {[]client.ListOption{client.InNamespace("kube-system")}, true, false},
		"pods of a node": {[]client.ListOption{client.InNamespace("kube-system"), tier,
			client.MatchingFieldsSelector{Selector: fields.OneTermEqualSelector("spec.nodeName", "n")}}, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var o client.ListOptions
			o.ApplyOptions(tc.opts)
			_, nodes := nodesFromView(o)
			if pods := podsFromView(o); nodes != tc.nodes || pods != tc.pods {
				t.Errorf("nodes %v, pods %v; want %v, %v", nodes, pods, tc.nodes, tc.pods)
			}
		})
	}
}

func TestBuiltInKindsAreMappedWithoutAsking(t *testing.T) {
	t.Parallel()
	tests := map[schema.GroupKind]struct {
		resource string
		scope    meta.RESTScopeName
	}{
		{Kind: "Node"}:                                                   {"nodes", meta.RESTScopeNameRoot},
		{Kind: "ConfigMap"}:                                              {"configmaps", meta.RESTScopeNameNamespace},
		{Kind: "Endpoints"}:                                              {"endpoints", meta.RESTScopeNameNamespace},
		{Group: "apps", Kind: "DaemonSet"}:                               {"daemonsets", meta.RESTScopeNameNamespace},
		{Group: "policy", Kind: "Eviction"}:                              {"evictions", meta.RESTScopeNameNamespace},
		{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:              {"volumeattachments", meta.RESTScopeNameRoot},
		{Group: "rbac.authorization.k8s.io", Kind: "ClusterRoleBinding"}: {"clusterrolebindings", meta.RESTScopeNameRoot},
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:              {"networkpolicies", meta.RESTScopeNameNamespace},
		{Group: "networking.k8s.io", Kind: "IngressClass"}:               {"ingressclasses", meta.RESTScopeNameRoot},
	}
	for kind, tc := range tests {
		got, err := builtIn().RESTMapping(kind, "v1")
		if err != nil || got.Resource.Resource != tc.resource || got.Scope.Name() != tc.scope {
			t.Errorf("%s: %+v, %v", kind, got, err)
		}
	}
	if _, err := builtIn().RESTMapping(schema.GroupKind{Group: "example.com", Kind: "Thing"}); !meta.IsNoMatchError(err) {
		t.Errorf("an unknown kind: %v", err)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	reached := false
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer elsewhere.Close()
	s := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusFound))
	defer s.Close()
	transport, err := newTransport(&rest.Config{Host: s.URL}, newGuard(&budget{total: underWay}))
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Transport: transport, CheckRedirect: noRedirects}
	resp, err := c.Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	if reached || resp.StatusCode != http.StatusFound {
		t.Errorf("reached %v, status %d", reached, resp.StatusCode)
	}
}

func TestSlimPodKeepsWhatIsRead(t *testing.T) {
	t.Parallel()
	p := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n", Volumes: make([]corev1.Volume, 3),
		Containers: []corev1.Container{{Name: "etcd", Image: "etcd:3", Command: []string{"etcd"}}}}}
	slimPod(p)
	if p.Spec.NodeName != "n" || p.Spec.Volumes != nil || p.Spec.Containers[0].Image != "etcd:3" || p.Spec.Containers[0].Command != nil {
		t.Errorf("spec %+v", p.Spec)
	}
}
