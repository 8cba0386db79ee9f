// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/template"
)

// GenerateOptions say what to fill into a cluster template.
type GenerateOptions struct {
	// Name of the cluster; required.
	Name string
	// Namespace of its objects; "" means default.
	Namespace string
	// KubernetesVersion, such as v1.36.3; "" leaves it to the variables.
	KubernetesVersion string
	// ControlPlaneMachines and WorkerMachines; nil leaves them to the variables.
	ControlPlaneMachines, WorkerMachines *int32
	// Template to fill; nil means that of the local provider.
	Template []byte
	// Lookup gives the values of variables; nil means that there are none.
	Lookup func(name string) (string, bool)
	// Processor of the template; nil means template.Envsubst.
	Processor template.Processor
}

// NameError says that no cluster can have the name: it is also a label's value.
type NameError struct{ Name string }

func (e *NameError) Error() string {
	return fmt.Sprintf("%q cannot be the name of a cluster: use lower-case letters, digits, '-' and '.', at most 63", e.Name)
}

// Generate fills a cluster template. It needs no management cluster.
func Generate(o GenerateOptions) ([]byte, error) {
	o.complete()
	if len(validation.IsDNS1123Subdomain(o.Name)) > 0 || len(validation.IsValidLabelValue(o.Name)) > 0 {
		return nil, &NameError{o.Name}
	}
	return o.Processor.Process(o.Template, o.variable)
}

// Variables returns the variables of the template with their defaults; the
// default is nil for one that must be given.
func Variables(o GenerateOptions) (map[string]*string, error) {
	o.complete()
	return o.Processor.Variables(o.Template)
}

func (o *GenerateOptions) complete() {
	if o.Namespace == "" {
		o.Namespace = corev1.NamespaceDefault
	}
	if o.Template == nil {
		o.Template = template.Local()
	}
	if o.Lookup == nil {
		o.Lookup = func(string) (string, bool) { return "", false }
	}
	if o.Processor == nil {
		o.Processor = template.Envsubst{}
	}
}

// variable answers from the options first, then from the variables.
func (o *GenerateOptions) variable(name string) (string, bool) {
	switch {
	case name == "CLUSTER_NAME":
		return o.Name, true
	case name == "NAMESPACE":
		return o.Namespace, true
	case name == "KUBERNETES_VERSION" && o.KubernetesVersion != "":
		return o.KubernetesVersion, true
	case name == "CONTROL_PLANE_MACHINE_COUNT" && o.ControlPlaneMachines != nil:
		return strconv.Itoa(int(*o.ControlPlaneMachines)), true
	case name == "WORKER_MACHINE_COUNT" && o.WorkerMachines != nil:
		return strconv.Itoa(int(*o.WorkerMachines)), true
	}
	return o.Lookup(name)
}

// TemplateFromConfigMap reads a template from a key of a ConfigMap in the
// management cluster.
func (c *Client) TemplateFromConfigMap(ctx context.Context, key client.ObjectKey, dataKey string) ([]byte, error) {
	cm := &corev1.ConfigMap{}
	if err := c.mgmt.Get(ctx, key, cm); err != nil {
		if apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("ConfigMap %s does not exist: name the one that holds the template with --from-config-map", key)
		}
		return nil, fmt.Errorf("read template from ConfigMap %s: %w", key, err)
	}
	data, ok := cm.Data[dataKey]
	if !ok {
		return nil, fmt.Errorf("ConfigMap %s has no key %q: name the right one with --from-config-map-key", key, dataKey)
	}
	return []byte(data), nil
}
