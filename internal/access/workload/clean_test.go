// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	painted = "\x1b]0;owned\a\u202eno\r\nwords"
	plainly = `\x1b]0;owned\a\u202eno words`
)

func TestWordsOfAClusterAreMadePlainWhereTheyEnter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		n := node("a", "simulated://a", "1")
		n.Status.Conditions[0].Message, n.Status.NodeInfo.OSImage = painted, painted
		s.nodes = []corev1.Node{n}
		s.hostile = func(w http.ResponseWriter, r *http.Request) bool {
			switch r.URL.Path {
			case "/api/v1/namespaces/kube-system/secrets/status":
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusForbidden)
				_ = json.NewEncoder(w).Encode(metav1.Status{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}, Status: metav1.StatusFailure, Code: 403, Reason: metav1.StatusReasonForbidden, Message: painted,
					Details: &metav1.StatusDetails{Name: painted, Causes: []metav1.StatusCause{{Message: painted}}}})
			case "/api/v1/namespaces/kube-system/secrets/text":
				http.Error(w, painted, http.StatusInternalServerError)
			case "/api/v1/namespaces/default/pods":
				answer(w, &corev1.PodList{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "PodList"}, Items: []corev1.Pod{{ObjectMeta: metav1.ObjectMeta{Name: painted}}}})
			default:
				return false
			}
			return true
		}
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		c, err := f.Client(t.Context(), keyOf("demo"))
		if err != nil {
			t.Fatal(err)
		}
		var a corev1.Node
		if err := c.Get(t.Context(), client.ObjectKey{Name: "a"}, &a); err != nil || a.Status.Conditions[0].Message != plainly || a.Status.NodeInfo.OSImage != plainly {
			t.Errorf("node %+v, %v", a.Status, err)
		}
		err = c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "status"}, &corev1.Secret{})
		if !apierrors.IsForbidden(err) || err.Error() != plainly {
			t.Errorf("a refusal says %q", err)
		}
		err = c.Get(t.Context(), client.ObjectKey{Namespace: "kube-system", Name: "text"}, &corev1.Secret{})
		if !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "u202eno words") || strings.Contains(err.Error(), "\x1b") {
			t.Errorf("a refusal in plain text says %q", err)
		}
		if err := c.List(t.Context(), &corev1.PodList{}, client.InNamespace("default")); err == nil || !strings.Contains(err.Error(), "*v1.Pod with an impossible name") {
			t.Errorf("a painted name is taken: %v", err)
		}
	})
}

func TestClusterWithPaintedNodesIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startServer(t)
		s.nodes = []corev1.Node{node(painted, "simulated://a", "1")}
		f := startFleet(t, map[string]*server{"demo": s})
		f.reconcile(t, "demo")
		synctest.Wait()
		if h := f.Health(keyOf("demo")); h.Connected || h.Err == nil || !strings.Contains(h.Err.Error(), "*v1.Node with an impossible name") {
			t.Errorf("health %+v", h)
		}
	})
}
