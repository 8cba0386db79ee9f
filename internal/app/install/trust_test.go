// SPDX-License-Identifier: Apache-2.0

package install

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"sync"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/manifests"
)

// TestTrustChangesOnlyDefinitionsOfService has an API server whose
// definitions are those of the manifests, converted by different services.
func TestTrustChangesOnlyDefinitionsOfService(t *testing.T) {
	t.Parallel()
	here := types.NamespacedName{Namespace: "capstan-system", Name: "capstan-webhooks"}
	tests := map[string]struct {
		service   types.NamespacedName // of the definitions
		trusts    string               // already
		bundle    string
		providers []string
		want      bool // that Clusters are written
		kubeadm   bool // that KubeadmConfigs are written
	}{
		"new definitions":                    {here, "", "ours", []string{"core"}, true, false},
		"of all providers":                   {here, "", "ours", []string{"core", "kubeadm"}, true, true},
		"an authority before":                {here, "before", "ours", []string{"core"}, true, false},
		"as it should be":                    {here, "ours", "ours", []string{"core"}, false, false},
		"another manager sets the authority": {here, "theirs", "", []string{"core"}, false, false},
		"the Service of another manager":     {types.NamespacedName{Namespace: "capi-system", Name: "capi-webhook-service"}, "theirs", "ours", []string{"core"}, false, false},
		"no converter":                       {types.NamespacedName{}, "", "ours", []string{"core"}, false, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			crds, err := manifests.CRDs()
			if err != nil {
				t.Fatal(err)
			}
			var mu sync.Mutex
			written := map[string]string{}
			api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				i := slices.IndexFunc(crds, func(c *apiextensionsv1.CustomResourceDefinition) bool { return c.Name == path.Base(r.URL.Path) })
				if i < 0 {
					w.WriteHeader(http.StatusNotFound)
					return
				}
				crd := crds[i].DeepCopy()
				crd.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
				if tc.service.Name != "" {
					crd.Spec.Conversion = byWebhook("", []byte(tc.trusts))
					crd.Spec.Conversion.Webhook.ClientConfig.URL = nil
					crd.Spec.Conversion.Webhook.ClientConfig.Service = &apiextensionsv1.ServiceReference{Namespace: tc.service.Namespace, Name: tc.service.Name}
				}
				if r.Method == http.MethodPatch {
					_ = json.NewDecoder(r.Body).Decode(crd) // a merge patch of these fields
					mu.Lock()
					written[crd.Name] = string(crd.Spec.Conversion.Webhook.ClientConfig.CABundle)
					mu.Unlock()
				}
				w.Header().Set("Content-Type", "application/json")
				_ = json.NewEncoder(w).Encode(crd) // the client detects what is missing
			}))
			t.Cleanup(api.Close)
			if err := Trust(t.Context(), &rest.Config{Host: api.URL}, here, []byte(tc.bundle), tc.providers); err != nil {
				t.Fatal(err)
			}
			for crd, want := range map[string]bool{"clusters.cluster.x-k8s.io": tc.want, "kubeadmconfigs.bootstrap.cluster.x-k8s.io": tc.kubeadm} {
				if got, ok := written[crd]; ok != want || ok && got != tc.bundle {
					t.Errorf("%s: written %v, with %q", crd, ok, got)
				}
			}
		})
	}
}
