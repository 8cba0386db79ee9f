// SPDX-License-Identifier: Apache-2.0

// Package components builds the objects of a provider from the file of its release: with
// the variables filled in, in one namespace, labelled, and in the order in which they are
// installed.
package components

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/template"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/manifests"
)

// Input is what components are built from.
type Input struct {
	Provider config.Provider
	Version  string
	// Raw is the file of the release.
	Raw []byte
	// Namespace of the provider; "" means that of the file.
	Namespace string
	// Variables gives the values of variables; nil means that there are none.
	Variables func(name string) (string, bool)
	// OnlyLook is for callers that do not install the components: variables without a
	// value stay, as ${NAME}, and objects stay in the namespace of the file.
	OnlyLook bool
	// Image returns the image to use instead of one, for the label of the provider;
	// nil keeps them.
	Image func(component, image string) (string, error)
	// Processor of the file; nil means template.Envsubst.
	Processor template.Processor
}

// Components are the objects of a provider.
type Components struct {
	Provider config.Provider
	Version  string
	// Namespace of the objects; "" if they are only displayed and it is not known.
	Namespace string
	// Variables of the file with their defaults; the default is nil for one that must
	// be given.
	Variables map[string]*string
	// Images that they use, sorted.
	Images []string
	// Warnings are what a provider should not do but is allowed to do.
	Warnings []string

	objects []*unstructured.Unstructured
}

// Load builds the components of a provider.
func Load(in Input) (*Components, error) {
	c := &Components{Provider: in.Provider, Version: in.Version}
	if err := c.load(in); err != nil {
		return nil, fmt.Errorf("components of %s: %w", strings.TrimSpace(in.Provider.Label()+" "+in.Version), err)
	}
	return c, nil
}

func (c *Components) load(in Input) (err error) {
	if in.Processor == nil {
		in.Processor = template.Envsubst{}
	}
	if c.Variables, err = in.Processor.Variables(in.Raw); err != nil {
		return err
	}
	text, err := in.Processor.Process(in.Raw, func(name string) (string, bool) { return c.value(in, name) })
	if err != nil {
		return err
	}
	if c.objects, err = template.Objects(text); err != nil {
		return err
	}
	if err := named(c.objects); err != nil {
		return err
	}
	home, err := c.home()
	if err != nil {
		return err
	}
	if c.Namespace = in.Namespace; c.Namespace == "" && home != nil {
		c.Namespace = home.GetName()
	}
	if !in.OnlyLook {
		if err := c.place(home); err != nil {
			return err
		}
	}
	if c.Images, err = ReplaceImages(c.objects, c.Provider.Label(), in.Image); err != nil {
		return err
	}
	for _, obj := range c.objects {
		c.label(obj)
	}
	c.warnWithoutManager()
	c.warnWithoutCertificate()
	c.warnWithoutRole()
	slices.SortStableFunc(c.objects, func(a, b *unstructured.Unstructured) int { return cmp.Compare(rank(a), rank(b)) })
	return nil
}

// label labels an object as one of the provider's.
func (c *Components) label(obj *unstructured.Unstructured) {
	labels := obj.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[clusterctlv1.ClusterctlLabel] = ""
	labels[clusterv1.ProviderNameLabel] = c.Provider.Label()
	obj.SetLabels(labels)
}

func (c *Components) value(in Input, name string) (string, bool) {
	if in.Variables != nil {
		if v, ok := in.Variables(name); ok {
			return v, true
		}
	}
	if in.OnlyLook && c.Variables[name] == nil {
		return "${" + name + "}", true
	}
	return "", false
}

// named refuses objects that cannot be found again.
func named(objects []*unstructured.Unstructured) error {
	if len(objects) == 0 {
		return errors.New("the file has no objects")
	}
	for i, obj := range objects {
		if obj.GetName() == "" {
			return fmt.Errorf("object %d, of kind %s, has no name", i+1, obj.GetKind())
		}
	}
	return nil
}

// Objects returns all objects, in the order in which they are installed: the
// Namespace, what defines kinds, what makes certificates, then all others as the
// file has them. They are not copies.
func (c *Components) Objects() []*unstructured.Unstructured { return c.objects }

// YAML returns all objects as one file.
func (c *Components) YAML() ([]byte, error) { return template.YAML(c.objects) }

// InventoryObject returns the object by which clusterctl finds the provider.
func (c *Components) InventoryObject() *clusterctlv1.Provider {
	return new(inventory.Object(c.Provider.Label(), c.Provider.Name, c.Provider.Type, c.Version, c.Namespace))
}

// Validate returns an error for each CustomResourceDefinition whose name differs from the
// one that the contract computes, by which the controllers would not find it.
func (c *Components) Validate() error {
	var errs []error
	for _, obj := range c.objects {
		if _, skip := obj.GetAnnotations()[clusterctlv1.SkipCRDNamePreflightCheckAnnotation]; skip || !is(obj, customResourceDefinition) {
			continue
		}
		group, kind := text(obj, "spec", "group"), text(obj, "spec", "names", "kind")
		if want := contract.CRDName(group, kind); obj.GetName() != want {
			errs = append(errs, fmt.Errorf("CustomResourceDefinition %s of %s: the contract computes the name %s from its kind and group; if no other object refers to the kind, annotate it with %s",
				obj.GetName(), c.Provider.Label(), want, clusterctlv1.SkipCRDNamePreflightCheckAnnotation))
		}
	}
	return errors.Join(errs...)
}

