// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// Conversion says who converts objects between versions where the API server does
// not do so itself. The zero value is nobody.
type Conversion struct {
	// URL is where ConversionReviews are answered, CABundle the authority of who
	// answers.
	URL      string
	CABundle []byte
	// Providers are those that run there.
	Providers []string
}

// convertInProcess names no authority: what is there of an earlier mode goes.
func convertInProcess(want, _ *apiextensionsv1.CustomResourceDefinition) {
	want.Spec.Conversion = byWebhook(conversion.InProcessURL, nil)
}

func byWebhook(url string, authority []byte) *apiextensionsv1.CustomResourceConversion {
	return &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook: &apiextensionsv1.WebhookConversion{
			ClientConfig:             &apiextensionsv1.WebhookClientConfig{URL: &url, CABundle: authority},
			ConversionReviewVersions: []string{"v1"},
		},
	}
}

// choose sets who converts the objects of a definition.
//
// What an API server does in its own process stays. So does what another manager
// does, unless the provider of the kind runs here: managers that run different
// providers do not overwrite each other's. Where nobody converts, old versions
// are not served, as an object would be taken for one of the other version.
func (c Conversion) choose(want, live *apiextensionsv1.CustomResourceDefinition) {
	var now *apiextensionsv1.WebhookClientConfig
	if live != nil && live.Spec.Conversion != nil && live.Spec.Conversion.Webhook != nil {
		now = live.Spec.Conversion.Webhook.ClientConfig
	}
	inProcess := now != nil && now.URL != nil && *now.URL == conversion.InProcessURL
	switch {
	case inProcess, now != nil && (c.URL == "" || !c.runs(want)), c.answers(now):
		want.Spec.Conversion = live.Spec.Conversion
	case c.URL != "":
		want.Spec.Conversion = byWebhook(c.URL, c.CABundle)
	default:
		for i := range want.Spec.Versions {
			v := &want.Spec.Versions[i]
			v.Served = v.Served && v.Storage
		}
	}
}

// runs reports whether the provider of a kind is one that runs here.
func (c Conversion) runs(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(inventory, func(p part) bool {
		return p.label == crd.Labels[clusterv1.ProviderNameLabel] && slices.Contains(c.Providers, p.provider)
	})
}

// answers reports whether now leads here. Others may trust more authorities: those
// that inject them know better.
func (c Conversion) answers(now *apiextensionsv1.WebhookClientConfig) bool {
	return now != nil && now.URL != nil && *now.URL == c.URL && bytes.Contains(now.CABundle, bytes.TrimSpace(c.CABundle))
}
