// SPDX-License-Identifier: Apache-2.0

// Package manifests has the objects that an API server needs before Capstan's controllers
// can use it: the CustomResourceDefinitions of all groups, generated from the types in
// api, and the ClusterRoles of the manager.
package manifests

import (
	"embed"
	"fmt"
	"io/fs"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	certmanagerv1 "github.com/capstan-dev/capstan/api/certmanager/v1"
	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	planv1 "github.com/capstan-dev/capstan/api/plan/v1alpha1"
)

//go:generate ./generate.sh

//go:embed crd/*.yaml
var crds embed.FS

//go:embed certificates/*.yaml
var certificates embed.FS

//go:embed rbac/*.yaml
var roles embed.FS

const (
	// ManagerRole is the ClusterRole to bind the manager's user or service
	// account to. The API server's role aggregation fills it from every
	// ClusterRole with the label AggregateLabel.
	ManagerRole = "capstan-manager"

	// AggregateLabel with the value "true" on a ClusterRole makes its rules part of
	// ManagerRole. Infrastructure, bootstrap and control plane providers with their own
	// group ship such a role.
	AggregateLabel = "cluster.x-k8s.io/aggregate-to-manager"
)

const (
	// Namespace is where Capstan stores what belongs to no Cluster: the authority of the
	// webhooks, and the inventory of the providers that a plane or a manager runs.
	Namespace = "capstan-system"

	// RunByAnnotation on an object of the inventory names the program that runs the
	// provider; without it, it is a plane.
	RunByAnnotation = "capstan.dev/run-by"

	// Release is the Cluster API release whose API these manifests have, for programs
	// that ask which version of a provider is installed.
	Release = "v1.14.2"
)

const (
	providerLabel = "cluster.x-k8s.io/provider"
	contractLabel = "cluster.x-k8s.io/v1beta2"

	oldContractLabel = "cluster.x-k8s.io/v1beta1"
)

// providers maps each group to the provider of its CRDs, by clusterctl's names of
// providers.
var providers = map[string]string{
	"cluster.x-k8s.io":              "cluster-api",
	"addons.cluster.x-k8s.io":       "cluster-api",
	"ipam.cluster.x-k8s.io":         "cluster-api",
	"runtime.cluster.x-k8s.io":      "cluster-api",
	"plan.capstan.dev":              "cluster-api",
	"bootstrap.cluster.x-k8s.io":    "bootstrap-kubeadm",
	"controlplane.cluster.x-k8s.io": "control-plane-kubeadm",
	"infrastructure.capstan.dev":    "infrastructure-local",
}

// namedByClasses are the groups whose kinds a ClusterClass may name at v1beta1, which
// then has to implement a contract.
var namedByClasses = []string{"bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

// RunByManager reports, from the annotations of an inventory object, whether
// capstan-manager runs that provider in a cluster, where a plane runs only its own
// providers.
func RunByManager(annotations map[string]string) bool {
	return annotations[RunByAnnotation] == ManagerRole
}

// CRDs returns the CustomResourceDefinitions of all groups, sorted by name, with the
// labels that contracts and clusterctl require. The caller may change them. Kinds that
// have old versions are served at them: the caller that installs the definitions
// configures the conversion of their objects.
func CRDs() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := decode[apiextensionsv1.CustomResourceDefinition](crds, "crd/*.yaml")
	if err != nil {
		return nil, err
	}
	for _, crd := range all {
		if err := label(crd); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// Certificates returns the CustomResourceDefinitions of certificates and their issuers,
// sorted by name, which are only for planes. They belong to no provider, so that
// clusterctl does not treat them as one, and a label names their owner. The caller may
// change them.
func Certificates() ([]*apiextensionsv1.CustomResourceDefinition, error) {
	all, err := decode[apiextensionsv1.CustomResourceDefinition](certificates, "certificates/*.yaml")
	for _, crd := range all {
		crd.Labels = map[string]string{certmanagerv1.DefinitionLabel: "capstan"}
	}
	return all, err
}

// label sets the labels of a CRD: that by which clusterctl's move finds it, its provider,
// and which of its versions implement the contract.
func label(crd *apiextensionsv1.CustomResourceDefinition) error {
	if crd.Labels == nil {
		crd.Labels = map[string]string{}
	}
	if crd.Spec.Group == planv1.GroupVersion().Group {
		// No contract has its kinds, and they are about Machines of this management cluster.
		crd.Labels[providerLabel] = providers[crd.Spec.Group]
		return nil
	}
	crd.Labels[clusterctlv1.ClusterctlLabel] = ""
	if crd.Spec.Group == clusterctlv1.GroupVersion().Group {
		crd.Labels[clusterctlv1.ClusterctlCoreLabel] = clusterctlv1.ClusterctlCoreLabelInventoryValue
		return nil
	}
	provider, ok := providers[crd.Spec.Group]
	if !ok {
		return fmt.Errorf("label CRD %s: group %s belongs to no provider", crd.Name, crd.Spec.Group)
	}
	crd.Labels[providerLabel] = provider
	crd.Labels[contractLabel] = "v1beta2"
	if slices.Contains(namedByClasses, crd.Spec.Group) {
		crd.Labels[oldContractLabel] = "v1beta1"
	}
	return nil
}

// RBAC returns the ClusterRoles of the manager, sorted by name: ManagerRole,
// which is empty and gets its rules by aggregation, and the roles it is
// aggregated from, one per provider. The caller may change them.
func RBAC() ([]*rbacv1.ClusterRole, error) {
	return decode[rbacv1.ClusterRole](roles, "rbac/*.yaml")
}

func decode[T any](from embed.FS, pattern string) ([]*T, error) {
	names, err := fs.Glob(from, pattern)
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", pattern, err)
	}
	all := make([]*T, 0, len(names))
	for _, name := range names {
		data, err := from.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		obj := new(T)
		if err := yaml.UnmarshalStrict(data, obj); err != nil {
			return nil, fmt.Errorf("decode %s: %w", name, err)
		}
		all = append(all, obj)
	}
	return all, nil
}
