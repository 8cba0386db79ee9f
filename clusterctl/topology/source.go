// SPDX-License-Identifier: Apache-2.0

// Package topology shows the objects that a ClusterClass defines for a Cluster, without
// creating them: from files alone, or compared with a management cluster.
package topology

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	controlplanev1 "github.com/capstan-dev/capstan/api/controlplane/v1beta2"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/controller/topology/patches"
	"github.com/capstan-dev/capstan/internal/pure/fieldvalidation"
	"github.com/capstan-dev/capstan/internal/pure/variables"
)

// Source is a Cluster and what its class refers to.
type Source struct {
	Cluster   *clusterv1.Cluster
	class     *clusterv1.ClusterClass
	templates map[key]*unstructured.Unstructured
	contract  string // that the control plane implements
	// discover requests the variables of a patch from an extension; nil if no extension
	// can be called.
	discover func(clusterv1.ExternalPatchDefinition) ([]clusterv1.ClusterClassVariable, error)
}

// key is of an object in a namespace.
type key struct{ group, kind, namespace, name string }

func keyOf(u *unstructured.Unstructured) key {
	return key{u.GroupVersionKind().Group, u.GetKind(), u.GetNamespace(), u.GetName()}
}

// Read selects from objects the one Cluster with a topology, its class, and the templates
// of the class. Objects without a namespace get the given one. Missing objects are read
// by lookup, if it is set; it returns nil for one that does not exist.
func Read(objects []*unstructured.Unstructured, namespace string, lookup Lookup) (*Source, error) {
	s := &Source{templates: map[key]*unstructured.Unstructured{}}
	definitions := map[string]*unstructured.Unstructured{}
	var clusters []*unstructured.Unstructured
	for _, u := range objects {
		if u.GetKind() == "CustomResourceDefinition" {
			definitions[u.GetName()] = u
			continue
		}
		u.SetNamespace(cmp.Or(u.GetNamespace(), namespace))
		s.templates[keyOf(u)] = u
		if _, managed, _ := unstructured.NestedMap(u.Object, "spec", "topology"); managed && isCore(u, clusterv1.ClusterKind) {
			clusters = append(clusters, u)
		}
	}
	if len(clusters) != 1 {
		return nil, fmt.Errorf("there are %d Clusters with spec.topology: give one", len(clusters))
	}
	s.Cluster = &clusterv1.Cluster{}
	if err := typed(clusters[0], s.Cluster); err != nil {
		return nil, err
	}
	if err := s.findClass(lookup); err != nil {
		return nil, err
	}
	return s, s.findTemplates(lookup, definitions)
}

// Lookup reads an object that is in no file; nil if it does not exist.
type Lookup interface {
	// Object reads one in the named version, or if that is empty, in the one that its
	// definition has for this contract.
	Object(apiVersion, kind string, key types.NamespacedName) (*unstructured.Unstructured, error)
	// Contract is the version of the contract that a version of a kind implements.
	Contract(kind schema.GroupVersionKind) (string, error)
}

func isCore(u *unstructured.Unstructured, kind string) bool {
	return u.GroupVersionKind().Group == clusterv1.GroupVersion().Group && u.GetKind() == kind
}

func (s *Source) findClass(lookup Lookup) error {
	named := s.Cluster.GetClassKey()
	u := s.templates[key{clusterv1.GroupVersion().Group, clusterv1.ClusterClassKind, named.Namespace, named.Name}]
	if u == nil && lookup != nil {
		var err error
		if u, err = lookup.Object(clusterv1.GroupVersion().String(), clusterv1.ClusterClassKind, named); err != nil {
			return err
		}
	}
	if u == nil {
		return fmt.Errorf("spec.topology.classRef of Cluster %s/%s names ClusterClass %s, which is not there: give a file with it", s.Cluster.Namespace, s.Cluster.Name, named)
	}
	s.class = &clusterv1.ClusterClass{}
	return typed(u, s.class)
}

// references are the templates that the class names.
func (s *Source) references() (all []clusterv1.ClusterClassTemplateReference) {
	c := &s.class.Spec
	all = append(all, c.Infrastructure.TemplateRef, c.ControlPlane.TemplateRef, c.ControlPlane.MachineInfrastructure.TemplateRef)
	for _, w := range c.Workers.MachineDeployments {
		all = append(all, w.Bootstrap.TemplateRef, w.Infrastructure.TemplateRef)
	}
	for _, w := range c.Workers.MachinePools {
		all = append(all, w.Bootstrap.TemplateRef, w.Infrastructure.TemplateRef)
	}
	return slices.DeleteFunc(all, func(r clusterv1.ClusterClassTemplateReference) bool { return !r.IsDefined() })
}

