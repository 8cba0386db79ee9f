// SPDX-License-Identifier: Apache-2.0

package podnetwork

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// apiServer lists one Node, and sends a second one when more is closed.
func apiServer(t *testing.T, more chan struct{}) *rest.Config {
	t.Helper()
	typed := func(name, version string) *corev1.Node {
		n := node(name, 0, "172.30.0.11", "10.244.0.0/24")
		n.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}
		n.ResourceVersion, n.Labels = version, map[string]string{"large": strings.Repeat("x", 100)}
		return n
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/nodes" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		send := func(v any) { _ = json.NewEncoder(w).Encode(v) }
		query := r.URL.Query()
		if query.Get("watch") == "" {
			send(corev1.NodeList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "NodeList"}, ListMeta: metav1.ListMeta{ResourceVersion: "1"}, Items: []corev1.Node{*typed("a", "1")}})
			return
		}
		event := func(kind string, n *corev1.Node) {
			raw, err := json.Marshal(n)
			if err != nil {
				t.Error(err)
			}
			send(map[string]any{"type": kind, "object": json.RawMessage(raw)})
			w.(http.Flusher).Flush()
		}
		if query.Get("sendInitialEvents") == "true" {
			event("ADDED", typed("a", "1"))
			done := &corev1.Node{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"}, ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1", Annotations: map[string]string{metav1.InitialEventsAnnotationKey: "true"}}}
			event("BOOKMARK", done)
		}
		w.(http.Flusher).Flush()
		select {
		case <-more:
			event("ADDED", typed("b", "2"))
		case <-r.Context().Done():
		}
		<-r.Context().Done()
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}
}

func TestNodesReportEachChange(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	more, seen := make(chan struct{}), make(chan []string)
	ended := make(chan error, 1)
	config, failed := apiServer(t, more), false
	go func() {
		ended <- Nodes(ctx, config, func(nodes []*corev1.Node) error {
			var names []string
			for _, n := range nodes {
				if len(n.Labels) > 0 {
					t.Errorf("Node %s is kept with its labels", n.Name)
				}
				names = append(names, n.Name)
			}
			slices.Sort(names)
			select {
			case seen <- names:
			case <-ctx.Done():
			}
			if !failed {
				failed = true
				return errors.New("the kernel is busy")
			}
			return nil
		}, func(err error) { t.Log(err) })
	}()
	// A failed sync is repeated without a change.
	for range 2 {
		if got := <-seen; !slices.Equal(got, []string{"a"}) {
			t.Fatalf("the Nodes are %v, want a", got)
		}
	}
	close(more)
	if got := <-seen; !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("the Nodes are %v, want a and b", got)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("the end: %v", err)
	}
}
