// SPDX-License-Identifier: Apache-2.0

// Package crdconversion lets an API server in this process serve several versions of
// custom resources without conversion requests.
package crdconversion

import (
	"net/http"
	"strings"
	"time"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/util/webhook"
	"k8s.io/client-go/rest"

	"github.com/capstan-dev/capstan/internal/kit/conversion"
	"github.com/capstan-dev/capstan/internal/kit/handlertransport"
	"github.com/capstan-dev/capstan/manifests"
)

// timeout bounds one review: the API server itself sets no limit. It is long
// because a review that ends early during an update makes the update fail.
const timeout = time.Minute

// Convert configures an API server to convert the kinds of c in this process:
// reviews to conversion.InProcessURL are answered by c, and objects that are read
// from the store and written to it are converted without one. An update that writes
// a value only in another form than it is read in does not count as a change, and
// what the stored version does not allow is refused. No custom resource loses its
// managed fields because a conversion fails.
func Convert(config *apiextensionsapiserver.Config, c *conversion.Converter) {
	extra, generic := &config.ExtraConfig, &config.GenericConfig.Config
	next, transport := extra.AuthResolverWrapper, handlertransport.Transport(c)
	extra.AuthResolverWrapper = func(r webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver {
		if next != nil {
			r = next(r)
		}
		return resolver{r, transport}
	}
	extra.CRDRESTOptionsGetter = storages{extra.CRDRESTOptionsGetter, c}
	generic.AdmissionControl = admission.NewChainHandler(generic.AdmissionControl, unchanged{c}, newFits(c, manifests.CRDs), guard{})
}

// resolver defines how the API server reaches conversion.InProcessURL.
type resolver struct {
	webhook.AuthenticationInfoResolver
	transport http.RoundTripper
}

// ClientConfigFor implements webhook.AuthenticationInfoResolver.
//
// The transport is set as a wrapper that ignores the transport it wraps. As
// rest.Config.Transport it would work only as long as the definition has no
// caBundle; with one, which any injector of authorities may add, client-go refuses
// the config, and the API server then serves no version of the kind at all.
func (r resolver) ClientConfigFor(hostPort string) (*rest.Config, error) {
	if host, _, _ := strings.Cut(hostPort, ":"); host == conversion.InProcessHost {
		return &rest.Config{WrapTransport: func(http.RoundTripper) http.RoundTripper { return r.transport }, Timeout: timeout}, nil
	}
	return r.AuthenticationInfoResolver.ClientConfigFor(hostPort)
}
