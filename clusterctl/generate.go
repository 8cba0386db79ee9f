// SPDX-License-Identifier: Apache-2.0

package clusterctl

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
)

// GenerateOptions define what to fill into a cluster template.
type GenerateOptions struct {
	// Name of the cluster; required.
	Name string
	// Namespace of all its objects, regardless of the template; "" means default.
	Namespace string
	// KubernetesVersion, such as v1.36.3, whose v may be left out; "" leaves it to the
	// variables.
	KubernetesVersion string
	// ControlPlaneMachines and WorkerMachines; nil leaves them to the variables.
	ControlPlaneMachines, WorkerMachines *int32
	// Template to fill; nil means that of the local provider.
	Template []byte
	// Set holds the values of variables that the template must have.
	Set map[string]string
	// Lookup gives the values of all others, as the environment does; nil means
	// that there are none.
	Lookup func(name string) (string, bool)
	// Class returns the objects of a ClusterClass that a Cluster of the template names,
	// which are placed before it; nil if the class exists already, or must be installed
	// by other means. A nil Class returns none.
	Class func(class client.ObjectKey) ([]byte, error)
	// Processor of the template; nil means template.Envsubst.
	Processor template.Processor
}

// OptionError means that no cluster can be created with an option, and gives the reason.
type OptionError struct{ text string }

func (e *OptionError) Error() string { return e.text }

// Generate fills a cluster template, inserts the classes that its Clusters name before
// them, and puts all objects into one namespace. It needs no management cluster.
func Generate(o GenerateOptions) ([]byte, error) {
	o.complete()
	if err := o.check(); err != nil {
		return nil, err
	}
	objects, err := o.fill(o.Template)
	if err == nil && o.Class != nil {
		objects, err = o.withClasses(objects)
	}
	if err == nil {
		err = components.Place(objects, o.Namespace)
	}
	if err != nil {
		return nil, err
	}
	return template.YAML(objects)
}

// fill returns the objects of a template with its variables filled in.
func (o *GenerateOptions) fill(raw []byte) ([]*unstructured.Unstructured, error) {
	doc, err := o.Processor.Process(raw, o.variable)
	if err != nil {
		return nil, err
	}
	return template.Objects(doc)
}

// check refuses what would only be noticed as an object that the API refuses, or not at
// all.
func (o *GenerateOptions) check() error {
	if len(validation.IsDNS1123Subdomain(o.Name)) > 0 || len(validation.IsValidLabelValue(o.Name)) > 0 {
		// It is also the value of a label.
		return &OptionError{fmt.Sprintf("%q cannot be the name of a cluster: use lower-case letters, digits, '-' and '.', at most 63", o.Name)}
	}
	known, err := o.Processor.Variables(o.Template)
	if err != nil {
		return err
	}
	var unknown []string
	for _, name := range slices.Sorted(maps.Keys(o.Set)) {
		if _, ok := known[name]; !ok {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		names := slices.Sorted(maps.Keys(known))
		return &OptionError{fmt.Sprintf("the template has no variable %s, but %s%s", strings.Join(unknown, ", "), strings.Join(names, ", "), suggest.Hint(unknown[0], names))}
	}
	_, uses := known[kubernetesVersion]
	if len(validation.IsDNS1123Label(o.Namespace)) > 0 {
		return &OptionError{fmt.Sprintf("%q cannot be the name of a namespace: use lower-case letters, digits and '-', at most 63", o.Namespace)}
	}
	version, given := o.version()
	if given && (uses || o.KubernetesVersion != "") && (version == "" || len(fieldvalidation.Version(nil, fieldvalidation.NormalVersion(version))) > 0) {
		// A YAML parser would read 1.36 as a number.
		return &OptionError{fmt.Sprintf("%q is no Kubernetes version: it has the form v1.36.3", version)}
	}
	return nil
}

// common are the variables that all templates may use.
var common = []string{"CLUSTER_NAME", "NAMESPACE", kubernetesVersion, "CONTROL_PLANE_MACHINE_COUNT", "WORKER_MACHINE_COUNT"}

// Variables returns the variables of the template with their defaults, which for those
// that all templates may use are the values they have; the default is nil for one that
// must be given.
func Variables(o GenerateOptions) (map[string]*string, error) {
	o.complete()
	all, err := o.Processor.Variables(o.Template)
	if err != nil {
		return nil, err
	}
	for _, name := range common {
		value, given := o.variable(name)
		if _, used := all[name]; used && given && value != "" {
			all[name] = &value
		}
	}
	return all, nil
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

const kubernetesVersion = "KUBERNETES_VERSION"

// variable looks up a variable in the options first, then in the variables.
func (o *GenerateOptions) variable(name string) (string, bool) {
	switch {
	case name == "CLUSTER_NAME":
		return o.Name, true
	case name == "NAMESPACE":
		return o.Namespace, true
	case name == kubernetesVersion:
		version, ok := o.version()
		return fieldvalidation.NormalVersion(version), ok
	case name == "CONTROL_PLANE_MACHINE_COUNT" && o.ControlPlaneMachines != nil:
		return strconv.Itoa(int(*o.ControlPlaneMachines)), true
	case name == "WORKER_MACHINE_COUNT" && o.WorkerMachines != nil:
		return strconv.Itoa(int(*o.WorkerMachines)), true
	}
	return o.value(name)
}

// version is the version of Kubernetes, as specified.
func (o *GenerateOptions) version() (string, bool) {
	if o.KubernetesVersion != "" {
		return o.KubernetesVersion, true
	}
	return o.value(kubernetesVersion)
}

func (o *GenerateOptions) value(name string) (string, bool) {
	if v, ok := o.Set[name]; ok {
		return v, true
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
