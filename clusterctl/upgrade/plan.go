// SPDX-License-Identifier: Apache-2.0

// Package upgrade plans to which versions the providers of a management cluster can be
// upgraded, and upgrades them.
package upgrade

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	apimachineryversion "k8s.io/apimachinery/pkg/version"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/contract"
)

const (
	// maxSkip is how many minor versions core and the kubeadm providers may advance in
	// one step, from firstBounded on: versions that they no longer convert would be lost.
	maxSkip = 3
	// firstBounded is the first minor version with that limit.
	firstBounded = "v1.10.0-0"
)

// Releases are the known releases of an installed provider.
type Releases struct {
	Provider clusterctlv1.Provider
	// Versions are the released ones; Metadata is that of the newest.
	Versions []string
	Metadata *clusterctlv1.Metadata
	// Unknown is the reason why no releases are known, as for a provider that no
	// configuration names.
	Unknown string
}

// Item is what an upgrade does with one provider.
type Item struct {
	Provider clusterctlv1.Provider
	// Next is its new version, and empty if it keeps its own.
	Next string
	// Note is the reason why it keeps that, if it is not the newest already.
	Note string
}

// Plan is an upgrade to the newest releases that implement a version of the contract.
type Plan struct {
	Contract string
	// Applicable is false for a contract that this program does not support.
	Applicable bool
	Items      []Item
}

// Changes reports whether any provider gets another version.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Items, func(i Item) bool { return i.Next != "" })
}

const (
	noteBuiltIn = "built in: it is upgraded with the program that runs the management cluster"
	noteNewest  = "already up to date"
)

// Plans returns the upgrades that releases allow, one for each version of the contract
// that the core implements in any of its releases, from the present one on.
//
// A provider gets its newest release that is no pre-release and works with the core. A
// plan for a contract other than the present one is left out when a provider has no
// release that works with it: applying it would break that provider.
func Plans(all []Releases) []Plan {
	core := slices.IndexFunc(all, func(r Releases) bool { return r.Provider.GetProviderType() == clusterctlv1.CoreProviderType })
	if core < 0 {
		return nil
	}
	present, contracts := contractsOf(all[core])
	var plans []Plan
	for _, c := range contracts {
		plan, whole := planFor(c, all)
		if c == present || whole {
			plans = append(plans, plan)
		}
	}
	return plans
}

// contractsOf returns the present version of the contract, and those of the core's
// releases from that on.
func contractsOf(core Releases) (present string, all []string) {
	if inventory.BuiltIn(core.Provider) || core.Metadata == nil {
		return contract.Versions()[0], contract.Versions()[:1]
	}
	present = keeps(core, core.Provider.Version)
	for _, s := range core.Metadata.ReleaseSeries {
		if apimachineryversion.CompareKubeAwareVersionStrings(s.Contract, present) >= 0 && !slices.Contains(all, s.Contract) {
			all = append(all, s.Contract)
		}
	}
	slices.SortFunc(all, apimachineryversion.CompareKubeAwareVersionStrings)
	return present, all
}

// keeps is the version of the contract that a release implements, and empty if that is
// not known.
func keeps(r Releases, of string) string {
	if r.Metadata == nil {
		return ""
	}
	c, _ := repository.Contract(r.Metadata, of) // an unknown one fits nothing
	return c
}

// planFor plans for one contract, and reports whether all providers have a release for
// it.
func planFor(c string, all []Releases) (plan Plan, whole bool) {
	plan, whole = Plan{Contract: c, Applicable: c == contract.Versions()[0]}, true
	for _, r := range all {
		item := Item{Provider: r.Provider}
		switch {
		case inventory.BuiltIn(r.Provider):
			item.Note = noteBuiltIn
		case r.Unknown != "":
			item.Note = r.Unknown
		default:
			next := newest(r, c)
			if current, err := version.ParseSemantic(r.Provider.Version); next != nil && (err != nil || current.LessThan(next)) {
				item.Next = "v" + next.String()
			} else {
				item.Note = noteNewest
				whole = whole && works(r.Provider.GetProviderType(), keeps(r, r.Provider.Version), c)
			}
		}
		plan.Items = append(plan.Items, item)
	}
	return plan, whole
}

// newest is the newest release of a provider that works with a core that implements c.
func newest(r Releases, c string) (best *version.Version) {
	for _, text := range r.Versions {
		v, err := version.ParseSemantic(text)
		if err == nil && v.PreRelease() == "" && works(r.Provider.GetProviderType(), keeps(r, text), c) && (best == nil || best.LessThan(v)) {
			best = v
		}
	}
	return best
}

// works reports whether a provider that implements one version of the contract works with
// a core that implements c: the newest core supports the version before, too.
func works(t clusterctlv1.ProviderType, keeps, c string) bool {
	known := contract.Versions()
	return keeps == c || t != clusterctlv1.CoreProviderType && c == known[0] && slices.Contains(known, keeps)
}

