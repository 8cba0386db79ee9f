// SPDX-License-Identifier: Apache-2.0

// Package definition checks what a provider installs: definitions of kinds, and their
// roles.
package definition

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/contract"
)

type crd = apiextensionsv1.CustomResourceDefinition

// Source holds the available definitions and roles.
type Source struct {
	definitions []crd
	roles       []rbacv1.ClusterRole
	installed   bool // on a management cluster
}

// Read reads the manifests of a release.
func Read(files []string) (*Source, error) {
	src := &Source{}
	for _, file := range files {
		if err := src.read(file); err != nil {
			return nil, err
		}
	}
	return src, nil
}

// List reads what is installed on a management cluster.
func List(ctx context.Context, mgmt client.Client) (*Source, error) {
	var crds apiextensionsv1.CustomResourceDefinitionList
	if err := mgmt.List(ctx, &crds); err != nil {
		return nil, fmt.Errorf("list CustomResourceDefinitions: %w", err)
	}
	var roles rbacv1.ClusterRoleList
	if err := mgmt.List(ctx, &roles); err != nil {
		return nil, fmt.Errorf("list ClusterRoles: %w", err)
	}
	return &Source{definitions: crds.Items, roles: roles.Items, installed: true}, nil
}

// read reads the definitions and roles of a manifest. Other content, such as variables in
// Deployments, does not matter.
func (s *Source) read(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the release: %w", err)
	}
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(text)))
	for n := 1; ; n++ {
		doc, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read document %d of %s: %w", n, file, err)
		}
		var is metav1.TypeMeta
		if yaml.Unmarshal(doc, &is) != nil {
			continue
		}
		switch is.Kind {
		case "CustomResourceDefinition":
			var d crd
			if err = yaml.Unmarshal(doc, &d); err == nil {
				s.definitions = append(s.definitions, d)
			}
		case "ClusterRole":
			var role rbacv1.ClusterRole
			if err = yaml.Unmarshal(doc, &role); err == nil {
				s.roles = append(s.roles, role)
			}
		}
		if err != nil {
			return fmt.Errorf("read %s in document %d of %s: %w", is.Kind, n, file, err)
		}
	}
}

// find returns the definition of a kind.
func (s *Source) find(kind schema.GroupKind) (*crd, error) {
	for i, d := range s.definitions {
		if d.Spec.Group == kind.Group && d.Spec.Names.Kind == kind.Kind {
			return &s.definitions[i], nil
		}
	}
	return nil, fmt.Errorf("there is no CustomResourceDefinition of %s in group %s", kind.Kind, kind.Group)
}

// Named returns the kinds whose names end with suffix, and that have a template if they
// must.
func (s *Source) Named(suffix string, template bool) (kinds []schema.GroupKind) {
	for _, d := range s.definitions {
		kind := schema.GroupKind{Group: d.Spec.Group, Kind: d.Spec.Names.Kind}
		if !strings.HasSuffix(kind.Kind, suffix) || kind.Kind == suffix || !promised(d.Labels) {
			continue
		}
		if _, err := s.find(TemplateOf(kind)); err != nil && template {
			continue
		}
		kinds = append(kinds, kind)
	}
	slices.SortFunc(kinds, func(a, b schema.GroupKind) int { return cmp.Compare(a.String(), b.String()) })
	return kinds
}

// promised reports whether a definition has a label of a contract.
func promised(labels map[string]string) bool {
	return slices.ContainsFunc(contract.Versions(), func(v string) bool { return labels[contractLabel(v)] != "" })
}

func contractLabel(version string) string { return "cluster.x-k8s.io/" + version }

// TemplateOf is the kind of the template that goes with a kind.
func TemplateOf(kind schema.GroupKind) schema.GroupKind {
	return schema.GroupKind{Group: kind.Group, Kind: kind.Kind + "Template"}
}

// Kind is one kind of a provider.
type Kind struct {
	schema.GroupKind
	Source *Source

	// Contract is its version, when Labelled has found it.
	Contract string

	definition *crd
}

// each calls look for the definition of the kind, and of its template if it has one.
func (k *Kind) each(look func(*crd) error) error {
	d, err := k.Source.find(k.GroupKind)
	if err != nil {
		return err
	}
	errs := []error{look(d)}
	if d, err := k.Source.find(TemplateOf(k.GroupKind)); err == nil {
		errs = append(errs, look(d))
	}
	return errors.Join(errs...)
}

// known records the definition and the contract that it implements.
func (k *Kind) known() error {
	d, err := k.Source.find(k.GroupKind)
	if err != nil {
		return err
	}
	k.definition = d
	k.Contract, _, err = contract.Choose(d.Labels)
	return err
}

// There checks whether the definition exists.
func (k *Kind) There() error {
	_, err := k.Source.find(k.GroupKind)
	return err
}

// Labelled checks the labels that name contracts, as far as Cluster API uses them: it
// uses the latest version of the latest contract.
func (k *Kind) Labelled() error {
	if err := k.known(); err != nil {
		return fmt.Errorf("%s: %w", k.GroupKind, err)
	}
	return k.each(func(d *crd) error {
		_, used, err := contract.Choose(d.Labels)
		if err != nil {
			return fmt.Errorf("%s: %w", d.Name, err)
		}
		if v, err := versionOf(d, used); err != nil {
			return fmt.Errorf("%w, which Cluster API would use", err)
		} else if !v.Served {
			return fmt.Errorf("%s: version %q, which Cluster API would use, is not served", d.Name, used)
		}
		return nil
	})
}