const certManagerGroup = "cert-manager.io"

var (
	namespaceKind            = schema.GroupKind{Kind: "Namespace"}
	customResourceDefinition = schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"}
	certificate              = schema.GroupKind{Group: certManagerGroup, Kind: "Certificate"}
)

func is(obj *unstructured.Unstructured, kind schema.GroupKind) bool { return groupKind(obj) == kind }

func groupKind(obj *unstructured.Unstructured) schema.GroupKind {
	return obj.GroupVersionKind().GroupKind()
}

// rank orders objects by their dependencies.
func rank(obj *unstructured.Unstructured) int {
	switch {
	case is(obj, namespaceKind):
		return 0
	case is(obj, customResourceDefinition):
		return 1
	case is(obj, certificate):
		return 3 // after its issuer
	case groupKind(obj).Group == certManagerGroup:
		return 2
	}
	return 4
}

// text returns a field of an object; "" if it does not exist, or is not text.
func text(obj *unstructured.Unstructured, path ...string) string {
	s, _, _ := unstructured.NestedString(obj.Object, path...)
	return s
}

// manager is the name of the container that runs the controllers.
const manager = "manager"

// warnWithoutManager warns when the provider's Deployment cannot be identified: commands
// wait for that Deployment, and scale it down before an upgrade.
func (c *Components) warnWithoutManager() {
	for _, obj := range c.objects {
		if obj.GetKind() != "Deployment" {
			continue
		}
		for _, container := range containers(podSpec(obj)) {
			if container["name"] == manager {
				return
			}
		}
	}
	c.warn("no Deployment has a container %q, which the contract demands: nothing is waited for when it is installed", manager)
}

// warnWithoutCertificate names objects that wait forever for an authority: that of a
// Certificate that the file does not have.
func (c *Components) warnWithoutCertificate() {
	const annotation = certManagerGroup + "/inject-ca-from"
	names := map[string]bool{}
	for _, obj := range c.objects {
		if is(obj, certificate) {
			names[obj.GetName()] = true
		}
	}
	for _, obj := range c.objects {
		value := obj.GetAnnotations()[annotation]
		_, name, _ := strings.Cut(value, "/")
		if value != "" && !names[name] {
			c.warn("%s: annotation %s is %q, and the file has no Certificate of that name: correct one of them", describe(obj), annotation, value)
		}
	}
}

// ofTheProject are the groups that the role of the core's manager grants.
var ofTheProject = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

// warnWithoutRole names kinds of another group that the core's manager cannot watch in
// a cluster. In a plane it can, so that an author would not see it there.
func (c *Components) warnWithoutRole() {
	switch c.Provider.Type {
	case clusterctlv1.InfrastructureProviderType, clusterctlv1.BootstrapProviderType, clusterctlv1.ControlPlaneProviderType:
	default:
		return // the core reads no kinds of others
	}
	for _, obj := range c.objects {
		group, kind := text(obj, "spec", "group"), text(obj, "spec", "names", "plural")
		if _, _, err := contract.Choose(obj.GetLabels()); !is(obj, customResourceDefinition) || err != nil || slices.Contains(ofTheProject, group) {
			continue
		}
		if !slices.ContainsFunc(c.objects, func(role *unstructured.Unstructured) bool { return aggregated(role, group, kind) }) {
			c.warn("%s: no ClusterRole with the label %s: \"true\" grants the verb watch on %s in %s: add one, because the core's manager has no other right to them in a cluster", describe(obj), manifests.AggregateLabel, kind, group)
		}
	}
}

// aggregated reports whether a role lets the core's manager watch a kind.
func aggregated(role *unstructured.Unstructured, group, kind string) bool {
	rules, _, _ := unstructured.NestedSlice(role.Object, "rules")
	return role.GetKind() == "ClusterRole" && role.GetLabels()[manifests.AggregateLabel] == "true" && slices.ContainsFunc(rules, func(rule any) bool {
		fields, _ := rule.(map[string]any)
		has := func(field, want string) bool {
			all, _, _ := unstructured.NestedStringSlice(fields, field)
			return slices.Contains(all, want) || slices.Contains(all, "*")
		}
		return has("apiGroups", group) && has("resources", kind) && has("verbs", "watch")
	})
}

func (c *Components) warn(format string, args ...any) {
	c.Warnings = append(c.Warnings, fmt.Sprintf(format, args...))
}

// describe names an object.
func describe(obj *unstructured.Unstructured) string { return obj.GetKind() + " " + obj.GetName() }

func sorted(set map[string]bool) []string { return slices.Sorted(maps.Keys(set)) }