// Named is an upgrade to the named versions; all that is wrong with it is one error.
// Providers that are not named keep theirs, and must continue to work.
func Named(all []Releases, s install.Selection) (Plan, error) {
	var installed inventory.Providers
	for _, r := range all {
		installed = append(installed, r.Provider)
	}
	wanted, err := s.Wanted()
	if err != nil {
		return Plan{}, err
	}
	if found, err := install.Installed(s, installed, mayGo); err != nil {
		return Plan{}, err
	} else if err := once(found); err != nil {
		return Plan{}, err
	} else {
		wanted = at(wanted, found)
	}
	c := contract.Versions()[0]
	plan := Plan{Contract: c, Applicable: true}
	var errs []error
	for _, r := range all {
		item := Item{Provider: r.Provider, Note: "not named"}
		if i := slices.IndexFunc(wanted, func(w install.Wanted) bool {
			return w.Namespace == r.Provider.Namespace && w.Label() == r.Provider.Name
		}); i >= 0 {
			if item.Note = noteNewest; wanted[i].Version != r.Provider.Version {
				item.Next, item.Note = wanted[i].Version, ""
			}
		}
		errs = append(errs, staysWhole(r, item, c))
		plan.Items = append(plan.Items, item)
	}
	return plan, errors.Join(errs...)
}

// at fills in the namespaces of the installed providers.
func at(wanted []install.Wanted, found inventory.Providers) []install.Wanted {
	for i := range wanted {
		wanted[i].Namespace = found[i].Namespace
	}
	return wanted
}

func once(found inventory.Providers) error {
	for i, p := range found {
		if slices.ContainsFunc(found[:i], func(o clusterctlv1.Provider) bool { return o.Name == p.Name && o.Namespace == p.Namespace }) {
			return fmt.Errorf("%s is named twice", p.Name)
		}
	}
	return nil
}

// mayGo returns an error if a provider may not change to a version.
func mayGo(w install.Wanted, p clusterctlv1.Provider) error {
	if w.Version == "" {
		return fmt.Errorf("%s without a version: give the one to go to, as %s:v1.2.3", w.Label(), w.Name)
	}
	from, errFrom := version.ParseSemantic(p.Version)
	to, errTo := version.ParseSemantic(w.Version)
	if errFrom == nil && errTo == nil && to.LessThan(from) {
		return fmt.Errorf("%s is installed in version %s: it cannot go back to %s", w.Label(), p.Version, w.Version)
	}
	return nil
}

// staysWhole returns an error if a provider would not work with the others after an
// upgrade.
func staysWhole(r Releases, item Item, c string) error {
	of := item.Next
	switch {
	case of != "":
		return skipsTooMuch(item)
	case inventory.BuiltIn(r.Provider), r.Metadata == nil:
		return nil // the installed one fits, the other is unknown
	}
	if k := keeps(r, r.Provider.Version); !works(r.Provider.GetProviderType(), k, c) {
		return fmt.Errorf("%s %s keeps the contract %q and would not work with %s: name a version of it, too", r.Provider.Name, r.Provider.Version, k, c)
	}
	return nil
}

// skipsTooMuch returns an error if core or a kubeadm provider would skip too many
// versions.
func skipsTooMuch(item Item) error {
	p := item.Provider
	if !slices.Contains([]string{"cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm"}, p.Name) {
		return nil
	}
	from, errFrom := version.ParseSemantic(p.Version)
	to, errTo := version.ParseSemantic(item.Next)
	if errFrom != nil || errTo != nil || from.LessThan(version.MustParseSemantic(firstBounded)) || from.Major() != to.Major() {
		return nil
	}
	if to.Minor() > from.Minor()+maxSkip {
		return fmt.Errorf("%s cannot go from %s to %s at once: at most %d minor versions can be passed, go to one up to v%d.%d first", p.Name, p.Version, item.Next, maxSkip, from.Major(), from.Minor()+maxSkip)
	}
	return nil
}

// Allowed returns the plan for a contract, or an error if it must not be applied.
func Allowed(plans []Plan, c string) (Plan, error) {
	var known []string
	for _, p := range plans {
		known = append(known, p.Contract)
		if p.Contract != c {
			continue
		}
		if !p.Applicable {
			return p, fmt.Errorf("contract %s is newer than what this program knows, %s: use a newer one", c, contract.Versions()[0])
		}
		var errs []error
		for _, item := range p.Items {
			if item.Next != "" {
				errs = append(errs, skipsTooMuch(item))
			}
		}
		return p, errors.Join(errs...)
	}
	return Plan{}, fmt.Errorf("there is no upgrade to the contract %s: there are %s", c, strings.Join(known, ", "))
}

// newestOf is the newest of some versions; those that are not semantic are ignored.
func newestOf(all []string) (best string) {
	var newest *version.Version
	for _, text := range all {
		if v, err := version.ParseSemantic(text); err == nil && (newest == nil || newest.LessThan(v)) {
			best, newest = text, v
		}
	}
	return best
}
