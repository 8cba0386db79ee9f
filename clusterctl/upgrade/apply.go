// SPDX-License-Identifier: Apache-2.0

package upgrade

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterctlv1 "github.com/capstan-dev/capstan/api/clusterctl/v1alpha3"
	"github.com/capstan-dev/capstan/clusterctl/apply"
	"github.com/capstan-dev/capstan/clusterctl/config"
	"github.com/capstan-dev/capstan/clusterctl/install"
	"github.com/capstan-dev/capstan/clusterctl/inventory"
	"github.com/capstan-dev/capstan/clusterctl/repository"
	"github.com/capstan-dev/capstan/contract"
	"github.com/capstan-dev/capstan/internal/access/migration"
)

const (
	// stopTimeout is how long the Pods of controllers may take to end; upstream has the
	// same.
	stopTimeout = time.Minute
)

// Certificates is the controller that issues the Certificates of providers, and may be
// upgraded.
type Certificates interface {
	// Upgrade upgrades it, if Capstan manages it.
	Upgrade(ctx context.Context) error
}

// Upgrader upgrades the providers of one management cluster.
type Upgrader struct {
	Cluster *apply.Cluster
	Source  install.Source
	// Certificates is nil where they are issued by other means.
	Certificates Certificates
	// Progress receives what happens, for people.
	Progress func(text string)
}

