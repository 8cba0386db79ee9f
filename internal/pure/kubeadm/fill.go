// SPDX-License-Identifier: Apache-2.0

package kubeadm

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/internal/pure/gotemplate"
	"github.com/capstan-dev/capstan/internal/pure/nodesync"
)

// DataOf returns the data from a Cluster and the version of a Machine.
func DataOf(cluster *clusterv1.Cluster, kubernetesVersion string) Data {
	d := Data{
		KubernetesVersion: kubernetesVersion,
		ClusterName:       cluster.Name,
		DNSDomain:         cluster.Spec.ClusterNetwork.ServiceDomain,
		ServiceSubnet:     strings.Join(cluster.Spec.ClusterNetwork.Services.CIDRBlocks, ","),
		PodSubnet:         strings.Join(cluster.Spec.ClusterNetwork.Pods.CIDRBlocks, ","),
	}
	if cluster.Spec.ControlPlaneEndpoint.IsValid() {
		d.ControlPlaneEndpoint = cluster.Spec.ControlPlaneEndpoint.String()
	}
	return d
}

// ForControlPlane is the join configuration of a control plane machine.
func ForControlPlane(join bootstrapv1.JoinConfiguration) bootstrapv1.JoinConfiguration {
	if join.ControlPlane == nil {
		join.ControlPlane = &bootstrapv1.JoinControlPlane{}
	}
	return join
}

// ForWorker is the join configuration of a worker: with the taint that stays until the
// Machine's labels are on the Node.
func ForWorker(join bootstrapv1.JoinConfiguration) (bootstrapv1.JoinConfiguration, error) {
	if join.ControlPlane != nil {
		return join, errors.New("spec.joinConfiguration.controlPlane is set, but the machine is a worker: remove it, or label the machine " + clusterv1.MachineControlPlaneLabel)
	}
	var taints []corev1.Taint
	if join.NodeRegistration.Taints != nil {
		taints = slices.Clone(*join.NodeRegistration.Taints)
	}
	if !slices.ContainsFunc(taints, func(t corev1.Taint) bool { return t.MatchTaint(&nodesync.Uninitialized) }) {
		taints = append(taints, nodesync.Uninitialized)
	}
	join.NodeRegistration.Taints = &taints
	return join, nil
}

// DiscoveryKubeConfig is the file that discovery by file reads, when its content is part
// of the config. If the config has no server or authority, it contains endpoint and ca.
func DiscoveryKubeConfig(f bootstrapv1.FileDiscovery, endpoint string, ca []byte) (bootstrapv1.File, error) {
	c := f.KubeConfig.Cluster
	cluster := map[string]any{"server": cmp.Or(c.Server, "https://"+endpoint)}
	if c.InsecureSkipTLSVerify != nil && *c.InsecureSkipTLSVerify {
		cluster["insecure-skip-tls-verify"] = true
	} else if len(c.CertificateAuthorityData) > 0 {
		ca = c.CertificateAuthorityData
	}
	if cluster["insecure-skip-tls-verify"] == nil {
		cluster["certificate-authority-data"] = ca
	}
	put(cluster, "tls-server-name", c.TLSServerName)
	put(cluster, "proxy-url", c.ProxyURL)
	raw, err := yaml.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Config", "current-context": "default",
		"clusters": []any{map[string]any{"name": "default", "cluster": cluster}},
		"users":    []any{map[string]any{"name": "default", "user": discoveryUser(f.KubeConfig.User)}},
		"contexts": []any{map[string]any{"name": "default", "context": map[string]any{"cluster": "default", "user": "default"}}},
	})
	if err != nil {
		return bootstrapv1.File{}, fmt.Errorf("write the kubeconfig for discovery: %w", err)
	}
	return bootstrapv1.File{Path: f.KubeConfigPath, Owner: "root:root", Permissions: "0640", Content: string(raw)}, nil
}

func discoveryUser(u bootstrapv1.KubeConfigUser) map[string]any {
	user := map[string]any{}
	if p := u.AuthProvider; p.Name != "" {
		provider := map[string]any{"name": p.Name}
		if len(p.Config) > 0 {
			provider["config"] = p.Config
		}
		user["auth-provider"] = provider
	}
	if e := u.Exec; e.Command != "" {
		exec := map[string]any{
			"apiVersion": cmp.Or(e.APIVersion, "client.authentication.k8s.io/v1"), "command": e.Command,
			"interactiveMode": "Never", // there is no user at a machine that boots
		}
		if len(e.Args) > 0 {
			exec["args"] = e.Args
		}
		if len(e.Env) > 0 {
			exec["env"] = e.Env
		}
		if e.ProvideClusterInfo != nil {
			exec["provideClusterInfo"] = *e.ProvideClusterInfo
		}
		user["exec"] = exec
	}
	return user
}

func put(m map[string]any, key, value string) {
	if value != "" {
		m[key] = value
	}
}

// HasTemplates reports whether any file is a template.
func HasTemplates(files []bootstrapv1.File) bool {
	return slices.ContainsFunc(files, func(f bootstrapv1.File) bool { return f.ContentFormat == bootstrapv1.FileContentFormatTemplate })
}

// Expand executes the files that are templates. Their data has .controlPlane.version as
// vX.Y.Z, or no such key when controlPlaneVersion is empty or invalid. The error names
// the file and does not quote it.
func Expand(files []bootstrapv1.File, controlPlaneVersion string) ([]bootstrapv1.File, error) {
	controlPlane := map[string]any{}
	if v, err := version.ParseSemantic(controlPlaneVersion); err == nil {
		controlPlane["version"] = "v" + v.String()
	}
	data, budget := map[string]any{"controlPlane": controlPlane}, gotemplate.PerObject
	out := slices.Clone(files)
	for i := range out {
		if out[i].ContentFormat != bootstrapv1.FileContentFormatTemplate {
			continue
		}
		text, err := expand(out[i].Content, data, &budget)
		if err != nil {
			return nil, fmt.Errorf("file %s: %w", out[i].Path, err)
		}
		out[i].Content = text
	}
	return out, nil
}

func expand(content string, data map[string]any, b *gotemplate.Budget) (string, error) {
	t, err := gotemplate.Parse(content)
	if err != nil {
		return "", errors.New("its content is not a valid Go template")
	}
	text, err := t.Render(data, b)
	switch {
	case errors.Is(err, gotemplate.ErrOutput):
		return "", fmt.Errorf("its template %w", err)
	case errors.Is(err, gotemplate.ErrCost):
		return "", fmt.Errorf("its template cannot be executed: %w", err)
	case err != nil:
		return "", errors.New("its template cannot be executed: it may use .controlPlane.version only")
	}
	return text, nil
}
