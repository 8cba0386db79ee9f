// SPDX-License-Identifier: Apache-2.0

package template

import (
	"embed"
	"slices"
)

// A template is the first of these, with one of the others for the workers; or it is the
// last, whose Cluster names a class.
var (
	//go:embed local.yaml
	local []byte
	//go:embed local-workers.yaml
	localWorkers []byte
	//go:embed local-machine-pool.yaml
	localMachinePool []byte
	//go:embed local-topology.yaml
	localTopology []byte
	//go:embed container.yaml
	container []byte
	//go:embed container-workers.yaml
	containerWorkers []byte
	//go:embed container-topology.yaml
	containerTopology []byte
)

//go:embed clusterclass-*.yaml
var localClasses embed.FS

// Local returns the template of a cluster of the local provider. It needs the
// variables CLUSTER_NAME, NAMESPACE and KUBERNETES_VERSION.
func Local() []byte { return joined(local, localWorkers) }

// LocalMachinePool returns that of a cluster whose workers are a MachinePool.
func LocalMachinePool() []byte { return joined(local, localMachinePool) }

// LocalTopology returns that of a cluster from a ClusterClass, which LocalClass returns.
func LocalTopology() []byte { return slices.Clone(localTopology) }

// Container returns the template of a cluster of container machines, with the network
// of its Pods.
func Container() []byte {
	return slices.Concat(joined(container, containerWorkers), []byte("---\n"), NetworkAddon())
}

// ContainerTopology returns that of a cluster from a ClusterClass.
func ContainerTopology() []byte { return joined(containerTopology, NetworkAddon()) }

// LocalClass returns the objects of a ClusterClass of the local provider, which have no
// namespace yet; nil if the class does not exist.
func LocalClass(name string) []byte {
	doc, err := localClasses.ReadFile(ClassFile(name))
	if err != nil {
		return nil
	}
	return doc
}

// File is the name of the file of a release that has the template of a flavor; "" is
// the template without one.
func File(flavor string) string {
	if flavor == "" {
		return "cluster-template.yaml"
	}
	return "cluster-template-" + flavor + ".yaml"
}

// ClassFile is the name of the file, next to that of a template, that has the objects of
// a ClusterClass.
func ClassFile(name string) string { return "clusterclass-" + name + ".yaml" }

func joined(cluster, workers []byte) []byte {
	return slices.Concat(cluster, []byte("---\n"), workers)
}
