// SPDX-License-Identifier: Apache-2.0

// Package config reads the user's file and environment: which providers exist and where
// their releases are, images to use instead of others, and the values of variables. It
// reads the file once, when it is loaded.
package config

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// ClusterAPI is the name of the only core provider.
const ClusterAPI = "cluster-api"

// Provider is one provider, with the location of its releases.
type Provider struct {
	// Name without the prefix of its type.
	Name string
	Type clusterctlv1.ProviderType
	// URL of the components of one release, or of the latest.
	URL string
}

// prefixes precede the names of providers in their labels, in the order in which
// providers are listed and installed.
var prefixes = []struct {
	kind   clusterctlv1.ProviderType
	prefix string
}{
	{clusterctlv1.CoreProviderType, ""},
	{clusterctlv1.BootstrapProviderType, "bootstrap-"},
	{clusterctlv1.ControlPlaneProviderType, "control-plane-"},
	{clusterctlv1.InfrastructureProviderType, "infrastructure-"},
	{clusterctlv1.IPAMProviderType, "ipam-"},
	{clusterctlv1.RuntimeExtensionProviderType, "runtime-extension-"},
	{clusterctlv1.AddonProviderType, "addon-"},
}

func order(t clusterctlv1.ProviderType) int {
	for i, p := range prefixes {
		if p.kind == t {
			return i
		}
	}
	return len(prefixes)
}

// Label identifies a provider among those of all types: cluster-api,
// bootstrap-kubeadm, infrastructure-aws.
func (p Provider) Label() string {
	if n := order(p.Type); n < len(prefixes) {
		return prefixes[n].prefix + p.Name
	}
	return p.Name
}

// Compare orders providers as they are listed and installed: by type, then by
// name.
func Compare(a, b Provider) int {
	return cmp.Or(cmp.Compare(order(a.Type), order(b.Type)), cmp.Compare(a.Name, b.Name))
}

// check refuses what cannot be a provider. Its errors name what to write instead.
func (p Provider) check() error {
	if p.Name == "" {
		return errors.New("name is missing: add `name: NAME`")
	}
	if len(validation.IsDNS1123Label(p.Name)) > 0 {
		return fmt.Errorf("name %q: use lower-case letters, digits and '-', at most 63, with a letter or digit at both ends", p.Name)
	}
	if order(p.Type) == len(prefixes) {
		return fmt.Errorf("type %q is not known: use %s", p.Type, strings.Join(typeNames(), ", "))
	}
	if (p.Name == ClusterAPI) != (p.Type == clusterctlv1.CoreProviderType) {
		return fmt.Errorf("name %s with type %s: the provider %s is the only one of type %s", p.Name, p.Type, ClusterAPI, clusterctlv1.CoreProviderType)
	}
	if p.URL == "" {
		return errors.New("url is missing: add `url: URL`, of the components of a release")
	}
	if _, err := url.Parse(p.URL); err != nil {
		return fmt.Errorf("url: %w", err)
	}
	return nil
}

func typeNames() (names []string) {
	for _, p := range prefixes {
		names = append(names, string(p.kind))
	}
	return names
}

// entry is a provider as the file has it.
type entry struct {
	Name string `json:"name"`
	URL  string `json:"url"`
	Type string `json:"type"`
}

// Providers returns all providers, those that are built in and those of the file, in the
// order of Compare. An entry of the file replaces a built-in one with the same name and
// type.
func (c *Config) Providers() ([]Provider, error) {
	all := builtin()
	var entries []entry
	if err := c.decode("providers", &entries); err != nil {
		return nil, err
	}
	var errs []error
	said := map[string]int{}
	for i, e := range entries {
		p, err := c.provider(e)
		if before, twice := said[p.Label()]; err == nil && twice {
			err = fmt.Errorf("entry %d is of the same name and type: keep one", before)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: providers, entry %d (%s): %w", c.where(), i+1, cmp.Or(e.Name, "without a name"), err))
			continue
		}
		said[p.Label()] = i + 1
		if at := slices.IndexFunc(all, func(b Provider) bool { return b.Label() == p.Label() }); at >= 0 {
			all[at] = p
		} else {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, Compare)
	return all, errors.Join(errs...)
}

// provider returns the provider that an entry of the file describes.
func (c *Config) provider(e entry) (Provider, error) {
	p := Provider{Name: e.Name, Type: clusterctlv1.ProviderType(e.Type), URL: e.URL}
	filled, err := c.fill(e.URL)
	if err != nil {
		return p, fmt.Errorf("url: %w", err)
	}
	p.URL = filled
	return p, p.check()
}

// Provider returns one provider. If it is not found, the error lists those that exist.
func (c *Config) Provider(name string, t clusterctlv1.ProviderType) (Provider, error) {
	all, err := c.Providers()
	if err != nil {
		return Provider{}, err
	}
	var names []string
	for _, p := range all {
		if p.Type != t {
			continue
		}
		if p.Name == name {
			return p, nil
		}
		names = append(names, p.Name)
	}
	if order(t) == len(prefixes) {
		return Provider{}, fmt.Errorf("provider type %q is not known: use %s", t, strings.Join(typeNames(), ", "))
	}
	return Provider{}, &UnknownProviderError{Name: name, Type: t, Known: names}
}

// UnknownProviderError means that the provider is not found.
type UnknownProviderError struct {
	Name string
	Type clusterctlv1.ProviderType
	// Known are the names of those of the type.
	Known []string
}

func (e *UnknownProviderError) Error() string {
	text := fmt.Sprintf("there is no %s %q", e.Type, e.Name)
	if near := suggest.Of(e.Name, e.Known); near != "" {
		return fmt.Sprintf("%s: did you mean %q? Others are added under `providers` of the configuration file", text, near)
	}
	return fmt.Sprintf("%s: add it under `providers` of the configuration file, or use one of %s", text, strings.Join(e.Known, ", "))
}

// ComponentsFile is the name of the file with a provider's components, unless its URL has
// another.
func (p Provider) ComponentsFile() string {
	if p.Type == clusterctlv1.CoreProviderType {
		return "core-components.yaml"
	}
	return strings.TrimSuffix(p.Label(), p.Name) + "components.yaml"
}
