// SPDX-License-Identifier: Apache-2.0

package repository

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/manifests"
)

// embedded is the one release of the local provider that the program has in it.
type embedded struct{ version, components string }

// newEmbedded opens the release of a path /LABEL/VERSION/FILE.
func newEmbedded(p config.Provider, path string) (*embedded, error) {
	steps := strings.Split(strings.Trim(path, "/"), "/")
	if len(steps) != 3 || steps[0] != p.Label() || p.Name != config.Local || p.Type != clusterctlv1.InfrastructureProviderType {
		return nil, errors.New("only the infrastructure provider local comes with the program")
	}
	return &embedded{steps[1], steps[2]}, checkDefault(steps[1])
}

func (r *embedded) DefaultVersion() string { return r.version }

func (r *embedded) ComponentsFile() string { return r.components }

func (r *embedded) Versions(context.Context) ([]string, error) {
	return []string{manifests.Release}, nil
}

func (r *embedded) File(_ context.Context, version, name string) ([]byte, error) {
	if err := checkFile(version, name); err != nil {
		return nil, err
	}
	absent := &NotFoundError{Where: "the provider local of this program", Version: version, Name: name}
	if version != manifests.Release {
		absent.Name, absent.Hint = "", "it has "+manifests.Release
		return nil, absent
	}
	switch name {
	case MetadataFile:
		return localMetadata()
	case r.components:
		return localComponents()
	case "cluster-template.yaml":
		return template.Local(), nil
	case "cluster-template-machine-pool.yaml":
		return template.LocalMachinePool(), nil
	case "cluster-template-topology.yaml":
		return template.LocalTopology(), nil
	case "cluster-template-container.yaml":
		return template.Container(), nil
	case "cluster-template-container-topology.yaml":
		return template.ContainerTopology(), nil
	}
	if class, ok := strings.CutPrefix(strings.TrimSuffix(name, ".yaml"), "clusterclass-"); ok {
		if data := template.LocalClass(class); data != nil {
			return data, nil
		}
	}
	absent.Hint = "its flavors are container, container-topology, machine-pool and topology, and its ClusterClasses are container and quick-start"
	return nil, absent
}

func localMetadata() ([]byte, error) {
	v, err := parseVersion(manifests.Release)
	if err != nil {
		return nil, err
	}
	return yaml.Marshal(clusterctlv1.Metadata{
		TypeMeta:      metav1.TypeMeta{APIVersion: clusterctlv1.GroupVersion().String(), Kind: "Metadata"},
		ReleaseSeries: []clusterctlv1.ReleaseSeries{{Major: int32(v.Major), Minor: int32(v.Minor), Contract: contract.V1Beta2}},
	})
}

// localComponents are the kinds of the provider and the role that lets a manager work
// on them. Its controllers are in the program itself.
func localComponents() ([]byte, error) {
	all := []any{&corev1.Namespace{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{Name: manifests.Namespace},
	}}
	crds, err := manifests.CRDs()
	if err != nil {
		return nil, err
	}
	for _, crd := range crds {
		if crd.Labels[clusterv1.ProviderNameLabel] == "infrastructure-local" {
			all = append(all, crd)
		}
	}
	roles, err := manifests.RBAC()
	if err != nil {
		return nil, err
	}
	for _, role := range roles {
		if role.Labels[clusterv1.ProviderNameLabel] == "infrastructure-local" {
			all = append(all, role)
		}
	}
	var out bytes.Buffer
	for _, obj := range all {
		text, err := yaml.Marshal(obj)
		if err != nil {
			return nil, fmt.Errorf("write components of the local provider: %w", err)
		}
		out.WriteString("---\n")
		out.Write(text)
	}
	return out.Bytes(), nil
}
