// SPDX-License-Identifier: Apache-2.0

// Package kubeadm renders and parses the configuration of kubeadm on a machine: the
// documents ClusterConfiguration, InitConfiguration and JoinConfiguration of
// kubeadm.k8s.io/v1beta3 and v1beta4.
//
// Its callers use only Capstan's own API types (package bootstrapv1) and Data, which
// holds the values that kubeadm needs and that those types leave to the Cluster and the
// Machine.
package kubeadm

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/version"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	bootstrapv1 "github.com/capstan-dev/capstan/api/bootstrap/v1beta2"
	"github.com/capstan-dev/capstan/internal/kit/sanitize"
)

// The supported versions of kubeadm's own API.
const (
	V1Beta3 = "kubeadm.k8s.io/v1beta3" // kubeadm 1.22 to 1.30
	V1Beta4 = "kubeadm.k8s.io/v1beta4" // kubeadm 1.31 and later
)

// maxConfig limits what Parse reads: a config is a few KiB.
const maxConfig = 1 << 20

// ErrTooOld is returned for Kubernetes before 1.22.
var ErrTooOld = errors.New("kubernetes before v1.22 cannot be set up: its kubeadm does not know " + V1Beta3)

// Data holds the values that kubeadm needs and that the API types leave to the Cluster
// and the Machine. Empty fields are omitted.
type Data struct {
	KubernetesVersion    string // vX.Y.Z
	ClusterName          string
	ControlPlaneEndpoint string // host:port; ClusterConfiguration's own has precedence
	DNSDomain            string
	ServiceSubnet        string // CIDR, or two separated by a comma
	PodSubnet            string // likewise

	// ControlPlaneTimeoutSeconds is InitConfiguration's or JoinConfiguration's
	// timeouts.controlPlaneComponentHealthCheckSeconds, which in v1beta3 is a field of
	// the ClusterConfiguration.
	ControlPlaneTimeoutSeconds *int32
}

// Documents is what kubeadm would read from one file. Documents that the file does not
// have are nil.
type Documents struct {
	APIVersion string // V1Beta3 or V1Beta4
	Cluster    *bootstrapv1.ClusterConfiguration
	Init       *bootstrapv1.InitConfiguration
	Join       *bootstrapv1.JoinConfiguration
	Data       Data // of Cluster

	// CertificateKey is kubeadm's certificateKey, of Init or of
	// Join.controlPlane, which our API does not have.
	CertificateKey string

	text []byte // of Cluster
}

// APIVersion is the version of kubeadm's API for a version of Kubernetes.
func APIVersion(kubernetesVersion string) (string, error) {
	v, err := version.ParseSemantic(kubernetesVersion)
	if err != nil {
		return "", fmt.Errorf("version %q of Kubernetes: %w", kubernetesVersion, err)
	}
	switch minor := v.Minor(); { // by the minor only, so that v1.31.0-rc.0 counts as 1.31
	case v.Major() == 0 || v.Major() == 1 && minor < 22:
		return "", ErrTooOld
	case v.Major() == 1 && minor < 31:
		return V1Beta3, nil
	}
	return V1Beta4, nil
}

// RenderInit is the file for kubeadm init: a ClusterConfiguration and an
// InitConfiguration for the kubeadm of d.KubernetesVersion.
func RenderInit(cluster bootstrapv1.ClusterConfiguration, init bootstrapv1.InitConfiguration, d Data) ([]byte, error) {
	api, err := APIVersion(d.KubernetesVersion)
	if err != nil {
		return nil, err
	}
	if init.Timeouts.ControlPlaneComponentHealthCheckSeconds != nil {
		d.ControlPlaneTimeoutSeconds = init.Timeouts.ControlPlaneComponentHealthCheckSeconds
	}
	first, err := RenderCluster(api, cluster, d)
	if err != nil {
		return nil, err
	}
	second, err := yaml.Marshal(initToWire(api, init))
	if err != nil {
		return nil, fmt.Errorf("write InitConfiguration: %w", err)
	}
	return bytes.Join([][]byte{first, second}, []byte("---\n")), nil
}

// RenderCluster is a ClusterConfiguration in that version of kubeadm's API, in the form
// that kubeadm's own ConfigMap has too.
func RenderCluster(apiVersion string, cluster bootstrapv1.ClusterConfiguration, d Data) ([]byte, error) {
	out, err := yaml.Marshal(clusterToWire(apiVersion, cluster, d))
	if err != nil {
		return nil, fmt.Errorf("write ClusterConfiguration: %w", err)
	}
	return out, nil
}

// RenderJoin is the file for kubeadm join, for the kubeadm of that version of
// Kubernetes: the version of the machine that joins.
func RenderJoin(join bootstrapv1.JoinConfiguration, kubernetesVersion string) ([]byte, error) {
	api, err := APIVersion(kubernetesVersion)
	if err != nil {
		return nil, err
	}
	out, err := yaml.Marshal(joinToWire(api, join))
	if err != nil {
		return nil, fmt.Errorf("write JoinConfiguration: %w", err)
	}
	return out, nil
}

