// SPDX-License-Identifier: Apache-2.0

package command

import (
	"path/filepath"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/internal/kit/datadir"
)

// goProxy is what GOPROXY is for go's own commands unless it is set. The build
// reads it from go and links it in; without it, GitHub's API lists the versions.
var goProxy string

// Sources are the configuration, and how the repositories of providers are reached.
func (e *Env) Sources() (*config.Config, repository.Options, error) {
	c, err := e.Config()
	if err != nil {
		return nil, repository.Options{}, err
	}
	o, err := e.Repositories()
	return c, o, err
}

// Repositories returns how the repositories of providers are reached.
func (e *Env) Repositories() (repository.Options, error) {
	c, err := e.Config()
	if err != nil {
		return repository.Options{}, err
	}
	overrides, err := c.Overrides()
	used := func(file string) { e.Say("Using override %s", file) }
	o := repository.Options{Overrides: overrides, Overridden: used, Variable: c.Variable, GoProxy: goProxy, Cache: e.releasesDir()}
	if dir := e.DefaultDataDir(); dir != "" {
		o.Registries = datadir.Dir(dir).Registries()
	}
	return o, err
}

// releasesDir is where the files of releases are kept once they were fetched; empty
// when the environment names no home.
func (e *Env) releasesDir() string {
	cache := e.Getenv("XDG_CACHE_HOME")
	if home := e.Getenv("HOME"); cache == "" && home != "" {
		cache = filepath.Join(home, ".cache")
	}
	if !filepath.IsAbs(cache) {
		return ""
	}
	return filepath.Join(cache, "capstan", "releases")
}

// ProviderFlag is the flag that names providers of one type.
type ProviderFlag struct {
	Type clusterctlv1.ProviderType
	// Name and Short are those of the flag; Short may be empty.
	Name, Short string
	// What the type is called by people.
	What string
}

// ProviderFlags returns those of all types, core first.
func ProviderFlags() []ProviderFlag {
	return []ProviderFlag{
		{clusterctlv1.CoreProviderType, "core", "", "core"},
		{clusterctlv1.BootstrapProviderType, "bootstrap", "b", "bootstrap"},
		{clusterctlv1.ControlPlaneProviderType, "control-plane", "c", "control plane"},
		{clusterctlv1.InfrastructureProviderType, "infrastructure", "i", "infrastructure"},
		{clusterctlv1.IPAMProviderType, "ipam", "", "IPAM"},
		{clusterctlv1.RuntimeExtensionProviderType, "runtime-extension", "", "runtime extension"},
		{clusterctlv1.AddonProviderType, "addon", "", "add-on"},
	}
}
