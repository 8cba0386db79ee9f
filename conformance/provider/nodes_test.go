// SPDX-License-Identifier: Apache-2.0

package provider_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// sameID is a provider ID that there is a Node for in every cluster.
const sameID = "fake://same"

// nodesURL is where the API server of all clusters of the fake provider is.
var nodesURL string

// serveNodes serves a Node for each FakeMachine, with the provider ID that it
// ought to have.
func serveNodes(f *fake) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes" || r.URL.Query().Has("watch") {
			http.NotFound(w, r)
			return
		}
		machines := &unstructured.UnstructuredList{}
		machines.SetGroupVersionKind(gvk("FakeMachineList"))
		if err := f.client.List(r.Context(), machines); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		nodes := corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}}
		ids := []string{sameID}
		for i := range machines.Items {
			ids = append(ids, providerID(&machines.Items[i]))
		}
		for _, id := range ids {
			nodes.Items = append(nodes.Items, corev1.Node{Spec: corev1.NodeSpec{ProviderID: id}})
		}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(nodes)
	}))
	nodesURL = s.URL
}

// kubeconfig is the Secret that leads to the Nodes.
func kubeconfig() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Secret", "type": "cluster.x-k8s.io/secret",
		"metadata": map[string]any{"name": "conformance-kubeconfig", "labels": map[string]any{"cluster.x-k8s.io/cluster-name": "conformance"}},
		"stringData": map[string]any{"value": `{apiVersion: v1, kind: Config, current-context: c, clusters: [{name: c, cluster: {server: "` + nodesURL + `"}}],
			contexts: [{name: c, context: {cluster: c, user: u}}], users: [{name: u, user: {}}]}`},
	}}
}