// Read reads the releases of all installed providers.
func (u *Upgrader) Read(ctx context.Context) (all []Releases, err error) {
	if err := u.Cluster.Supported(); err != nil {
		return nil, err
	}
	if err := install.CheckCore(ctx, u.Cluster, contract.Versions()); err != nil {
		return nil, err
	}
	installed, err := inventory.New(u.Cluster.Client()).List(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range installed {
		r, err := u.read(ctx, p)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// read reads the releases of a provider. It leaves out new ones without files.
func (u *Upgrader) read(ctx context.Context, p clusterctlv1.Provider) (r Releases, err error) {
	r.Provider = p
	w := install.Wanted{Name: p.ProviderName, Type: p.GetProviderType(), Version: p.Version}
	if inventory.BuiltIn(p) {
		return r, nil
	}
	r.Versions, err = u.Source.Versions(ctx, w)
	if _, unknown := errors.AsType[*config.UnknownProviderError](err); unknown {
		r.Unknown = "the configuration does not say where it is released"
		return r, nil
	}
	if err != nil {
		return r, fmt.Errorf("look for the releases of %s: %w", p.Name, err)
	}
	for n := 1; ; n++ {
		newest := newestOf(append(slices.Clone(r.Versions), p.Version))
		r.Metadata, err = u.Source.Metadata(ctx, w, newest)
		if err == nil {
			return r, nil
		}
		if !errors.As(err, new(*repository.NotFoundError)) || newest == p.Version || n == repository.Candidates {
			return r, fmt.Errorf("look for the releases of %s: %w", p.Name, err)
		}
		r.Versions = slices.DeleteFunc(r.Versions, func(v string) bool { return v == newest })
	}
}

// Apply upgrades providers to the versions of a plan. It reads and checks everything
// before the first write. An interrupted upgrade is resumed by running it again: a
// provider keeps its version in the inventory until the new one is complete.
func (u *Upgrader) Apply(ctx context.Context, plan Plan, wait time.Duration) (done inventory.Providers, err error) {
	installed, err := inventory.New(u.Cluster.Client()).List(ctx)
	if err != nil {
		return nil, err
	}
	var releases []install.Release
	for _, item := range plan.Items {
		if item.Next == "" {
			continue
		}
		w := install.Wanted{Name: item.Provider.ProviderName, Type: item.Provider.GetProviderType(), Version: item.Next}
		r, err := u.Source.Release(ctx, w, item.Provider.Namespace)
		if err != nil {
			return nil, err
		}
		if err := install.Fits(r); err != nil {
			return nil, err
		}
		if err := install.BindLocal(r, installed, u.Progress); err != nil {
			return nil, err
		}
		releases = append(releases, r)
	}
	if err := u.check(ctx, releases); err != nil {
		return nil, err
	}
	if u.Certificates != nil { // also where all providers stay
		if err := u.Certificates.Upgrade(ctx); err != nil {
			return nil, err
		}
	}
	if len(releases) > 0 {
		if done, err = u.replace(ctx, releases); err != nil {
			return done, err
		}
	}
	if err := u.wait(ctx, plan, wait); err != nil {
		return done, err
	}
	for _, r := range releases {
		u.storeAll(ctx, r)
	}
	return done, nil
}

// wait waits for the controllers of all providers of a plan, at most for limit: also for
// those that are up to date, since a user whose upgrade reported that they are not
// available runs the same command again.
func (u *Upgrader) wait(ctx context.Context, plan Plan, limit time.Duration) error {
	var managers []*unstructured.Unstructured
	for _, item := range plan.Items {
		if limit == 0 {
			return nil
		}
		found, err := u.Cluster.Find(ctx, install.Labels(item.Provider), item.Provider.Namespace)
		if err != nil {
			return err
		}
		managers = append(managers, apply.Managers(found.Objects)...)
	}
	if len(managers) == 0 {
		return nil
	}
	return install.WaitForManagers(ctx, u.Cluster, managers, limit, u.Progress)
}

// check returns what is wrong before anything is written.
func (u *Upgrader) check(ctx context.Context, releases []install.Release) error {
	p, err := install.Planned(releases)
	if err != nil {
		return err
	}
	if u.Certificates != nil {
		p.Coming = append(p.Coming, "cert-manager.io")
	}
	var old []*unstructured.Unstructured
	for _, r := range releases {
		found, err := u.Cluster.Find(ctx, install.Labels(*r.InventoryObject()), r.Namespace)
		if err != nil {
			return err
		}
		old = append(old, found.Objects...)
	}
	if err := u.Cluster.Allowed(ctx, old, "delete", "patch"); err != nil {
		return err
	}
	// A definition that drops a version at which objects are stored is refused until they
	// are migrated.
	later := map[string]bool{}
	for _, obj := range p.Objects {
		drops, err := u.drops(ctx, obj)
		if err != nil {
			return err
		}
		later[apply.Name(obj)] = drops
	}
	p.Later = func(obj *unstructured.Unstructured) bool { return later[apply.Name(obj)] }
	p.Replaced = true
	return u.Cluster.Check(ctx, p)
}

// replace stops all controllers, then replaces the old objects of one provider after the
// other with the new ones. Definitions and Namespaces stay.
func (u *Upgrader) replace(ctx context.Context, releases []install.Release) (done inventory.Providers, err error) {
	inv := inventory.New(u.Cluster.Client())
	for _, r := range releases {
		if err := u.rewriteStored(ctx, r); err != nil { // while the old controllers can convert
			return nil, err
		}
	}
	if err := u.stop(ctx, releases); err != nil {
		return nil, err
	}
	for _, r := range releases {
		u.Progress(fmt.Sprintf("Upgrading %s in namespace %s to %s", r.Label(), r.Namespace, r.Version))
		if err := u.one(ctx, inv, r); err != nil {
			return done, fmt.Errorf("upgrade %s: %w\nupgraded so far: %d of %d providers; run the same command to continue", r, err, len(done), len(releases))
		}
		done = append(done, *r.InventoryObject())
	}
	return done, nil
}

// stop scales all Deployments of the providers to zero.
func (u *Upgrader) stop(ctx context.Context, releases []install.Release) error {
	var deployments []*unstructured.Unstructured
	for _, r := range releases {
		found, err := u.Cluster.Find(ctx, install.Labels(*r.InventoryObject()), r.Namespace)
		if err != nil {
			return err
		}
		deployments = append(deployments, apply.Deployments(found.Objects)...)
	}
	if len(deployments) == 0 {
		return nil
	}
	u.Progress("Stopping the controllers of the providers that are upgraded")
	limited, cancel := context.WithTimeoutCause(ctx, stopTimeout, fmt.Errorf("controllers have not ended after %s", stopTimeout))
	defer cancel()
	return u.Cluster.Stop(limited, deployments)
}

func (u *Upgrader) one(ctx context.Context, inv inventory.Inventory, r install.Release) error {
	found, err := u.Cluster.Find(ctx, install.Labels(*r.InventoryObject()), r.Namespace)
	if err != nil {
		return err
	}
	if err := u.Cluster.Delete(ctx, found.Objects); err != nil {
		return err
	}
	if err := u.Cluster.All(ctx, r.Objects()); err != nil {
		return err
	}
	return inv.Record(ctx, *r.InventoryObject())
}

// drops reports whether a definition drops a version at which objects are stored.
func (u *Upgrader) drops(ctx context.Context, obj *unstructured.Unstructured) (bool, error) {
	if !apply.IsDefinition(obj) {
		return false, nil
	}
	live, err := u.definition(ctx, obj.GetName())
	if live == nil || err != nil {
		return false, err
	}
	want := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, want); err != nil {
		return false, fmt.Errorf("%s: %w", apply.Name(obj), err)
	}
	return slices.ContainsFunc(live.Status.StoredVersions, func(stored string) bool {
		return !slices.ContainsFunc(want.Spec.Versions, func(v apiextensionsv1.CustomResourceDefinitionVersion) bool { return v.Name == stored })
	}), nil
}

// definition is nil if none has that name.
func (u *Upgrader) definition(ctx context.Context, name string) (*apiextensionsv1.CustomResourceDefinition, error) {
	crd := &apiextensionsv1.CustomResourceDefinition{}
	err := u.Cluster.Client().Get(ctx, client.ObjectKey{Name: name}, crd)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get CustomResourceDefinition %s: %w", name, err)
	}
	return crd, nil
}

// rewriteStored stores the objects of definitions at their storage version, where a new
// definition drops another one.
func (u *Upgrader) rewriteStored(ctx context.Context, r install.Release) error {
	for _, obj := range r.Objects() {
		drops, err := u.drops(ctx, obj)
		if err != nil {
			return err
		}
		if !drops {
			continue
		}
		n, err := migration.Run(ctx, u.Cluster.Client(), obj.GetName())
		if err != nil {
			return err
		}
		u.Progress(fmt.Sprintf("%s: %d objects stored again, before a version in which they may be stored is removed", apply.Name(obj), n))
	}
	return nil
}

// storeAll stores the objects of the definitions of a release at their new storage
// version. What cannot be stored yet, for example because their conversion webhook is not
// ready, is stored before the next upgrade that needs it.
func (u *Upgrader) storeAll(ctx context.Context, r install.Release) {
	for _, obj := range r.Objects() {
		if !apply.IsDefinition(obj) {
			continue
		}
		crd, err := u.definition(ctx, obj.GetName())
		if err == nil && (crd == nil || !migration.Needed(crd)) {
			continue
		}
		n := 0
		if err == nil {
			n, err = migration.Run(ctx, u.Cluster.Client(), obj.GetName())
		}
		if err != nil {
			u.Progress(fmt.Sprintf("%s: objects stay as they are stored until the next upgrade: %v", apply.Name(obj), err))
			continue
		}
		u.Progress(fmt.Sprintf("%s: %d objects stored again", apply.Name(obj), n))
	}
}
