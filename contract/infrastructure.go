// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
)

// ReadyCondition is the condition that infrastructure and bootstrap objects
// report, and that the core mirrors.
const ReadyCondition = "Ready"

// InfraCluster lists the fields of an infrastructure cluster.
type InfraCluster struct {
	Provisioned          Field[bool]
	ControlPlaneEndpoint Field[clusterv1.APIEndpoint]
	// FailureDomains are sorted by name, and each reports whether it is for control planes.
	FailureDomains Field[[]clusterv1.FailureDomain]
}

var infraClusters = map[string]InfraCluster{
	V1Beta1: {
		Provisioned:          At[bool]("status.ready"),
		ControlPlaneEndpoint: At[clusterv1.APIEndpoint]("spec.controlPlaneEndpoint").within(endpoint),
		FailureDomains:       through("status.failureDomains", failureDomainsFromMap, failureDomainsToMap).within(failureDomains),
	},
	V1Beta2: {
		Provisioned:          At[bool]("status.initialization.provisioned"),
		ControlPlaneEndpoint: At[clusterv1.APIEndpoint]("spec.controlPlaneEndpoint").within(endpoint),
		FailureDomains:       through("status.failureDomains", failureDomainsFromList, failureDomainsToList).within(failureDomains),
	},
}

// InfraClusterFor returns the fields of a contract version.
func InfraClusterFor(version string) (InfraCluster, error) {
	return pick("infrastructure clusters", version, infraClusters)
}

// failureDomainsFromList sorts them by name, since a provider may report them in any
// order: for its users the list is the same.
func failureDomainsFromList(raw any) (list []clusterv1.FailureDomain, err error) {
	if err := convert(raw, &list); err != nil {
		return nil, err
	}
	for i := range list {
		if list[i].ControlPlane == nil {
			list[i].ControlPlane = new(false)
		}
	}
	slices.SortStableFunc(list, func(a, b clusterv1.FailureDomain) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// failureDomainsFromMap reads the older form, a map by name.
func failureDomainsFromMap(raw any) ([]clusterv1.FailureDomain, error) {
	byName := map[string]clusterv1.FailureDomain{}
	if err := convert(raw, &byName); err != nil {
		return nil, err
	}
	list := make([]clusterv1.FailureDomain, 0, len(byName))
	for name, d := range byName {
		d.Name = name
		list = append(list, d)
	}
	return failureDomainsFromList(list)
}

func failureDomainsToList(list []clusterv1.FailureDomain) any {
	out := make([]any, len(list))
	for i, d := range list {
		entry := failureDomain(d)
		entry["name"] = d.Name
		out[i] = entry
	}
	return out
}

func failureDomainsToMap(list []clusterv1.FailureDomain) any {
	byName := map[string]any{}
	for _, d := range list {
		byName[d.Name] = failureDomain(d)
	}
	return byName
}

// failureDomain is a failure domain without its name.
func failureDomain(d clusterv1.FailureDomain) map[string]any {
	entry := map[string]any{}
	if d.ControlPlane != nil {
		entry["controlPlane"] = *d.ControlPlane
	}
	if len(d.Attributes) > 0 {
		attributes := map[string]any{}
		for k, v := range d.Attributes {
			attributes[k] = v
		}
		entry["attributes"] = attributes
	}
	return entry
}

// InfraMachine lists the fields of an infrastructure machine.
type InfraMachine struct {
	Provisioned   Field[bool]
	ProviderID    Field[string]
	Addresses     Field[clusterv1.MachineAddresses]
	FailureDomain Field[string]
	// WantedFailureDomain is the older field, which was copied to the Machine's spec.
	WantedFailureDomain Field[string]
	// Interruptible means that the infrastructure may delete the machine.
	Interruptible Field[bool]
}

var infraMachines = map[string]InfraMachine{
	V1Beta1: infraMachine("status.ready"),
	V1Beta2: infraMachine("status.initialization.provisioned"),
}

func infraMachine(provisioned string) InfraMachine {
	return InfraMachine{
		Provisioned:         At[bool](provisioned),
		ProviderID:          At[string]("spec.providerID").within(atMost(maxProviderID)),
		Addresses:           At[clusterv1.MachineAddresses]("status.addresses").within(addresses),
		FailureDomain:       At[string]("status.failureDomain").within(atMost(maxFailureDomain)),
		WantedFailureDomain: At[string]("spec.failureDomain").within(atMost(maxFailureDomain)),
		Interruptible:       At[bool]("status.interruptible"),
	}
}

// InfraMachineFor returns the fields of a contract version.
func InfraMachineFor(version string) (InfraMachine, error) {
	return pick("infrastructure machines", version, infraMachines)
}

// InfraMachineTemplate lists the fields of a template of infrastructure machines for
// autoscaling from zero, in addition to the Template itself.
type InfraMachineTemplate struct {
	Template Template
	Capacity Field[corev1.ResourceList]
	NodeInfo Field[TemplateNodeInfo]
}

// TemplateNodeInfo describes the Nodes of machines created from a template.
type TemplateNodeInfo struct {
	Architecture    string `json:"architecture,omitempty"`
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

var infraMachineTemplates = map[string]InfraMachineTemplate{V1Beta1: infraMachineTemplate, V1Beta2: infraMachineTemplate}

var infraMachineTemplate = InfraMachineTemplate{
	Template: anyTemplate,
	Capacity: At[corev1.ResourceList]("status.capacity"),
	NodeInfo: At[TemplateNodeInfo]("status.nodeInfo"),
}

// InfraMachineTemplateFor returns the fields of a contract version.
func InfraMachineTemplateFor(version string) (InfraMachineTemplate, error) {
	return pick("infrastructure machine templates", version, infraMachineTemplates)
}

// InfraMachinePool lists the fields of an infrastructure machine pool.
type InfraMachinePool struct {
	Provisioned    Field[bool]
	ProviderIDList Field[[]string]
	Replicas       Field[int32]
	// MachineKind is set by pools that create one infrastructure machine for each
	// replica.
	MachineKind Field[string]
}

var infraMachinePools = map[string]InfraMachinePool{
	V1Beta1: infraMachinePool("status.ready"),
	V1Beta2: infraMachinePool("status.initialization.provisioned"),
}

func infraMachinePool(provisioned string) InfraMachinePool {
	return InfraMachinePool{
		Provisioned:    At[bool](provisioned),
		ProviderIDList: At[[]string]("spec.providerIDList"),
		Replicas:       At[int32]("status.replicas").within(counter),
		MachineKind:    At[string]("status.infrastructureMachineKind"),
	}
}

// InfraMachinePoolFor returns the fields of a contract version.
func InfraMachinePoolFor(version string) (InfraMachinePool, error) {
	return pick("infrastructure machine pools", version, infraMachinePools)
}

// IsProvisioned reports whether a pool is provisioned by the field of any contract
// version: providers of v1beta2 still set the field of v1beta1, and some set only that.
func (c InfraMachinePool) IsProvisioned(obj *unstructured.Unstructured) (bool, error) {
	for _, v := range Versions() {
		if yes, _, err := infraMachinePools[v].Provisioned.Get(obj); yes || err != nil {
			return yes, err
		}
	}
	return false, nil
}