func (s *Source) findTemplates(lookup Lookup, definitions map[string]*unstructured.Unstructured) error {
	var missing []error
	for _, ref := range s.references() {
		k := key{ref.GroupVersionKind().Group, ref.Kind, s.class.Namespace, ref.Name}
		if s.templates[k] != nil || lookup == nil {
			if s.templates[k] == nil {
				missing = append(missing, fmt.Errorf("ClusterClass %s/%s names %s %s/%s, which is not there: give a file with it", s.class.Namespace, s.class.Name, ref.Kind, s.class.Namespace, ref.Name))
			}
			continue
		}
		u, err := lookup.Object(ref.APIVersion, ref.Kind, types.NamespacedName{Namespace: s.class.Namespace, Name: ref.Name})
		if err != nil {
			missing = append(missing, err)
			continue
		}
		if u == nil {
			missing = append(missing, fmt.Errorf("ClusterClass %s/%s names %s %s/%s, which does not exist: create it, or give a file with it", s.class.Namespace, s.class.Name, ref.Kind, s.class.Namespace, ref.Name))
			continue
		}
		s.templates[k] = u
	}
	if err := errors.Join(missing...); err != nil {
		return err
	}
	gvk := s.class.Spec.ControlPlane.TemplateRef.GroupVersionKind()
	gvk.Kind = strings.TrimSuffix(gvk.Kind, clusterv1.TemplateSuffix)
	var err error
	switch d := definitions[contract.CRDName(gvk.Group, gvk.Kind)]; {
	case d != nil:
		if s.contract, err = contract.Followed(d.GetLabels(), gvk.Version); err != nil {
			err = fmt.Errorf("CustomResourceDefinition %s: %w", d.GetName(), err)
		}
	case lookup != nil:
		s.contract, err = lookup.Contract(gvk)
	case gvk.GroupKind() == controlplanev1.GroupVersion().WithKind("KubeadmControlPlane").GroupKind(): // each of its versions implements the contract of that name
		s.contract = gvk.Version
	default:
		s.contract = contract.V1Beta2
	}
	return err
}

func (s *Source) template(ref clusterv1.ClusterClassTemplateReference) (*unstructured.Unstructured, error) {
	u := s.templates[key{ref.GroupVersionKind().Group, ref.Kind, s.class.Namespace, ref.Name}]
	if u == nil {
		return nil, fmt.Errorf("%s %s/%s is not there", ref.Kind, s.class.Namespace, ref.Name)
	}
	return converted(u, ref.APIVersion)
}

// SetVariable sets a variable of the topology to a value, which is YAML.
func (s *Source) SetVariable(name, value string) error {
	raw, err := yaml.YAMLToJSON([]byte(value))
	if err != nil {
		return fmt.Errorf("variable %s: its value is not YAML: %w", name, err)
	}
	all := &s.Cluster.Spec.Topology.Variables
	i := slices.IndexFunc(*all, func(v clusterv1.ClusterVariable) bool { return v.Name == name })
	if i < 0 {
		*all = append(*all, clusterv1.ClusterVariable{Name: name})
		i = len(*all) - 1
	}
	(*all)[i].Value = apiextensionsv1.JSON{Raw: raw}
	return nil
}

// settle validates version and variables of the Cluster as admission does, and sets the
// defaults of variables.
func (s *Source) settle() error {
	at, t := field.NewPath("spec", "topology"), &s.Cluster.Spec.Topology
	t.Version = fieldvalidation.NormalVersion(t.Version)
	errs := fieldvalidation.Version(at.Child("version"), t.Version)
	if t.Version == "" {
		errs = append(errs, field.Required(at.Child("version"), "say which version of Kubernetes the Cluster is to run"))
	}
	definitions, err := s.definitions()
	if err != nil {
		return err
	}
	if wrong := definitions.Default(at, t); len(wrong) > 0 {
		errs = append(errs, wrong...)
	} else {
		errs = append(errs, definitions.Validate(at, t, nil)...)
	}
	if err := errs.ToAggregate(); err != nil {
		return fmt.Errorf("Cluster %s/%s: %w", s.Cluster.Namespace, s.Cluster.Name, err)
	}
	return nil
}

// definitions returns the variables of the class: inline ones from its spec, and those of
// extensions from its status, or from the extensions themselves if it has none.
func (s *Source) definitions() (*variables.Definitions, error) {
	c := s.class
	wrong := func(err error) (*variables.Definitions, error) {
		return nil, fmt.Errorf("ClusterClass %s/%s: %w", c.Namespace, c.Name, err)
	}
	if errs := variables.Check(field.NewPath("spec", "variables"), c.Spec.Variables, nil); len(errs) > 0 {
		return wrong(errs.ToAggregate())
	}
	sources := []variables.Source{{From: clusterv1.VariableDefinitionFromInline, Variables: c.Spec.Variables}}
	for _, p := range c.Spec.Patches {
		if p.External == nil || p.External.DiscoverVariablesExtension == "" {
			continue
		}
		all, err := discovered(c, p.Name), error(nil)
		switch {
		case len(c.Status.Conditions) > 0:
		case s.discover == nil:
			err = fmt.Errorf("its variables are discovered by extension %s, which can only be asked at a management cluster: give the class as `kubectl get clusterclass %s -o yaml` shows it there, with its status", p.External.DiscoverVariablesExtension, c.Name)
		default:
			all, err = s.discover(*p.External)
		}
		if err != nil {
			return wrong(fmt.Errorf("patch %q: %w", p.Name, err))
		}
		sources = append(sources, variables.Source{From: p.Name, Variables: all})
	}
	merged, err := variables.Merge(sources, nil)
	if err != nil {
		return wrong(err)
	}
	c.Status.Variables = merged // patches read them there
	definitions, err := variables.Resolve(merged, variables.Compile)
	if err != nil {
		return wrong(err)
	}
	return definitions, nil
}

func discovered(c *clusterv1.ClusterClass, from string) (all []clusterv1.ClusterClassVariable) {
	for _, v := range c.Status.Variables {
		for _, d := range v.Definitions {
			if d.From == from {
				all = append(all, clusterv1.ClusterClassVariable{Name: v.Name, Required: d.Required, Schema: d.Schema, DeprecatedV1Beta1Metadata: d.DeprecatedV1Beta1Metadata})
			}
		}
	}
	return all
}

func (s *Source) patches() (*patches.Class, error) {
	compiled, err := patches.Compile(s.class)
	if err != nil {
		return nil, fmt.Errorf("ClusterClass %s/%s: %w", s.class.Namespace, s.class.Name, err)
	}
	return compiled, nil
}
