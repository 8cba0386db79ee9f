// SPDX-License-Identifier: Apache-2.0

// Package controllers is the one list of controllers. The program that runs them
// provides their dependencies: a manager provides an API server, informers and
// queues, a world in memory (package sim) a store, and a clock that it steps.
//
// Gates are Capstan's feature gates, by upstream's names where upstream has them. All are
// enabled by default. Without a feature, its controllers do not run, and admission refuses
// the objects and fields that they would act on.
package controllers

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"strings"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	addonsv1 "github.com/capstan-dev/capstan/api/addons/v1beta2"
	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	infrav1 "github.com/capstan-dev/capstan/api/infrastructure/v1beta2"
	ipamv1 "github.com/capstan-dev/capstan/api/ipam/v1beta2"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
	runtimev1 "github.com/capstan-dev/capstan/api/runtime/v1beta2"
	"github.com/capstan-dev/capstan/extension/catalog"
	"github.com/capstan-dev/capstan/internal/access/apply"
	"github.com/capstan-dev/capstan/internal/access/classes"
	"github.com/capstan-dev/capstan/internal/access/etcd"
	"github.com/capstan-dev/capstan/internal/access/extensions"
	"github.com/capstan-dev/capstan/internal/access/localinfra"
	"github.com/capstan-dev/capstan/internal/access/podforward"
	"github.com/capstan-dev/capstan/internal/access/resourcesets"
	"github.com/capstan-dev/capstan/internal/access/secretwatch"
	"github.com/capstan-dev/capstan/internal/controller/certificate"
	"github.com/capstan-dev/capstan/internal/controller/cluster"
	"github.com/capstan-dev/capstan/internal/controller/clusterclass"
	"github.com/capstan-dev/capstan/internal/controller/clusterresourceset"
	"github.com/capstan-dev/capstan/internal/controller/clusterresourcesetbinding"
	"github.com/capstan-dev/capstan/internal/controller/crdmigrator"
	"github.com/capstan-dev/capstan/internal/controller/extensionconfig"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmconfig"
	"github.com/capstan-dev/capstan/internal/controller/kubeadmcontrolplane"
	"github.com/capstan-dev/capstan/internal/controller/localcluster"
	"github.com/capstan-dev/capstan/internal/controller/localmachine"
	"github.com/capstan-dev/capstan/internal/controller/localmachinepool"
	"github.com/capstan-dev/capstan/internal/controller/machine"
	"github.com/capstan-dev/capstan/internal/controller/machinedeployment"
	"github.com/capstan-dev/capstan/internal/controller/machinehealthcheck"
	"github.com/capstan-dev/capstan/internal/controller/machinepool"
	"github.com/capstan-dev/capstan/internal/controller/machineset"
	"github.com/capstan-dev/capstan/internal/controller/topology"
	"github.com/capstan-dev/capstan/internal/deps"
	"github.com/capstan-dev/capstan/internal/kit/controller"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

// Providers that can be chosen.
const (
	Core    = "core"    // clusters, machines and their sets
	Kubeadm = "kubeadm" // bootstrap data and control planes by kubeadm
	Local   = "local"   // machines of the local provider

	// Certificates issues certificates and injects their authorities, as
	// cert-manager does in other clusters. Only a management plane has it: in other
	// clusters cert-manager may be installed at any time.
	Certificates = "certificates"
)

// Providers are the providers that can be chosen, and the default.
func Providers() []string { return []string{Core, Kubeadm, Local} }

// PlaneProviders are the providers of a management plane.
func PlaneProviders() []string { return append(Providers(), Certificates) }

// ClusterAPI reports whether any of the providers is one of Cluster API: a plane
// may run none, and leave that to Pods.
func ClusterAPI(providers []string) bool {
	return slices.ContainsFunc(providers, func(p string) bool { return slices.Contains(Providers(), p) })
}

// Outside has the dependencies of the controllers. A dependency that only the
// controllers of one provider need may be missing if that provider is not chosen.
type Outside struct {
	deps.Deps // without Recorder and Deprecated
	// Recorders returns the recorder of events of a controller.
	Recorders func(controller string) events.EventRecorder

	Etcd etcd.Connector // of workload clusters; for Kubeadm
	// CertificateExpiry returns when the certificate of an API server of a workload
	// cluster expires; for Kubeadm.
	CertificateExpiry func(context.Context, podforward.Target) (time.Time, error)
	Backends          localinfra.Backends // for Local
	Payloads          *resourcesets.Store // the content that is applied to workload clusters; for Core
	Classes           *classes.Classes
	Schemas           *apply.Schemas
	Secrets           *secretwatch.Watches // of Secrets that objects name; nil watches none

	Extensions Extensions // for Core and Kubeadm

	Features      Gates               // of which kinds there are any
	Sync          nodesync.Additional // from Machines to Nodes
	SkipMigration crdmigrator.Phases  // of leftovers of old versions

	// APIServerCA is the authority of the API server, in PEM; for Certificates.
	APIServerCA []byte
	Random      func() float64 // in [0,1)
	NewToken    func() (bootstrapv1.BootstrapTokenString, error)
}

