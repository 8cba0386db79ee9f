// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	hooksv1 "github.com/capstan-dev/capstan/api/hooks/v1alpha1"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/host"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/app/controllers"
	"github.com/capstan-dev/capstan/internal/simulated"
	"github.com/capstan-dev/capstan/manifests"
)

// New makes a world in which all of Capstan's controllers run on simulated
// machines.
func New(t testing.TB) *World {
	t.Helper()
	scheme, err := controllers.Scheme()
	crds, crdErr := manifests.CRDs()
	if err := errors.Join(err, crdErr, apiextensionsv1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var installed []client.Object
	for _, crd := range crds {
		installed = append(installed, crd)
	}
	w := newWorld(t, scheme, []client.ObjectList{
		&clusterv1.ClusterList{}, &infrav1.LocalClusterList{}, &controlplanev1.KubeadmControlPlaneList{}, &clusterv1.MachineDeploymentList{},
		&clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &clusterv1.MachinePoolList{}, &bootstrapv1.KubeadmConfigList{}, &infrav1.LocalMachineList{},
		&infrav1.LocalMachineTemplateList{}, &bootstrapv1.KubeadmConfigTemplateList{}, &corev1.SecretList{}, &corev1.ConfigMapList{}, &runtimev1.ExtensionConfigList{},
	}, installed)
	backend, err := simulated.New(simulated.Options{Dir: t.TempDir(), Clock: w.Clock, Log: logr.Discard(), Random: func() float64 { return 0 }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := backend.Close(); err != nil {
			t.Errorf("close the simulated machines: %v", err)
		}
	})
	w.run(host.Backends{Simulated: backend})
	return w
}

// run adds the controllers.
func (w *World) run(backends host.Backends) {
	known := catalog.Default()
	outside := controllers.Outside{
		Mgmt: w.Mgmt, Live: w.Mgmt, Providers: provider.New(w.Mgmt, nil),
		Workload: &connections{mgmt: w.Mgmt, clock: w.Clock, open: map[client.ObjectKey]client.Client{}}, Etcd: &etcd.Dialer{Clock: w.Clock},
		Backends: backends, Extensions: controllers.Extensions{Catalog: known, Registry: extensions.NewRegistry(known), Client: unasked{}},
		Clock: w.Clock, Recorder: func(string) events.EventRecorder { return w }, Name: w.Name, Random: func() float64 { return 0.5 },
	}
	for _, c := range controllers.All() {
		w.controllers = append(w.controllers, entry{c, c.Stepped(outside)})
	}
}

// unasked stands for runtime extensions, none of which is reached from here.
type unasked struct{}

// Discover implements extensionconfig.Extensions.
func (unasked) Discover(_ context.Context, config *runtimev1.ExtensionConfig) (*hooksv1.DiscoveryResponse, error) {
	return nil, fmt.Errorf("extension %s is not asked in a simulation", config.Name)
}