// LabelsTrue checks the versions in labels that Cluster API does not use.
func (k *Kind) LabelsTrue() error {
	return k.each(func(d *crd) error {
		_, used, _ := contract.Choose(d.Labels) // Labelled reports it
		for _, v := range contract.Versions() {
			for _, api := range strings.FieldsFunc(d.Labels[contractLabel(v)], func(r rune) bool { return r == '_' }) {
				if _, err := versionOf(d, api); err != nil && api != used {
					return fmt.Errorf("label %s: %w", contractLabel(v), err)
				}
			}
		}
		return nil
	})
}

// UpToDate checks whether the kind implements the latest contract.
func (k *Kind) UpToDate() error {
	if latest := contract.Versions()[0]; k.Contract != latest {
		return fmt.Errorf("it keeps the contract %s, by which it is checked here; the latest is %s", k.Contract, latest)
	}
	return nil
}

// Movable checks for the label by which clusterctl finds what it moves.
func (k *Kind) Movable() error {
	if !k.Source.installed {
		return conformance.Skip("clusterctl sets it when it installs a release")
	}
	return k.each(func(d *crd) error {
		if _, ok := d.Labels[clusterctlLabel]; !ok {
			return fmt.Errorf("%s does not have the label %s", d.Name, clusterctlLabel)
		}
		return nil
	})
}

const clusterctlLabel = "clusterctl.cluster.x-k8s.io"

// WellNamed checks the names of definitions.
func (k *Kind) WellNamed() error {
	return k.each(func(d *crd) error {
		if want := contract.CRDName(d.Spec.Group, d.Spec.Names.Kind); d.Name != want {
			return fmt.Errorf("the CustomResourceDefinition of %s is called %s, want %s", d.Spec.Names.Kind, d.Name, want)
		}
		return nil
	})
}

// Namespaced checks the scope.
func (k *Kind) Namespaced() error {
	return k.each(func(d *crd) error {
		if d.Spec.Scope != apiextensionsv1.NamespaceScoped {
			return fmt.Errorf("spec.scope of %s is %s, want Namespaced", d.Name, d.Spec.Scope)
		}
		return nil
	})
}

// Listed checks the list kind.
func (k *Kind) Listed() error {
	return k.each(func(d *crd) error {
		if want := d.Spec.Names.Kind + "List"; cmp.Or(d.Spec.Names.ListKind, want) != want {
			return fmt.Errorf("spec.names.listKind of %s is %s, want %s", d.Name, d.Spec.Names.ListKind, want)
		}
		return nil
	})
}

// StatusApart checks for the status subresource.
func (k *Kind) StatusApart() error {
	v, err := k.served()
	if err != nil {
		return err
	}
	if v.Subresources == nil || v.Subresources.Status == nil {
		return fmt.Errorf("version %s of %s has no subresource status", v.Name, k.definition.Name)
	}
	return nil
}

// Usable reports whether Cluster API can use a version of the kind.
func (k *Kind) Usable() bool {
	if k.definition == nil || k.Contract == "" {
		return false
	}
	_, err := k.served()
	return err == nil
}

// served is the version of the definition that Cluster API uses.
func (k *Kind) served() (apiextensionsv1.CustomResourceDefinitionVersion, error) {
	_, api, err := contract.Choose(k.definition.Labels)
	if err != nil {
		return apiextensionsv1.CustomResourceDefinitionVersion{}, err
	}
	return versionOf(k.definition, api)
}

func versionOf(d *crd, api string) (apiextensionsv1.CustomResourceDefinitionVersion, error) {
	for _, v := range d.Spec.Versions {
		if v.Name == api {
			return v, nil
		}
	}
	return apiextensionsv1.CustomResourceDefinitionVersion{}, fmt.Errorf("%s has no version %q", d.Name, api)
}

// ofTheProject are the groups for which the core's own role has all permissions.
var ofTheProject = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

// RightsGranted checks for the role that lets the manager write.
func (k *Kind) RightsGranted() error {
	if slices.Contains(ofTheProject, k.GroupKind.Group) {
		return nil
	}
	return k.each(func(d *crd) error {
		want := []string{"create", "delete", "get", "list", "patch", "update", "watch"}
		if d.Spec.Names.Kind != k.Kind {
			want = []string{"get", "list", "patch", "update", "watch"}
		}
		var missing []string
		for _, verb := range want {
			if !slices.ContainsFunc(k.Source.roles, func(r rbacv1.ClusterRole) bool { return grants(r, verb, d) }) {
				missing = append(missing, verb)
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("no ClusterRole with the label cluster.x-k8s.io/aggregate-to-manager: \"true\" grants %s on %s in %s",
				strings.Join(missing, ", "), d.Spec.Names.Plural, d.Spec.Group)
		}
		return nil
	})
}

func grants(r rbacv1.ClusterRole, verb string, d *crd) bool {
	has := func(list []string, want string) bool {
		return slices.Contains(list, want) || slices.Contains(list, "*")
	}
	return r.Labels["cluster.x-k8s.io/aggregate-to-manager"] == "true" && slices.ContainsFunc(r.Rules, func(rule rbacv1.PolicyRule) bool {
		return has(rule.Verbs, verb) && has(rule.APIGroups, d.Spec.Group) && has(rule.Resources, d.Spec.Names.Plural) && len(rule.ResourceNames) == 0
	})
}

// Templated checks for the template.
func (k *Kind) Templated() error {
	_, err := k.Source.find(TemplateOf(k.GroupKind))
	return err
}
