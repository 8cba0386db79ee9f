// SPDX-License-Identifier: Apache-2.0

package mgmtplane

import (
	"context"
	"net"

	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/util/webhook"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
)

// Dial connects the API server to an address in the cluster: that of a Service and
// a port of it, of a Pod, or of a Node and its kubelet.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// newConfig is app.NewConfig, except that connections into the cluster use dial,
// and those to the URL of a webhook use Options.DialURL, unless those are nil. In
// the cluster are webhooks and conversions that name a Service, aggregated APIs,
// the proxy subresources, and kubelets.
//
// Upstream reads the dialer from a file, which can only name a proxy.
func (c *completed) newConfig(o options.CompletedOptions, dial Dial) (*app.Config, error) {
	generic, informers, storage, err := controlplaneapiserver.BuildGenericConfig(o.CompletedOptions,
		[]*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme},
		controlplane.DefaultAPIResourceConfigSource(), generatedopenapi.GetOpenAPIDefinitions)
	if err != nil {
		return nil, err
	}
	dialers := map[egressselector.EgressType]utilnet.DialFunc{}
	for to, by := range map[egressselector.EgressType]Dial{egressselector.Cluster: dial, egressselector.ControlPlane: c.DialURL} {
		if by != nil {
			dialers[to] = utilnet.DialFunc(by)
		}
	}
	if len(dialers) > 0 {
		generic.EgressSelector = egressselector.NewEgressSelectorWithMap(dialers)
	}
	kube, services, initializers, err := app.CreateKubeAPIServerConfig(o, generic, informers, storage)
	if err != nil {
		return nil, err
	}
	plane := kube.ControlPlane
	callers := webhook.NewDefaultAuthenticationInfoResolverWrapper(plane.ProxyTransport, plane.Generic.EgressSelector, plane.Generic.LoopbackClientConfig, plane.Generic.TracerProvider)
	extensions, err := controlplaneapiserver.CreateAPIExtensionsConfig(*plane.Generic, plane.VersionedInformers, initializers, o.CompletedOptions, o.MasterCount, services, callers)
	if err != nil {
		return nil, err
	}
	aggregator, err := controlplaneapiserver.CreateAggregatorConfig(*plane.Generic, o.CompletedOptions, plane.VersionedInformers, services, plane.ProxyTransport, plane.Extra.PeerProxy, initializers)
	if err != nil {
		return nil, err
	}
	return &app.Config{Options: o, Aggregator: aggregator, KubeAPIs: kube, ApiExtensions: extensions}, nil
}
