// SPDX-License-Identifier: Apache-2.0

// Package install installs providers on a management cluster and deletes them, with
// upstream's order, checks and inventory. Its CertManager installs cert-manager where no
// controller issues the Certificates of providers, and upgrades what it has installed; a
// plane of Capstan issues them itself.
package install

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
)

// None instead of a name selects no provider of a type that would have a default.
const None = "-"

// Selection are providers as users name them on a command line: NAME or NAME:VERSION,
// and for an upgrade NAMESPACE/NAME:VERSION.
type Selection map[clusterctlv1.ProviderType][]string

// Empty reports whether no provider is named.
func (s Selection) Empty() bool {
	for _, names := range s {
		if len(names) > 0 {
			return false
		}
	}
	return true
}

// Wanted is a provider that is named.
type Wanted struct {
	Name string
	Type clusterctlv1.ProviderType
	// Version is empty for the latest, or for the installed one.
	Version string
	// Namespace is that of the instance, if it was named.
	Namespace string
}

// Label is the label of the provider's components.
func (w Wanted) Label() string { return config.Provider{Name: w.Name, Type: w.Type}.Label() }

// String is the label, for people, and the version if one is named.
func (w Wanted) String() string {
	if w.Version == "" {
		return w.Label()
	}
	return w.Label() + ":" + w.Version
}

// Wanted returns the named providers, in the order of their installation; the error has
// all that is wrong in the names.
func (s Selection) Wanted() (all []Wanted, err error) {
	var errs []error
	types := slices.SortedFunc(maps.Keys(s), func(a, b clusterctlv1.ProviderType) int {
		return config.Compare(config.Provider{Type: a}, config.Provider{Type: b})
	})
	for _, t := range types {
		for _, text := range s[t] {
			w, err := parse(text, t)
			errs = append(errs, err)
			all = append(all, w)
		}
	}
	return all, errors.Join(errs...)
}

func parse(text string, t clusterctlv1.ProviderType) (Wanted, error) {
	name, v, versioned := strings.Cut(text, ":")
	w := Wanted{Type: t, Name: name, Version: v}
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		w.Namespace, w.Name = namespace, rest
		if namespace == "" {
			return w, fmt.Errorf("%s %q: no namespace before the slash: give NAMESPACE/NAME, or NAME", t, text)
		}
	}
	if w.Name == "" || w.Name == None && (versioned || t == clusterctlv1.CoreProviderType) {
		return w, fmt.Errorf("%s %q names no provider: give NAME or NAME:VERSION", t, text)
	}
	if _, err := version.ParseSemantic(v); versioned && err != nil {
		return w, fmt.Errorf("%s %q: version %q is not semantic: give one such as v1.2.3", t, text, v)
	}
	return w, nil
}

// withDefaults adds the providers that a first installation has by default, if none of
// the type is installed or named: core, and bootstrap and control plane by kubeadm.
func (s Selection) withDefaults(installed inventory.Providers) Selection {
	out := Selection{}
	maps.Copy(out, s)
	for t, name := range map[clusterctlv1.ProviderType]string{
		clusterctlv1.CoreProviderType: "cluster-api", clusterctlv1.BootstrapProviderType: "kubeadm", clusterctlv1.ControlPlaneProviderType: "kubeadm",
	} {
		if len(out[t]) == 0 && len(installed.OfType(t)) == 0 {
			out[t] = []string{name}
		}
	}
	return out
}
