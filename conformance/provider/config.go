// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/version"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-dev/capstan/conformance"
	"github.com/capstan-dev/capstan/conformance/internal/testnamespace"
)

// Config defines which provider is checked and how.
type Config struct {
	// Files are the manifests of a release. Definitions and roles are read
	// there, instead of on the management cluster.
	Files []string `json:"files,omitempty"`

	// KubernetesVersion is that of the machines; v1.36.0 when empty.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`

	// Objects are created before the examples, in their namespace: objects that examples
	// refer to by name.
	Objects []*unstructured.Unstructured `json:"objects,omitempty"`

	// The kinds of the provider. Without any of them, and with Files, the kinds are found
	// by their names.
	InfraCluster     *Subject `json:"infraCluster,omitempty"`
	InfraMachine     *Subject `json:"infraMachine,omitempty"`
	BootstrapConfig  *Subject `json:"bootstrapConfig,omitempty"`
	ControlPlane     *Subject `json:"controlPlane,omitempty"`
	InfraMachinePool *Subject `json:"infraMachinePool,omitempty"`

	// Roles limits the roles that are checked, such as InfraCluster; the others are only
	// dependencies. All when empty.
	Roles []string `json:"roles,omitempty"`

	// WatchFilter is the value of --watch-filter of the provider, if it has one: all
	// created objects have the label for it.
	WatchFilter string `json:"watchFilter,omitempty"`

	// Timeout is how long a step of the provider may take; 2 minutes when
	// zero.
	Timeout metav1.Duration `json:"timeout,omitzero"`

	// Quiet is how long the suite observes that nothing happens; 3 seconds when zero. It
	// does not find violations that take longer.
	Quiet metav1.Duration `json:"quiet,omitzero"`

	// Mgmt is the management cluster. Examine needs one for the examples; Run
	// starts a plane without one.
	Mgmt *rest.Config `json:"-"`

	// Start, if set, is called by Run with the management cluster, before the checks, and
	// installs and runs the provider until the context ends. It returns when the provider
	// is ready.
	Start func(context.Context, *rest.Config) error `json:"-"`

	// Program is the capstan binary that Run starts a plane with; that of PATH when
	// empty.
	Program string `json:"-"`

	// Progress, if set, is called with each result as soon as it is available, never
	// concurrently.
	Progress func(conformance.Result) `json:"-"`

	// soon is how long purely informative state may be delayed; 10 seconds when zero.
	soon time.Duration

	// connect and nodes connect to the management cluster, and list the Nodes of the
	// Cluster that is created there.
	connect func(*rest.Config) (client.WithWatch, error)
	nodes   func(context.Context, *testnamespace.World) ([]corev1.Node, error)
}

// Subject is what a provider has for one role.
type Subject struct {
	// Kinds are checked in addition to that of the example.
	Kinds []metav1.GroupKind `json:"kinds,omitempty"`

	// Example is an object to create, with apiVersion, kind and spec. The suite sets its
	// name and namespace.
	Example *unstructured.Unstructured `json:"example,omitempty"`

	// Template is the one whose changes are tried by dry run; the Example's spec in a
	// template when nil.
	Template *unstructured.Unstructured `json:"template,omitempty"`

	// Change is a realistic change of the template's spec.template.spec, as a merge
	// patch. It is tried on the template by dry run, and made to the example as by an
	// in-place update, and reverted.
	Change map[string]any `json:"change,omitempty"`
}

// ReadConfig reads a config in YAML.
func ReadConfig(text []byte) (Config, error) {
	var c Config
	if err := yaml.UnmarshalStrict(text, &c); err != nil {
		return Config{}, fmt.Errorf("read the config: %w", err)
	}
	return c, nil
}

// complete fills in what is left out. The error names every mistake.
func (c Config) complete() (Config, error) {
	c.KubernetesVersion = cmp.Or(c.KubernetesVersion, "v1.36.0")
	c.Timeout.Duration = cmp.Or(c.Timeout.Duration, 2*time.Minute)
	c.Quiet.Duration = cmp.Or(c.Quiet.Duration, 3*time.Second)
	c.soon = min(c.Timeout.Duration, cmp.Or(c.soon, 10*time.Second))
	if c.connect == nil {
		c.connect, c.nodes = testnamespace.Connect, nodesOf
	}
	if c.Progress == nil {
		c.Progress = func(conformance.Result) {}
	}
	var errs []error
	if _, err := version.ParseSemantic(c.KubernetesVersion); err != nil {
		errs = append(errs, fmt.Errorf("kubernetesVersion: %w", err))
	}
	if c.Timeout.Duration < 0 || c.Quiet.Duration < 0 {
		errs = append(errs, fmt.Errorf("timeout %s, quiet %s: want more than zero", c.Timeout.Duration, c.Quiet.Duration))
	}
	for _, name := range c.Roles {
		if !slices.ContainsFunc(roles(), func(r *role) bool { return r.name == name }) {
			errs = append(errs, fmt.Errorf("roles: there is no role %q; there are %s", name, roleNames()))
		}
	}
	for _, r := range roles() {
		s := r.of(c)
		if s == nil && configured(c) && slices.Contains(c.Roles, r.name) {
			errs = append(errs, fmt.Errorf("roles: the config has no example and no kinds for %s", r.name))
		}
		if s == nil {
			continue
		}
		if s.Example == nil && len(s.Kinds) == 0 {
			errs = append(errs, fmt.Errorf("%s: give an example, or kinds", r.name))
		}
		for what, obj := range map[string]*unstructured.Unstructured{"example": s.Example, "template": s.Template} {
			if obj != nil && (obj.GetAPIVersion() == "" || obj.GetKind() == "") {
				errs = append(errs, fmt.Errorf("%s: the %s needs apiVersion and kind", r.name, what))
			}
		}
	}
	for i, obj := range c.Objects {
		if obj == nil || obj.GetAPIVersion() == "" || obj.GetName() == "" {
			errs = append(errs, fmt.Errorf("objects[%d]: want apiVersion, kind and metadata.name", i))
		}
	}
	if c.Mgmt == nil && c.NeedsManagement() {
		errs = append(errs, errors.New("a management cluster is needed for examples, and files without one"))
	}
	return c, errors.Join(errs...)
}

func (c Config) limits() testnamespace.Limits {
	return testnamespace.Limits{Timeout: c.Timeout.Duration, Soon: c.soon, Quiet: c.Quiet.Duration}
}

// NeedsManagement reports whether a management cluster is needed: to make the
// examples, or because definitions are not read from files.
func (c Config) NeedsManagement() bool {
	return len(c.Files) == 0 || slices.ContainsFunc(roles(), func(r *role) bool { s := r.of(c); return s != nil && s.Example != nil })
}