// Parse parses the documents of a file. Documents of other groups, such as
// KubeletConfiguration, are ignored, and so are fields unknown to kubeadm: it only warns
// about them. The errors do not quote the content.
func Parse(data []byte) (*Documents, error) {
	if len(data) > maxConfig {
		return nil, fmt.Errorf("the kubeadm config is larger than %d KiB", maxConfig>>10)
	}
	docs := &Documents{}
	reader := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		raw, err := reader.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("split the kubeadm config into documents: %w", err)
		}
		if err := docs.add(raw); err != nil {
			return nil, err
		}
	}
	if docs.APIVersion == "" {
		return nil, errors.New("the kubeadm config has no document of the group kubeadm.k8s.io")
	}
	return docs, nil
}

// ParseCluster parses the ClusterConfiguration that kubeadm stores in the cluster. An
// empty one yields an empty ClusterConfiguration; simulated control planes have such.
func ParseCluster(text string) (*Documents, error) {
	if strings.TrimSpace(text) == "" {
		text = "apiVersion: " + V1Beta4 + "\nkind: ClusterConfiguration\n"
	}
	docs, err := Parse([]byte(text))
	if err == nil && docs.Cluster == nil {
		err = errors.New("it holds no ClusterConfiguration")
	}
	return docs, err
}

// add parses one document. Documents of other groups, such as the kubelet's, are
// ignored; an unknown version is an error, since its fields would be lost when the
// config is written again. An error never quotes the document: it can contain tokens and
// a certificate key.
func (d *Documents) add(raw []byte) error {
	var kind metav1.TypeMeta
	if err := sanitize.CheckYAML(raw); err != nil {
		return fmt.Errorf("a document of the kubeadm config is %w", err)
	}
	if err := yaml.Unmarshal(raw, &kind); err != nil {
		return errors.New("a document of the kubeadm config is not YAML with apiVersion and kind")
	}
	if !strings.HasPrefix(kind.APIVersion, "kubeadm.k8s.io/") {
		return nil
	}
	if kind.APIVersion != V1Beta3 && kind.APIVersion != V1Beta4 {
		return fmt.Errorf("%s is not known: %s and %s are", kind.APIVersion, V1Beta3, V1Beta4)
	}
	if d.APIVersion != "" && d.APIVersion != kind.APIVersion {
		return fmt.Errorf("the kubeadm config mixes %s and %s", d.APIVersion, kind.APIVersion)
	}
	d.APIVersion = kind.APIVersion
	switch kind.Kind {
	case "ClusterConfiguration":
		wire, err := decode[clusterWire](raw, kind.Kind)
		if err != nil {
			return err
		}
		d.text = raw
		d.Cluster, d.Data = wire.toHub()
	case "InitConfiguration":
		wire, err := decode[initWire](raw, kind.Kind)
		if err != nil {
			return err
		}
		if d.Init, err = wire.toHub(); err != nil {
			return err
		}
		d.CertificateKey = wire.CertificateKey
	case "JoinConfiguration":
		wire, err := decode[joinWire](raw, kind.Kind)
		if err != nil {
			return err
		}
		d.Join = wire.toHub()
		if wire.ControlPlane != nil {
			d.CertificateKey = wire.ControlPlane.CertificateKey
		}
	}
	return nil
}

// UpdateCluster returns the ClusterConfiguration that was parsed, with other values.
// Fields that this package does not have, such as proxy.disabled, stay.
func (d *Documents) UpdateCluster(apiVersion string, c bootstrapv1.ClusterConfiguration, data Data) (string, error) {
	read, err := RenderCluster(d.APIVersion, *d.Cluster, d.Data)
	if err != nil {
		return "", err
	}
	desired, err := RenderCluster(apiVersion, c, data)
	if err != nil {
		return "", err
	}
	var forms [3]map[string]any
	for i, text := range [][]byte{d.text, read, desired} {
		form, err := decode[map[string]any](text, "ClusterConfiguration")
		if err != nil {
			return "", err
		}
		forms[i] = *form
	}
	update(forms[0], forms[1], forms[2])
	out, err := yaml.Marshal(forms[0])
	return string(out), err
}

// update applies to an object the differences between two forms of it, field by field.
func update(object, from, to map[string]any) {
	all := map[string]any{}
	maps.Copy(all, from)
	maps.Copy(all, to)
	for name := range all {
		inner, isObject := object[name].(map[string]any)
		was, wasObject := from[name].(map[string]any)
		now, becomesObject := to[name].(map[string]any)
		switch {
		case reflect.DeepEqual(from[name], to[name]):
		case isObject && (wasObject || from[name] == nil) && (becomesObject || to[name] == nil):
			update(inner, was, now)
		case to[name] == nil:
			delete(object, name)
		default:
			object[name] = to[name]
		}
	}
}

func decode[T any](raw []byte, kind string) (*T, error) {
	into := new(T)
	if err := yaml.Unmarshal(raw, into); err != nil {
		return nil, fmt.Errorf("read %s: %w", kind, withoutContent(err))
	}
	return into, nil
}
