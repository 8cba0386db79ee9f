// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"

	"sigs.k8s.io/cluster-api/test/framework/clusterctl"
)

const upstreamVersion = "v1.14.2"

// versions are those of the workload clusters. Upstream's test extension plans upgrades only
// between the versions of its own list.
var versions = map[string]struct{ chained, from, to string }{
	local:    {"v1.33.4", "v1.35.4", "v1.36.0"},
	inMemory: {"v1.33.12", "v1.36.4", "v1.37.0"},
}

// newConfig describes a set-up to upstream's framework. Folder has the templates and the
// components of the providers; data is upstream's folder of test data.
func newConfig(setup, folder, data string) (*clusterctl.E2EConfig, error) {
	metadata := clusterctl.Files{SourcePath: filepath.Join(data, "shared", "main", "metadata.yaml")}
	provider := func(name, kind, components string, files ...clusterctl.Files) clusterctl.ProviderConfig {
		return clusterctl.ProviderConfig{Name: name, Type: kind, Versions: []clusterctl.ProviderVersionSource{{
			Name: upstreamVersion, Type: clusterctl.URLSource, Value: components, Contract: "v1beta2",
			Files: append(files, metadata),
		}}}
	}
	templates, err := filepath.Glob(filepath.Join(folder, "*.yaml"))
	if err != nil {
		return nil, err
	}
	var files []clusterctl.Files
	for _, t := range templates {
		files = append(files, clusterctl.Files{SourcePath: t})
	}
	// The plane has these providers built in: nothing is installed from here.
	none := filepath.Join(folder, "none")
	if err := os.WriteFile(none, []byte("apiVersion: v1\nkind: Namespace\nmetadata: {name: unused}\n"), 0o600); err != nil {
		return nil, err
	}
	v := versions[setup]
	c := &clusterctl.E2EConfig{
		ManagementClusterName: "capstan",
		Providers: []clusterctl.ProviderConfig{
			provider("cluster-api", "CoreProvider", none),
			provider("kubeadm", "BootstrapProvider", none),
			provider("kubeadm", "ControlPlaneProvider", none),
		},
		Variables: map[string]string{
			"KUBERNETES_VERSION_MANAGEMENT": v.to, "KUBERNETES_VERSION": v.to,
			"KUBERNETES_VERSION_UPGRADE_FROM": v.from, "KUBERNETES_VERSION_UPGRADE_TO": v.to,
			"KUBERNETES_VERSION_CHAINED_UPGRADE_FROM": v.chained,
			"ETCD_VERSION_UPGRADE_TO":                 "3.6.6-0", "COREDNS_VERSION_UPGRADE_TO": "v1.14.6",
			"IP_FAMILY": "IPv4", "DOCKER_SERVICE_DOMAIN": "cluster.local",
			"DOCKER_SERVICE_CIDRS": "10.128.0.0/12", "DOCKER_POD_CIDRS": "192.168.0.0/16",
			"DOCKER_SERVICE_IPV6_CIDRS": "fd00:100:64::/108", "DOCKER_POD_IPV6_CIDRS": "fd00:100:96::/48",
			"CNI": filepath.Join(data, "cni", "kindnet", "kindnet.yaml"),
		},
		Intervals: map[string][]string{},
	}
	// A spec waits up to this long for each step: only a failing step uses all of it.
	for _, name := range []string{"controllers", "cluster", "control-plane", "worker-nodes", "machine-pool", "machine-pool-nodes",
		"delete-cluster", "machine-upgrade", "control-plane-upgrade", "machine-deployment-upgrade", "machine-pool-upgrade",
		"nodes-ready", "machine-remediation", "autoscaler", "deployment-available", "job", "service", "machine-refresh",
		"resource-versions-become-stable", "machine-deleted", "machines", "machine-provisioned"} {
		c.Intervals["default/wait-"+name] = []string{"5m", "500ms"}
	}
	c.Intervals["default/wait-resource-versions-remain-stable"] = []string{"60s", "2s"}
	c.Intervals["default/check-machines-stable"] = []string{"15s", "1s"}
	if setup == local {
		c.Providers = append(c.Providers, provider("local", "InfrastructureProvider", none, files...))
		return c, nil
	}
	c.Providers = append(c.Providers,
		provider("docker", "InfrastructureProvider", filepath.Join(folder, "docker"), files...),
		provider("test-extension", "RuntimeExtensionProvider", filepath.Join(folder, "test-extension")))
	return c, nil
}
