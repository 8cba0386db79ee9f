// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset/typed/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/manifests"
)

// Trust has the API server trust the authorities of a bundle where the definitions of
// the providers have a Service convert their objects. Definitions that name another,
// or none, are left alone; so are all if the bundle is empty, as others fill it in then.
// What is as it should be is not written.
func Trust(ctx context.Context, cfg *rest.Config, service types.NamespacedName, bundle []byte, providers []string) error {
	if len(bundle) == 0 {
		return nil
	}
	c, err := apiextensions.NewForConfig(rest.AddUserAgent(rest.CopyConfig(cfg), "capstan-install"))
	if err != nil {
		return err
	}
	ours, err := manifests.CRDs()
	if err != nil {
		return err
	}
	here := Conversion{Providers: providers}
	for _, crd := range ours {
		if !here.runs(crd) || len(crd.Spec.Versions) < 2 {
			continue
		}
		live, err := c.CustomResourceDefinitions().Get(ctx, crd.Name, metav1.GetOptions{})
		if err != nil {
			return fmt.Errorf("read CustomResourceDefinition %s: %w; apply the manifests of this release first", crd.Name, err)
		}
		by := live.Spec.Conversion
		if by == nil || by.Webhook == nil || by.Webhook.ClientConfig == nil || by.Webhook.ClientConfig.Service == nil {
			continue
		}
		s := by.Webhook.ClientConfig.Service
		if s.Namespace != service.Namespace || s.Name != service.Name || bytes.Equal(by.Webhook.ClientConfig.CABundle, bundle) {
			continue
		}
		patch, err := json.Marshal(map[string]any{"spec": map[string]any{"conversion": map[string]any{"webhook": map[string]any{"clientConfig": map[string]any{"caBundle": bundle}}}}})
		if err != nil {
			return err
		}
		if _, err := c.CustomResourceDefinitions().Patch(ctx, crd.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: "capstan"}); err != nil {
			return fmt.Errorf("have CustomResourceDefinition %s trust the webhooks: %w", crd.Name, err)
		}
	}
	return nil
}
