// SPDX-License-Identifier: Apache-2.0

package topology

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/extensions/transport"
	"github.com/capstan-dev/capstan/internal/access/services"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
)

// asker calls the extensions that a plane has registered. The hooks of patches and
// variables only compute: an extension changes nothing when it is called.
type asker struct {
	context.Context
	plane   *Plane
	cluster *clusterv1.Cluster
	calls   *extensions.Client // nil until the first call
	pool    *transport.Pool
}

// open reads which extensions are registered.
func (a *asker) open() (err error) {
	if a.calls != nil {
		return nil
	}
	var configs runtimev1.ExtensionConfigList
	if err := a.plane.mgmt.List(a, &configs); err != nil {
		return fmt.Errorf("list ExtensionConfigs, which say where extensions are: %w", err)
	}
	known := catalog.Default()
	registry := extensions.NewRegistry(known)
	registry.Expect() // only those
	for i := range configs.Items {
		if err := registry.Set(&configs.Items[i]); err != nil {
			return err
		}
	}
	if a.pool, err = transport.New(transport.Options{Services: &services.Resolver{Live: a.plane.mgmt, Choose: rand.IntN}}); err != nil {
		return err
	}
	a.calls, err = extensions.New(extensions.Options{
		Catalog: known, Registry: registry, Transport: a.pool, Metrics: prometheus.NewRegistry(),
		Namespaces: func(ctx context.Context, name string) (map[string]string, error) {
			namespace := &corev1.Namespace{}
			err := a.plane.mgmt.Get(ctx, client.ObjectKey{Name: name}, namespace)
			return namespace.Labels, err
		},
	})
	return err
}

// close closes the connections to extensions.
func (a *asker) close() {
	if a.pool != nil {
		a.pool.Close()
	}
}

func (a *asker) ask(hook any, name string, request hooksv1.RequestObject, response hooksv1.ResponseObject) error {
	if err := a.open(); err != nil {
		return err
	}
	return a.calls.CallExtension(a, hook, a.cluster, name, request, response)
}

// GeneratePatches implements desired.Extensions.
func (a *asker) GeneratePatches(q patches.Question) (*hooksv1.GeneratePatchesResponse, error) {
	response := &hooksv1.GeneratePatchesResponse{}
	return response, a.ask(hooksv1.GeneratePatches, q.Extension, q.Request, response)
}

// ValidateTopology implements desired.Extensions.
func (a *asker) ValidateTopology(v patches.Validation) error {
	return a.ask(hooksv1.ValidateTopology, v.Extension, v.Request, &hooksv1.ValidateTopologyResponse{})
}

// discover requests the variables that a patch defines.
func (a *asker) discover(p clusterv1.ExternalPatchDefinition) ([]clusterv1.ClusterClassVariable, error) {
	request, response := &hooksv1.DiscoverVariablesRequest{}, &hooksv1.DiscoverVariablesResponse{}
	request.SetSettings(p.Settings)
	err := a.ask(hooksv1.DiscoverVariables, p.DiscoverVariablesExtension, request, response)
	return response.Variables, err
}