// of returns the dependencies of a controller.
func (o Outside) of(controller string) deps.Deps {
	d := o.Deps
	d.Recorder, d.Deprecated = o.Recorders(controller), o.Features.Enabled(GateDeprecatedV1Beta1Status)
	return d
}

// Extensions find and call runtime extensions.
type Extensions struct {
	Catalog  *catalog.Catalog
	Registry extensionconfig.Registry
	Client   interface {
		extensionconfig.Extensions
		clusterclass.Extensions
		topology.Extensions
	}
	Updates extensions.InPlaceHooks // of Machines in place
}

// Controller is an entry of the list.
type Controller struct {
	Provider string
	Name     string        // that of its kind, in lower case, unless another controller has it
	Kind     client.Object // empty; of what it reconciles

	// Gate is the feature without which it does not run; "" if it always does. A
	// controller that finishes still runs for objects that are being deleted: they
	// have its finalizer, and the deletion of a Cluster waits for them.
	Gate     string
	Finishes bool

	// Setup registers it with a manager.
	Setup func(context.Context, ctrl.Manager, Outside) error
	// Stepped builds one for a caller that calls it for each object.
	Stepped func(Outside) controller.Stepped
}

// All lists the controllers, in the order in which a world steps them.
func All() []Controller {
	return append([]Controller{
		entry(Core, &clusterv1.Cluster{}, func(o Outside, name string) reconciler[*clusterv1.Cluster] {
			return &cluster.Reconciler{Deps: o.of(name)}
		}),
		entryAs(topology.Name, Core, &clusterv1.Cluster{}, func(o Outside, name string) reconciler[*clusterv1.Cluster] {
			d := o.of(name)
			d.Debounce = d.Debounce.Sibling()
			return &topology.Reconciler{Deps: d, Classes: o.Classes, Schemas: o.Schemas, Extensions: o.Extensions.Client}
		}).gated(GateClusterTopology).finishing(),
		entry(Core, &clusterv1.ClusterClass{}, func(o Outside, name string) reconciler[*clusterv1.ClusterClass] {
			return &clusterclass.Reconciler{Deps: o.of(name), Extensions: o.Extensions.Client}
		}).gated(GateClusterTopology),
		entry(Local, &infrav1.LocalCluster{}, func(o Outside, name string) reconciler[*infrav1.LocalCluster] {
			return &localcluster.Reconciler{Deps: o.of(name), Backends: o.Backends}
		}),
		entry(Kubeadm, &controlplanev1.KubeadmControlPlane{}, func(o Outside, name string) reconciler[*controlplanev1.KubeadmControlPlane] {
			return &kubeadmcontrolplane.Reconciler{Deps: o.of(name), Etcd: o.Etcd, Extensions: o.Extensions.Updates, CertificateExpiry: o.CertificateExpiry}
		}),
		entry(Core, &clusterv1.MachineDeployment{}, func(o Outside, name string) reconciler[*clusterv1.MachineDeployment] {
			return &machinedeployment.Reconciler{Deps: o.of(name), Extensions: o.Extensions.Updates}
		}),
		entry(Core, &clusterv1.MachineSet{}, func(o Outside, name string) reconciler[*clusterv1.MachineSet] {
			return &machineset.Reconciler{Deps: o.of(name)}
		}),
		entry(Core, &clusterv1.MachinePool{}, func(o Outside, name string) reconciler[*clusterv1.MachinePool] {
			return &machinepool.Reconciler{Deps: o.of(name)}
		}).gated(GateMachinePool).finishing(),
		entry(Core, &clusterv1.Machine{}, func(o Outside, name string) reconciler[*clusterv1.Machine] {
			return &machine.Reconciler{Deps: o.of(name), Extensions: o.Extensions.Updates, Sync: o.Sync}
		}),
		entry(Core, &clusterv1.MachineHealthCheck{}, func(o Outside, name string) reconciler[*clusterv1.MachineHealthCheck] {
			return &machinehealthcheck.Reconciler{Deps: o.of(name)}
		}),
		entry(Kubeadm, &bootstrapv1.KubeadmConfig{}, func(o Outside, name string) reconciler[*bootstrapv1.KubeadmConfig] {
			return &kubeadmconfig.Reconciler{Deps: o.of(name), NewToken: o.NewToken}
		}),
		entry(Local, &infrav1.LocalMachinePool{}, func(o Outside, name string) reconciler[*infrav1.LocalMachinePool] {
			return &localmachinepool.Reconciler{Deps: o.of(name), Backends: o.Backends}
		}).gated(GateMachinePool).finishing(),
		entry(Local, &infrav1.LocalMachine{}, func(o Outside, name string) reconciler[*infrav1.LocalMachine] {
			return &localmachine.Reconciler{Deps: o.of(name), Backends: o.Backends}
		}),
		entry(Local, &infrav1.LocalMachineTemplate{}, func(o Outside, name string) reconciler[*infrav1.LocalMachineTemplate] {
			return &localmachine.TemplateReconciler{Deps: o.of(name), Backends: o.Backends}
		}),
		entry(Core, &addonsv1.ClusterResourceSet{}, func(o Outside, name string) reconciler[*addonsv1.ClusterResourceSet] {
			return &clusterresourceset.Reconciler{Deps: o.of(name), Payloads: o.Payloads}
		}),
		entry(Core, &addonsv1.ClusterResourceSetBinding{}, func(o Outside, name string) reconciler[*addonsv1.ClusterResourceSetBinding] {
			return &clusterresourcesetbinding.Reconciler{Deps: o.of(name), Payloads: o.Payloads}
		}),
		entry(Core, &runtimev1.ExtensionConfig{}, func(o Outside, name string) reconciler[*runtimev1.ExtensionConfig] {
			return extensionConfigs(o, name)
		}).gated(GateRuntimeSDK),
		migrator(Core), migrator(Kubeadm), migrator(Local),
	}, certificates()...)
}

