// SPDX-License-Identifier: Apache-2.0

package install

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	clusterv1 "github.com/capstan-dev/capstan/api/core/v1beta2"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/internal/kit/suggest"
)

// DeleteOptions define what to delete.
type DeleteOptions struct {
	// Selection are the providers; All means all that are not built in.
	Selection Selection
	All       bool
	// Namespaces deletes the namespaces of the providers, with all that is in them,
	// and Definitions their CustomResourceDefinitions.
	Namespaces, Definitions bool
}

// Deletion is the plan of a deletion.
type Deletion struct {
	Providers inventory.Providers
	// BuiltIn are those that All skips.
	BuiltIn inventory.Providers

	options DeleteOptions
	found   []apply.Installed
}

// PlanDelete lists what must be deleted, and returns an error if something prevents it.
// It changes nothing.
func (i *Installer) PlanDelete(ctx context.Context, o DeleteOptions) (*Deletion, error) {
	installed, err := inventory.New(i.Cluster.Client()).List(ctx)
	if err != nil {
		return nil, err
	}
	d := &Deletion{options: o}
	if o.All {
		for _, p := range installed {
			if inventory.BuiltIn(p) {
				d.BuiltIn = append(d.BuiltIn, p)
			} else {
				d.Providers = append(d.Providers, p)
			}
		}
	} else if d.Providers, err = Installed(o.Selection, installed, sameVersion); err != nil {
		return nil, err
	}
	for _, p := range d.Providers {
		found, err := i.Cluster.Find(ctx, Labels(p), p.Namespace)
		if err != nil {
			return nil, fmt.Errorf("look for %s: %w", p.Name, err)
		}
		d.found = append(d.found, found)
	}
	return d, errors.Join(i.Cluster.Allowed(ctx, d.objects(), "delete"), i.unused(ctx, d))
}

// Installed returns the named providers as they are installed, in the order of their
// names; all that is wrong with the names is one error.
func Installed(s Selection, installed inventory.Providers, check func(Wanted, clusterctlv1.Provider) error) (found inventory.Providers, err error) {
	wanted, err := s.Wanted()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, w := range wanted {
		p, err := find(w, installed)
		if err == nil {
			err = check(w, p)
		}
		errs = append(errs, err)
		found = append(found, p)
	}
	return found, errors.Join(errs...)
}

func find(w Wanted, installed inventory.Providers) (clusterctlv1.Provider, error) {
	var instances inventory.Providers
	var names []string
	for _, p := range installed.Named(w.Name, w.Type) {
		if w.Namespace == "" || w.Namespace == p.Namespace {
			instances = append(instances, p)
		}
	}
	for _, p := range installed.OfType(w.Type) {
		names = append(names, p.ProviderName)
	}
	switch {
	case len(instances) == 0 && w.Namespace != "":
		return clusterctlv1.Provider{}, fmt.Errorf("%s is not installed in namespace %s%s", w.Label(), w.Namespace, suggest.Hint(w.Name, names))
	case len(instances) == 0:
		return clusterctlv1.Provider{}, fmt.Errorf("%s is not installed%s", w.Label(), suggest.Hint(w.Name, names))
	case len(instances) > 1:
		return clusterctlv1.Provider{}, fmt.Errorf("%s is installed %d times: say which, as NAMESPACE/%s", w.Label(), len(instances), w.Name)
	case inventory.BuiltIn(instances[0]):
		return clusterctlv1.Provider{}, fmt.Errorf("%s is built into the management cluster: it comes and goes with the program that runs that, and is not deleted or upgraded by itself", w.Label())
	}
	return instances[0], nil
}

// sameVersion requires that the named version is the installed one.
func sameVersion(w Wanted, p clusterctlv1.Provider) error {
	if w.Version != "" && w.Version != p.Version {
		return fmt.Errorf("%s is installed in version %s, not %s: name that one, or none", w.Label(), p.Version, w.Version)
	}
	return nil
}

// Labels are those of the components of a provider.
func Labels(p clusterctlv1.Provider) map[string]string {
	return map[string]string{clusterctlv1.ClusterctlLabel: "", clusterv1.ProviderNameLabel: p.Name}
}

func (d *Deletion) objects() (all []*unstructured.Unstructured) {
	for _, f := range d.found {
		all = append(all, f.Objects...)
		if d.options.Definitions {
			all = append(all, f.Definitions...)
		}
		if d.options.Namespaces {
			all = append(all, f.Namespace...)
		}
	}
	return all
}

// unused refuses to delete definitions that have objects.
func (i *Installer) unused(ctx context.Context, d *Deletion) error {
	if !d.options.Definitions {
		return nil
	}
	var all []string
	for _, f := range d.found {
		names, err := i.Cluster.Objects(ctx, f.Definitions)
		if err != nil {
			return err
		}
		all = append(all, names...)
	}
	if len(all) > 0 {
		return fmt.Errorf("there are objects of the kinds that would be deleted, and they would go with them:\n* %s\ndelete them first, or leave the definitions", strings.Join(all, "\n* "))
	}
	return nil
}

// Delete deletes what was planned. A provider stays in the inventory until the rest of it
// is deleted, so that an interrupted deletion is resumed by running it again.
func (i *Installer) Delete(ctx context.Context, d *Deletion) error {
	inv := inventory.New(i.Cluster.Client())
	var errs []error
	for n, p := range d.Providers {
		i.Progress(fmt.Sprintf("Deleting %s %s in namespace %s", p.Name, p.Version, p.Namespace))
		f := d.found[n]
		if err := i.delete(ctx, inv, p, f, d.options); err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", p.Name, err))
			continue
		}
		for _, obj := range f.Shared {
			i.Progress(fmt.Sprintf("%s stays: it is not named after namespace %s, so others may use it", apply.Name(obj), p.Namespace))
		}
	}
	return errors.Join(errs...)
}

func (i *Installer) delete(ctx context.Context, inv inventory.Inventory, p clusterctlv1.Provider, f apply.Installed, o DeleteOptions) error {
	if err := i.Cluster.Delete(ctx, f.Objects); err != nil {
		return err
	}
	if o.Definitions {
		if err := i.Cluster.Delete(ctx, f.Definitions); err != nil {
			return err
		}
	}
	if o.Namespaces { // deleting its other content takes a while, and deletes the inventory's object too
		if err := i.Cluster.Ask(ctx, f.Namespace); err != nil {
			return err
		}
	}
	return inv.Remove(ctx, p)
}
