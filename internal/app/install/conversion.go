// SPDX-License-Identifier: Apache-2.0

package install

import (
	"bytes"
	"slices"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/conversion"
)

// Conversion is the webhook that converts objects between versions where the API
// server does not do so itself. The zero value means that there is none.
type Conversion struct {
	// URL is where ConversionReviews are answered, CABundle the authority of that
	// server.
	URL      string
	CABundle []byte
	// Providers are the providers that run there.
	Providers []string
}

// convertInProcess sets no authority: that of an earlier mode is removed.
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

// choose sets the converter of the objects of a definition.
//
// Conversion in the process of the API server stays. So does the webhook of another
// manager, unless the provider of the kind runs here: managers that run different
// providers do not overwrite each other's. Without a converter, old versions are
// not served, because an object would be interpreted as one of the other version.
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

// runs reports whether the provider of a kind runs here.
func (c Conversion) runs(crd *apiextensionsv1.CustomResourceDefinition) bool {
	return slices.ContainsFunc(inventory, func(p part) bool {
		return p.label == crd.Labels[clusterv1.ProviderNameLabel] && slices.Contains(c.Providers, p.provider)
	})
}

// answers reports whether now routes to this process. Another client may have added
// trusted authorities, which stay: injectors manage the bundle.
func (c Conversion) answers(now *apiextensionsv1.WebhookClientConfig) bool {
	return now != nil && now.URL != nil && *now.URL == c.URL && bytes.Contains(now.CABundle, bytes.TrimSpace(c.CABundle))
}