// certificates returns the controllers of Certificates. Their definitions have only
// ever had one version: no migration is needed.
func certificates() []Controller {
	all := []Controller{
		entry(Certificates, &certmanagerv1.Issuer{}, func(o Outside, name string) reconciler[*certmanagerv1.Issuer] {
			return &certificate.IssuerReconciler[*certmanagerv1.Issuer]{Name: name, Kind: &certmanagerv1.Issuer{}, Mgmt: o.Mgmt, Live: o.Live, Clock: o.Clock, Secrets: o.Secrets.Follower()}
		}),
		entry(Certificates, &certmanagerv1.ClusterIssuer{}, func(o Outside, name string) reconciler[*certmanagerv1.ClusterIssuer] {
			return &certificate.IssuerReconciler[*certmanagerv1.ClusterIssuer]{Name: name, Kind: &certmanagerv1.ClusterIssuer{}, Mgmt: o.Mgmt, Live: o.Live, Clock: o.Clock, Secrets: o.Secrets.Follower()}
		}),
		entry(Certificates, &certmanagerv1.Certificate{}, func(o Outside, name string) reconciler[*certmanagerv1.Certificate] {
			return &certificate.Reconciler{Mgmt: o.Mgmt, Live: o.Live, Clock: o.Clock, Recorder: o.Recorders(name), Secrets: o.Secrets.Follower()}
		}),
	}
	for name, kind := range certificate.InjectedKinds() {
		all = append(all, entryAs(name, Certificates, certificate.InjectedObject(kind), func(o Outside, name string) reconciler[*metav1.PartialObjectMetadata] {
			return &certificate.InjectionReconciler{Name: name, Kind: kind, Mgmt: o.Mgmt, Live: o.Live, Recorder: o.Recorders(name), Secrets: o.Secrets.Follower(), APIServer: o.APIServerCA}
		}))
	}
	return all
}

// migrator returns the controller of the definitions of a provider's kinds.
func migrator(of string) Controller {
	return entryAs("crdmigrator-"+of, of, crdmigrator.Definition(), func(o Outside, name string) reconciler[*metav1.PartialObjectMetadata] {
		return &crdmigrator.Reconciler{Name: name, Mgmt: o.Mgmt, Live: o.Live, Definitions: Definitions(of, o.Features), Skip: o.SkipMigration, Recorder: o.Recorders(name)}
	})
}

func (c Controller) gated(feature string) Controller {
	c.Gate = feature
	return c
}

func (c Controller) finishing() Controller {
	c.Finishes = true
	return c
}

func extensionConfigs(o Outside, name string) *extensionconfig.Reconciler {
	return &extensionconfig.Reconciler{Deps: o.of(name), Secrets: o.Secrets.Follower(), Extensions: o.Extensions.Client, Registry: o.Extensions.Registry, Catalog: o.Extensions.Catalog, Random: o.Random}
}

