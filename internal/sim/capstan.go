// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"testing"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/provider"
	"github.com/capstan-dev/capstan/internal/controller/cluster"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/controller/localcluster"
	"github.com/capstan-dev/capstan/internal/controller/localmachine"
	"github.com/capstan-dev/capstan/internal/controller/machine"
	"github.com/capstan-dev/capstan/internal/controller/machinedeployment"
	"github.com/capstan-dev/capstan/internal/controller/machineset"
	"github.com/capstan-dev/capstan/internal/simulated"
	"github.com/capstan-dev/capstan/manifests"
)

// New makes a world in which all of Capstan's controllers run on simulated
// machines.
func New(t testing.TB) *World {
	t.Helper()
	scheme := runtime.NewScheme()
	crds, err := manifests.CRDs()
	if err := errors.Join(err,
		corev1.AddToScheme(scheme), apiextensionsv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme),
		bootstrapv1.AddToScheme(scheme), controlplanev1.AddToScheme(scheme), infrav1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var installed []client.Object
	for _, crd := range crds {
		installed = append(installed, crd)
	}
	w := newWorld(t, scheme, []client.ObjectList{
		&clusterv1.ClusterList{}, &infrav1.LocalClusterList{}, &controlplanev1.KubeadmControlPlaneList{}, &clusterv1.MachineDeploymentList{},
		&clusterv1.MachineSetList{}, &clusterv1.MachineList{}, &clusterv1.MachinePoolList{}, &bootstrapv1.KubeadmConfigList{}, &infrav1.LocalMachineList{},
		&infrav1.LocalMachineTemplateList{}, &bootstrapv1.KubeadmConfigTemplateList{}, &corev1.SecretList{}, &corev1.ConfigMapList{},
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
	w.run(backend)
	return w
}

// run adds the controllers.
func (w *World) run(backend *simulated.Backend) {
	providers := provider.New(w.Mgmt, nil)
	clusters := &connections{mgmt: w.Mgmt, clock: w.Clock, open: map[client.ObjectKey]client.Client{}}
	add(w, "cluster", &clusterv1.ClusterList{}, &cluster.Reconciler{Mgmt: w.Mgmt, Live: w.Mgmt, Providers: providers, Workload: clusters, Clock: w.Clock, Recorder: w})
	add(w, "localcluster", &infrav1.LocalClusterList{}, &localcluster.Reconciler{Mgmt: w.Mgmt, Backend: backend, Clock: w.Clock, Recorder: w})
	add(w, "kubeadmcontrolplane", &controlplanev1.KubeadmControlPlaneList{}, &kubeadmcontrolplane.Reconciler{
		Mgmt: w.Mgmt, Live: w.Mgmt, Providers: providers, Workload: clusters, Etcd: &etcd.Dialer{Clock: w.Clock}, Clock: w.Clock, Recorder: w, Name: w.Name,
	})
	add(w, "machinedeployment", &clusterv1.MachineDeploymentList{}, &machinedeployment.Reconciler{
		Mgmt: w.Mgmt, Providers: providers, Clock: w.Clock, Recorder: w, Name: w.Name,
	})
	add(w, "machineset", &clusterv1.MachineSetList{}, &machineset.Reconciler{
		Mgmt: w.Mgmt, Live: w.Mgmt, Providers: providers, Clock: w.Clock, Recorder: w, Name: w.Name,
	})
	add(w, "machine", &clusterv1.MachineList{}, &machine.Reconciler{Mgmt: w.Mgmt, Providers: providers, Workload: clusters, Clock: w.Clock, Recorder: w})
	add(w, "kubeadmconfig", &bootstrapv1.KubeadmConfigList{}, &kubeadmconfig.Reconciler{Mgmt: w.Mgmt, Live: w.Mgmt, Providers: providers, Workload: clusters, Clock: w.Clock})
	add(w, "localmachine", &infrav1.LocalMachineList{}, &localmachine.Reconciler{Mgmt: w.Mgmt, Live: w.Mgmt, Backend: backend, Clock: w.Clock, Recorder: w})
}
