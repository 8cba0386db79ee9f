// SPDX-License-Identifier: Apache-2.0

package install

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/components"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/contract"
)

// Release is one version of a provider, ready to be installed.
type Release struct {
	*components.Components
	// Contract is the version of the contract that it implements.
	Contract string
}

// Label is the label of its components.
func (r Release) Label() string { return r.Provider.Label() }

// String names it, for people.
func (r Release) String() string { return r.Label() + " " + r.Version }

// Validate returns an error if releases cannot be installed together with the installed
// providers: only one core may exist, no provider may have a second instance, all
// contracts must fit, and definitions must have the names by which controllers find them.
func Validate(installed inventory.Providers, releases []Release) error {
	errs := []error{oneCore(installed, releases)}
	for i, r := range releases {
		for _, p := range installed.Named(r.Provider.Name, r.Provider.Type) {
			errs = append(errs, fmt.Errorf("%s is installed already, version %s in namespace %s, and there can be no second one: `upgrade apply` changes its version", r.Label(), p.Version, p.Namespace))
		}
		if slices.ContainsFunc(releases[:i], func(o Release) bool { return o.Label() == r.Label() }) {
			errs = append(errs, fmt.Errorf("%s is named twice", r.Label()))
		}
		errs = append(errs, Fits(r), r.Validate())
	}
	return errors.Join(errs...)
}

func oneCore(installed inventory.Providers, releases []Release) error {
	var names []string
	for _, p := range installed.OfType(clusterctlv1.CoreProviderType) {
		names = append(names, fmt.Sprintf("%s %s in namespace %s", p.ProviderName, p.Version, p.Namespace))
	}
	there := len(names)
	for _, r := range releases {
		if r.Provider.Type == clusterctlv1.CoreProviderType && len(installed.Named(r.Provider.Name, r.Provider.Type)) == 0 {
			names = append(names, r.Provider.Name)
		}
	}
	switch {
	case len(names) == 0:
		return errors.New("there would be no core provider: give one with --core")
	case len(names) > 1 && len(names) > there:
		return fmt.Errorf("there would be more than one core provider (%s): give one", strings.Join(names, ", "))
	}
	return nil
}

// Fits returns an error if a provider does not work with the current controllers: a core
// must implement the newest version of the contract, others any known one.
func Fits(r Release) error {
	known := contract.Versions()
	if r.Provider.Type == clusterctlv1.CoreProviderType {
		known = known[:1]
	}
	return repository.CheckContract(r.String(), r.Contract, known)
}