// ExtensionFollower replaces the controller of ExtensionConfigs where that runs in
// another process, with Core: this process calls the extensions that Kubeadm needs.
func ExtensionFollower() Controller {
	return entry(Kubeadm, &runtimev1.ExtensionConfig{}, func(o Outside, name string) reconciler[*runtimev1.ExtensionConfig] {
		r := extensionConfigs(o, name)
		r.Follow = true
		return r
	}).gated(GateRuntimeSDK)
}

// reconciler is the interface of the controllers' packages.
type reconciler[T client.Object] interface {
	reconcile.ObjectReconciler[T]
	Setup(context.Context, ctrl.Manager) error
}

// entry returns a controller that is named after its kind.
func entry[T client.Object](of string, kind T, build func(Outside, string) reconciler[T]) Controller {
	return entryAs(strings.ToLower(reflect.TypeOf(kind).Elem().Name()), of, kind, build)
}

func entryAs[T client.Object](name, of string, kind T, build func(Outside, string) reconciler[T]) Controller {
	return Controller{
		Provider: of, Name: name, Kind: kind,
		Setup: func(ctx context.Context, mgr ctrl.Manager, o Outside) error { return build(o, name).Setup(ctx, mgr) },
		Stepped: func(o Outside) controller.Stepped {
			return controller.Step(name, kind, build(o, name), o.Mgmt, o.Clock)
		},
	}
}

// Scheme returns a scheme with the types of all objects that controllers and
// webhooks use.
func Scheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		admissionregistrationv1.AddToScheme(scheme),
		corev1.AddToScheme(scheme),
		clusterv1.AddToScheme(scheme),
		bootstrapv1.AddToScheme(scheme),
		certmanagerv1.AddToScheme(scheme),
		controlplanev1.AddToScheme(scheme),
		infrav1.AddToScheme(scheme),
		addonsv1.AddToScheme(scheme),
		planv1.AddToScheme(scheme),
		ipamv1.AddToScheme(scheme), // a webhook reads claims
		runtimev1.AddToScheme(scheme),
		discoveryv1.AddToScheme(scheme),
		apiextensionsv1.AddToScheme(scheme),
	)
}

// definitions are the names of those of each provider, each with the feature
// without which there are no objects of it.
var definitions = map[string][]struct{ name, gate string }{
	Core: {
		{"clusterclasses.cluster.x-k8s.io", GateClusterTopology},
		{"clusters.cluster.x-k8s.io", ""},
		{"machinedeployments.cluster.x-k8s.io", ""},
		{"machinedrainrules.cluster.x-k8s.io", ""},
		{"machinehealthchecks.cluster.x-k8s.io", ""},
		{"machinepools.cluster.x-k8s.io", GateMachinePool},
		{"machines.cluster.x-k8s.io", ""},
		{"machinesets.cluster.x-k8s.io", ""},
		{"clusterresourcesetbindings.addons.cluster.x-k8s.io", ""},
		{"clusterresourcesets.addons.cluster.x-k8s.io", ""},
		{"ipaddressclaims.ipam.cluster.x-k8s.io", ""},
		{"ipaddresses.ipam.cluster.x-k8s.io", ""},
		{"planguards.plan.capstan.dev", ""},
		{"extensionconfigs.runtime.cluster.x-k8s.io", GateRuntimeSDK},
	},
	Kubeadm: {
		{"kubeadmconfigs.bootstrap.cluster.x-k8s.io", ""},
		{"kubeadmconfigtemplates.bootstrap.cluster.x-k8s.io", ""},
		{"kubeadmcontrolplanes.controlplane.cluster.x-k8s.io", ""},
		{"kubeadmcontrolplanetemplates.controlplane.cluster.x-k8s.io", ""},
	},
	Local: {
		{"localclusters.infrastructure.capstan.dev", ""},
		{"localclustertemplates.infrastructure.capstan.dev", ""},
		{"localmachinepools.infrastructure.capstan.dev", GateMachinePool},
		{"localmachinepooltemplates.infrastructure.capstan.dev", GateMachinePool},
		{"localmachines.infrastructure.capstan.dev", ""},
		{"localmachinetemplates.infrastructure.capstan.dev", ""},
	},
}

// Definitions returns the names of the CustomResourceDefinitions whose objects a
// provider stores at their present version.
func Definitions(of string, gates Gates) (names []string) {
	for _, d := range definitions[of] {
		if gates.Enabled(d.gate) {
			names = append(names, d.name)
		}
	}
	return names
}
